"""Compiled functions for other compiled code: C, ctypes, numba's njit, SciPy's low-level callbacks."""

from jitgraph.native.function import FunctionPointer, native_function

__all__ = ["FunctionPointer", "native_function"]
