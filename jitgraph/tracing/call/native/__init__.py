"""Warm calls of traced functions that go past Python.

In come plans with their guards. Out go tables of records, which the dispatcher (``eager/dispatch``) walks at a call.
"""

from jitgraph.eager.dispatch.function import enable_vectorcall
from jitgraph.tracing.call.native.native_calls import NativeCalls

__all__ = ["NativeCalls", "enable_vectorcall"]
