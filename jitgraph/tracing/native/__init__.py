"""Native calls: warm calls of traced functions that go past Python, by tables that its own guards are written to."""

from jitgraph.tracing.native.program import Unsupported
from jitgraph.tracing.native.start import dispatcher_for
from jitgraph.tracing.native.words import take_words

__all__ = ["Unsupported", "dispatcher_for", "take_words"]
