"""Running sums, products and extremes along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.errors import ShapeError
from jitgraph.ir.op import Op
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.method import axis_of, method
from jitgraph.tensor.functions.reductions import accumulator
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


def _running(op: Callable[..., Any], value: Any, axis: int | None, name: str) -> Tensor:
    if axis is None and value.type.ndim != 1:
        raise ShapeError(f"{name} of a tensor of rank {value.type.ndim} needs an axis", hint=f"jg.{name}(x, axis=0)")
    number = 0 if axis is None else axis_of(axis, value.type.ndim, name)
    return wrap(op(value, axis=number))


def _summands(x: TensorLike, dtype: Any) -> Any:
    value = lifting.value_of(x)
    return accumulator(value) if dtype is None else lifting.cast(value, dtypes.canonical(dtype))


@method
def cumsum(x: TensorLike, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Running sum along ``axis``, which is optional for a vector; bools and narrow integers in 64 bits."""
    return _running(ops.cumsum, _summands(x, dtype), axis, "cumsum")


@method
def cumprod(x: TensorLike, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """Running product along ``axis``, which is optional for a vector; bools and narrow integers in 64 bits."""
    value = _summands(x, dtype)
    if dtypes.is_complex(value.dtype):
        from jitgraph.tensor.complex_products import running_product  # here: few programs have complex numbers

        return _running(running_product, value, axis, "cumprod")
    return _running(ops.cumprod, value, axis, "cumprod")


def _from(initial: int, result: Tensor, axis: int | None) -> Tensor:
    """A running result with what it is of no elements put first."""
    value = result.value
    number = 0 if axis is None else axis_of(axis, value.type.ndim, "cumulative")
    first = lifting.repeated(initial, value.dtype, tuple(1 if i == number else n for i, n in enumerate(value.shape)))
    return wrap(ops.concat(*lifting.together(first, value), axis=number))


@method
def cumulative_sum(
    x: TensorLike, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """As ``cumsum``; with ``include_initial`` the result begins with an additional 0."""
    result = cumsum(x, axis, dtype=dtype)
    return _from(0, result, axis) if include_initial else result


@method
def cumulative_prod(
    x: TensorLike, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """As ``cumprod``; with ``include_initial`` the result begins with an additional 1."""
    result = cumprod(x, axis, dtype=dtype)
    return _from(1, result, axis) if include_initial else result


def _running_extreme(op: Op, x: TensorLike, axis: int, name: str) -> tuple[Tensor, Tensor]:
    value = lifting.value_of(x)
    number = axis_of(axis, value.type.ndim, name)
    values = op(value, axis=number)
    reached = ops.eq(value, values)
    if dtypes.is_float(value.type.dtype):
        reached = ops.bitwise_or(reached, ops.isnan(value))
    positions = lifting.positions_along(value.type.shape, number, value)
    latest = ops.cummax(ops.select(reached, positions, lifting.repeated(0, dtypes.int64, positions.shape)), axis=number)
    return wrap(values), wrap(latest)


@method
def cummax(x: TensorLike, axis: int) -> tuple[Tensor, Tensor]:
    """Largest element so far along ``axis``, and its index (int64, the last of equal ones), as in PyTorch."""
    return _running_extreme(ops.cummax, x, axis, "cummax")


@method
def cummin(x: TensorLike, axis: int) -> tuple[Tensor, Tensor]:
    """Smallest element so far along ``axis``, and its index (int64, the last of equal ones), as in PyTorch."""
    return _running_extreme(ops.cummin, x, axis, "cummin")
