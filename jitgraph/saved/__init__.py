"""``jg.save`` and ``jg.load``: traced functions as ``.jg`` files."""

from jitgraph.saved.reading import SavedModel, load
from jitgraph.saved.writing import save

__all__ = ["SavedModel", "load", "save"]
