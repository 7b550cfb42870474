"""``jg.save`` and ``jg.load``: traced functions as ``.jg`` files."""

from jitgraph.saved.reading import SavedModel, load, load_state
from jitgraph.saved.writing import save

__all__ = ["SavedModel", "load", "load_state", "save"]
