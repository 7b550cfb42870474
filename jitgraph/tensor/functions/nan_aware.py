"""Reductions that pass over NaN, and reductions of two results; ``axis`` and ``keepdims`` as in ``reductions``."""

from __future__ import annotations

import math

from jitgraph import dtypes, ops
from jitgraph.errors import ShapeError
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.complex_numbers import imag, real
from jitgraph.tensor.functions.elementwise import astype, isnan, logical_not, maximum, sqrt, where
from jitgraph.tensor.functions.method import axis_of, method
from jitgraph.tensor.functions.operands import float_tensor, tensor_like
from jitgraph.tensor.functions.reductions import Axis, argmax, argmin, cumprod, cumsum, mean, prod, std, var
from jitgraph.tensor.functions.reductions import all as all_of
from jitgraph.tensor.functions.reductions import max as max_of
from jitgraph.tensor.functions.reductions import min as min_of
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


@method
def nansum(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The sum of elements that are not NaN; 0 for none."""
    tensor = tensor_like(x)
    known = where(isnan(tensor), 0, tensor) if dtypes.is_inexact(tensor.dtype) else tensor
    return sum_of(known, axis, keepdims=keepdims)


def _count(tensor: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    """How many elements are not NaN, in float32 or the tensor's wider dtype."""
    count = sum_of(logical_not(isnan(tensor)), axis, keepdims=keepdims)
    return astype(count, dtypes.float64 if tensor.dtype in (dtypes.float64, dtypes.complex128) else dtypes.float32)


@method
def nanmean(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The mean of elements that are not NaN, which is NaN for none; integers in float32."""
    tensor = float_tensor(x)
    total = sum_of(astype(where(isnan(tensor), 0, tensor), _wide(tensor)), axis, keepdims=keepdims)
    return astype(total / _count(tensor, axis, keepdims), tensor.dtype)


def _wide(tensor: Tensor) -> dtypes.DType:
    """The dtype in which 16-bit floats are summed."""
    return dtypes.float32 if tensor.dtype.itemsize == 2 else tensor.dtype


@method
def nanvar(x: TensorLike, axis: Axis = None, *, correction: int | float = 0, keepdims: bool = False) -> Tensor:
    """The variance of elements that are not NaN, in two passes, divided by max(0, their number - ``correction``)."""
    tensor = float_tensor(x)
    wide = astype(tensor, _wide(tensor))
    missing = isnan(wide)
    left = wide - nanmean(wide, axis, keepdims=True)
    left = where(missing, 0, left - nanmean(left, axis, keepdims=True))  # whose own mean is the rounding of the first
    count = maximum(_count(wide, axis, keepdims) - correction, 0)
    if dtypes.is_complex(wide.dtype):
        squares = real(left) ** 2 + imag(left) ** 2
    else:
        squares = left * left
    return astype(sum_of(squares, axis, keepdims=keepdims) / count, dtypes.part_of(tensor.dtype))


@method
def nanstd(x: TensorLike, axis: Axis = None, *, correction: int | float = 0, keepdims: bool = False) -> Tensor:
    """The square root of ``nanvar``; its gradient is 0 where that is 0."""
    spread = nanvar(x, axis, correction=correction, keepdims=keepdims)
    flat = spread == 0
    return where(flat, 0, sqrt(where(flat, 1, spread)))


def _extreme(x: TensorLike, axis: Axis, keepdims: bool, *, largest: bool) -> Tensor:
    tensor = tensor_like(x)
    choose = max_of if largest else min_of
    if not dtypes.is_float(tensor.dtype):
        return choose(tensor, axis, keepdims=keepdims)
    missing = isnan(tensor)
    extreme = choose(where(missing, -math.inf if largest else math.inf, tensor), axis, keepdims=keepdims)
    return where(all_of(missing, axis, keepdims=keepdims), math.nan, extreme)


@method
def nanmax(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The largest element that is not NaN; NaN where all are. ShapeError for no elements."""
    return _extreme(x, axis, keepdims, largest=True)


@method
def nanmin(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The smallest element that is not NaN; NaN where all are. ShapeError for no elements."""
    return _extreme(x, axis, keepdims, largest=False)


def _position(x: TensorLike, axis: int | None, keepdims: bool, *, largest: bool) -> Tensor:
    tensor = tensor_like(x)
    find = argmax if largest else argmin
    if not dtypes.is_float(tensor.dtype):
        return find(tensor, axis, keepdims=keepdims)
    name = "nanargmax" if largest else "nanargmin"
    missing = isnan(tensor)
    somewhere = logical_not(all_of(missing, axis)).value
    every = ops.reduce_min(somewhere, axes=tuple(range(somewhere.type.ndim))) if somewhere.type.ndim else somewhere
    ops.check(every, kind="ValueError", message=f"{name} of elements that are all NaN")
    worst = -math.inf if largest else math.inf
    filled = where(missing, worst, tensor)
    best = (max_of if largest else min_of)(filled, axis, keepdims=True)
    return argmax((filled == best) & logical_not(missing), axis, keepdims=keepdims)


@method
def nanargmax(x: TensorLike, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The index (int64) of the first largest element that is not NaN; ValueError where all are."""
    return _position(x, axis, keepdims, largest=True)


@method
def nanargmin(x: TensorLike, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The index (int64) of the first smallest element that is not NaN; ValueError where all are."""
    return _position(x, axis, keepdims, largest=False)


# --- two results, and what is made of two ---------------------------------------------------------------------------


@method
def aminmax(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> tuple[Tensor, Tensor]:
    """The smallest and the largest element; NaN where there is one. ShapeError for no elements."""
    tensor = tensor_like(x)
    return min_of(tensor, axis, keepdims=keepdims), max_of(tensor, axis, keepdims=keepdims)


@method
def ptp(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The largest element minus the smallest one; integers wrap."""
    low, high = aminmax(x, axis, keepdims=keepdims)
    return high - low


@method
def std_mean(
    x: TensorLike, axis: Axis = None, *, correction: int | float = 0, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """``std`` and ``mean``; the correction is 0 unless given, as everywhere in jg (PyTorch's own is 1)."""
    tensor = float_tensor(x)
    return std(tensor, axis, correction=correction, keepdims=keepdims), mean(tensor, axis, keepdims=keepdims)


@method
def var_mean(
    x: TensorLike, axis: Axis = None, *, correction: int | float = 0, keepdims: bool = False
) -> tuple[Tensor, Tensor]:
    """``var`` and ``mean``; the correction is 0 unless given, as everywhere in jg (PyTorch's own is 1)."""
    tensor = float_tensor(x)
    return var(tensor, axis, correction=correction, keepdims=keepdims), mean(tensor, axis, keepdims=keepdims)


@method
def average(x: TensorLike, axis: Axis = None, weights: TensorLike | None = None, *, keepdims: bool = False) -> Tensor:
    """The mean, each element with its weight: of the shape of x, or a vector along one ``axis``."""
    tensor = float_tensor(x)
    if weights is None:
        return mean(tensor, axis, keepdims=keepdims)
    weight = wrap(lifting.beside(weights, tensor)[0])
    if weight.value.type.shape != tensor.value.type.shape:
        if not isinstance(axis, int) or weight.ndim != 1:
            raise ShapeError(f"average: weights {weight.value.type} of {tensor.value.type} need the axis they are for")
        number = axis_of(axis, tensor.ndim, "average")
        weight = reshape(weight, (weight.value.type.size, *[1] * (tensor.ndim - number - 1)))
    weight = wrap(lifting.broadcast_to(weight.value, tensor.value.type.shape))
    return sum_of(tensor * weight, axis, keepdims=keepdims) / sum_of(weight, axis, keepdims=keepdims)


def _without_nan(x: TensorLike, neutral: int) -> Tensor:
    tensor = tensor_like(x)
    return where(isnan(tensor), neutral, tensor) if dtypes.is_inexact(tensor.dtype) else tensor


@method
def nanprod(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The product of elements that are not NaN; 1 for none."""
    return prod(_without_nan(x, 1), axis, keepdims=keepdims)


@method
def nancumsum(x: TensorLike, axis: int | None = None) -> Tensor:
    """Running sum along ``axis``, which a vector may leave out, in which NaN counts as 0."""
    return cumsum(_without_nan(x, 0), axis)


@method
def nancumprod(x: TensorLike, axis: int | None = None) -> Tensor:
    """Running product along ``axis``, which a vector may leave out, in which NaN counts as 1."""
    return cumprod(_without_nan(x, 1), axis)
