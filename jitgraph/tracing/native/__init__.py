"""Native calls: warm calls of traced functions that go past Python, by tables that their guards are written to."""

from jitgraph.tracing.native.native_calls import NativeCalls
from jitgraph.tracing.native.words import take_words

__all__ = ["NativeCalls", "take_words"]
