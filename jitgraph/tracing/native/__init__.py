"""Native calls: warm calls of traced functions that go past Python, by tables that their guards are written to."""

from jitgraph.eager.dispatch.function import enable_vectorcall
from jitgraph.tracing.native.native_calls import NativeCalls

__all__ = ["NativeCalls", "enable_vectorcall"]
