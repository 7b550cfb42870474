"""NumPy evaluation: silent on exceptional values, and 16-bit floats computed in float32 and rounded once.

Evaluations get and give ``numpy.ndarray`` (0-d ones included) of exactly the inferred dtype and shape. A result may be
a view of an operand; nobody writes to either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from jitgraph.dtypes import DType
from jitgraph.ops.rules import HALF

Array: TypeAlias = NDArray[Any]


def widen(x: Array) -> Array:
    """``x`` in float32 where it is a 16-bit float, else ``x``."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype in HALF else x


def widen_dtype(dtype: DType) -> DType:
    """The dtype that ``dtype`` is computed in: float32 for 16-bit floats, else itself."""
    return np.dtype(np.float32) if dtype in HALF else dtype


def rounded(evaluate: Callable[..., Any]) -> Callable[..., Array]:
    """``evaluate`` without warnings, in float32 for 16-bit floats, its result of the first operand's dtype."""

    def run(*arrays: Array, **attrs: Any) -> Array:
        dtype = arrays[0].dtype
        with np.errstate(all="ignore"):
            if dtype.itemsize == 2 and dtype in HALF:
                return np.asarray(evaluate(*(x.astype(np.float32) for x in arrays), **attrs)).astype(dtype)
            return np.asarray(evaluate(*arrays, **attrs), dtype)

    return run


def silent(evaluate: Callable[..., Any]) -> Callable[..., Array]:
    """``evaluate`` without warnings; 16-bit floats are widened to float32 first, the result keeps its dtype."""

    def run(*arrays: Array, **attrs: Any) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(evaluate(*map(widen, arrays), **attrs))

    return run
