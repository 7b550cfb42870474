"""Comparisons beyond the Array API's: closeness, equality, NaN left out or replaced, infinities, real numbers.

All are written over the array functions, so they are differentiated, fused and compiled as what they are made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes

from jitgraph import dtypes
from jitgraph.eager import placement
from jitgraph.errors import DTypeError
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.complex_numbers import complex as complex_of
from jitgraph.tensor.functions.complex_numbers import imag, real
from jitgraph.tensor.functions.elementwise import (
    abs,
    astype,
    isinf,
    isnan,
    logical_not,
    maximum,
    minimum,
    sign,
    where,
)
from jitgraph.tensor.functions.method import method
from jitgraph.tensor.functions.operands import promoted, tensor_like
from jitgraph.tensor.functions.reductions import all as all_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


@method
def isclose(
    x1: TensorLike, x2: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Whether |x1 - x2| <= atol + rtol * |x2|; infinities are close to themselves, NaN is with ``equal_nan``."""
    a, b = promoted(x1, x2)
    if not dtypes.is_inexact(a.dtype):
        if rtol == 0 and atol == 0:
            return a == b
        a, b = astype(a, dtypes.float64), astype(b, dtypes.float64)
    unbounded = isinf(a) | isinf(b)
    near = (abs(a - b) <= atol + rtol * abs(b)) & ~unbounded
    close: Tensor = near | (a == b)
    return close | (isnan(a) & isnan(b)) if equal_nan else close


@method
def allclose(
    x1: TensorLike, x2: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Whether ``isclose`` holds everywhere, as a tensor of rank 0, which a trace can hold and ``bool()`` reads."""
    return all_of(isclose(x1, x2, rtol, atol, equal_nan))


@method
def array_equal(x1: TensorLike, x2: TensorLike, equal_nan: bool = False) -> Tensor:
    """Whether shapes and all elements are the same, as a tensor of rank 0; PyTorch's ``equal``."""
    a, b = wrap(lifting.value_of(x1)), wrap(lifting.value_of(x2))
    if a.value.type.shape != b.value.type.shape:
        return wrap(lifting.constant(False, dtypes.bool_))
    same = a == b
    if equal_nan and dtypes.is_inexact(a.dtype) and dtypes.is_inexact(b.dtype):
        same = same | (isnan(a) & isnan(b))
    return all_of(same)


@method
def fmax(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The larger one; if one of them is NaN, the other."""
    return _ignoring_nan(x1, x2, maximum)


@method
def fmin(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The smaller one; if one of them is NaN, the other."""
    return _ignoring_nan(x1, x2, minimum)


def _ignoring_nan(x1: TensorLike, x2: TensorLike, choose: Callable[[Any, Any], Tensor]) -> Tensor:
    a, b = promoted(x1, x2)
    if not dtypes.is_float(a.dtype):
        return choose(a, b)
    return where(isnan(a), b, where(isnan(b), a, choose(a, b)))


@method
def heaviside(x: TensorLike, values: TensorLike) -> Tensor:
    """0 below 0, 1 above and ``values`` at 0; NaN for NaN, as in NumPy."""
    a, at_zero = promoted(x, values)
    step = (sign(a) + 1) * 0.5 if dtypes.is_float(a.dtype) else astype(a > 0, a.dtype)
    return where(a == 0, at_zero, step)


@method
def nan_to_num(x: TensorLike, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """x with NaN replaced by ``nan`` and infinities by ``posinf`` and ``neginf``, or by the greatest finite numbers."""
    a = wrap(lifting.value_of(x))
    if dtypes.is_complex(a.dtype):
        return complex_of(*(nan_to_num(part, nan, posinf, neginf) for part in (real(a), imag(a))))
    if not dtypes.is_float(a.dtype):
        return a
    greatest = float(ml_dtypes.finfo(a.dtype).max)  # type: ignore[no-untyped-call]
    high, low = greatest if posinf is None else posinf, -greatest if neginf is None else neginf
    return where(isnan(a), nan, where(a == math.inf, high, where(a == -math.inf, low, a)))


@method
def isposinf(x: TensorLike) -> Tensor:
    """Whether an element is inf; DTypeError for complex numbers, which have no signs."""
    return _infinite(x, math.inf, "isposinf")


@method
def isneginf(x: TensorLike) -> Tensor:
    """Whether an element is -inf; DTypeError for complex numbers, which have no signs."""
    return _infinite(x, -math.inf, "isneginf")


def _infinite(x: TensorLike, which: float, name: str) -> Tensor:
    tensor = tensor_like(x)
    if dtypes.is_complex(tensor.dtype):
        raise DTypeError(f"{name} of {tensor.value.type}", hint="jg.isinf(x), or of jg.real(x)")
    if not dtypes.is_float(tensor.dtype):
        return wrap(lifting.repeated(False, dtypes.bool_, tensor.value.type.shape))
    return tensor == which


@method
def isreal(x: TensorLike) -> Tensor:
    """Whether an element has no imaginary part; all but complex numbers have none."""
    tensor = tensor_like(x)
    if not dtypes.is_complex(tensor.dtype):
        with placement.beside(tensor.value):
            return wrap(lifting.repeated(True, dtypes.bool_, tensor.value.type.shape))
    return imag(tensor) == 0


@method
def iscomplex(x: TensorLike) -> Tensor:
    """Whether an element has an imaginary part other than 0."""
    return logical_not(isreal(x))
