"""NumPy evaluation: silent on exceptional values, and 16-bit floats computed in float32 and rounded once.

Evaluations get and give ``numpy.ndarray`` (0-d ones included) of exactly the inferred dtype and shape. A result may be
a view of an operand; nobody writes to either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ops.rules import HALF

Array: TypeAlias = "np.ndarray[tuple[Any, ...], np.dtype[Any]]"


def widen(x: Array) -> Array:
    """``x`` in float32 where it is a 16-bit float, else ``x``."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype in HALF else x


def widen_dtype(dtype: DType) -> DType:
    """The dtype that ``dtype`` is computed in: float32 for 16-bit floats, else itself."""
    return np.dtype(np.float32) if dtype in HALF else dtype


def joined(real: Array, imag: Array) -> Array:
    """The complex numbers of these parts, bit for bit: ``real + 1j * imag`` would touch zeros, infinities and NaN."""
    result = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    result.real, result.imag = real, imag
    return result


def least(dtype: DType) -> Any:
    """The least value of ``dtype`` as a Python scalar: -inf, False or the minimum."""
    return -np.inf if dtypes.is_float(dtype) else False if dtypes.is_bool(dtype) else int(np.iinfo(dtype).min)


def greatest(dtype: DType) -> Any:
    """The greatest value of ``dtype`` as a Python scalar: inf, True or the maximum."""
    return np.inf if dtypes.is_float(dtype) else True if dtypes.is_bool(dtype) else int(np.iinfo(dtype).max)


def each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """``function`` of Python floats applied to each element: what the C library has and NumPy lacks.

    Faster than a polynomial written in NumPy, which passes over the array for each of its steps.
    """

    def evaluate(x: Array) -> Array:
        return np.fromiter(map(function, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)

    return evaluate


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
