"""Reductions over axes; ``axis`` is an int, a tuple or None for all, and ``keepdims`` keeps them with size 1."""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes, lifting, ops
from jitgraph.errors import ShapeError
from jitgraph.functions.elementwise import _truth
from jitgraph.functions.method import axes_of, axis_of, method
from jitgraph.ir.op import Op
from jitgraph.lifting import TensorLike
from jitgraph.tensor import Tensor

Axis = int | tuple[int, ...] | None


def _reduce(op: Op, value: Any, axis: Axis, keepdims: bool, name: str) -> Tensor:
    axes = axes_of(axis, value.type.ndim, name)
    result = op(value, axes=axes) if axes else value
    return lifting.wrap(_keep(result, value.type.shape, axes) if keepdims else result)


def _keep(result: Any, shape: tuple[Any, ...], axes: tuple[int, ...]) -> Any:
    return ops.reshape(result, shape=tuple(1 if i in axes else size for i, size in enumerate(shape)))


def _accumulator(value: Any) -> Any:
    """Bools and narrow integers are summed in the widest integer of their sign, as NumPy does."""
    dtype = value.type.dtype
    if dtypes.is_float(dtype) or dtype.itemsize == 8:
        return value
    return lifting.cast(value, dtypes.uint64 if dtype.kind == "u" else dtypes.int64)


@method
def sum(x: TensorLike, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Sum; bools and narrow integers in 64 bits, 16-bit floats accumulated in float32; 0 for no elements."""
    value = lifting.value_of(x)
    value = _accumulator(value) if dtype is None else lifting.cast(value, dtypes.canonical(dtype))
    return _reduce(ops.reduce_sum, value, axis, keepdims, "sum")


@method
def prod(x: TensorLike, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Product; bools and narrow integers in 64 bits; 1 for no elements."""
    value = lifting.value_of(x)
    value = _accumulator(value) if dtype is None else lifting.cast(value, dtypes.canonical(dtype))
    return _reduce(ops.reduce_prod, value, axis, keepdims, "prod")


def _extremum(op: Op, x: TensorLike, axis: Axis, keepdims: bool, name: str) -> Tensor:
    value = lifting.value_of(x)
    axes = axes_of(axis, value.type.ndim, name)
    if any(value.type.shape[a] == 0 for a in axes if isinstance(value.type.shape[a], int)):
        raise ShapeError(f"{name} of no elements: the shape is {value.type.shape}, axis {axis}")
    return _reduce(op, value, axis, keepdims, name)


@method
def max(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Largest element; NaN where there is one. ShapeError for no elements."""
    return _extremum(ops.reduce_max, x, axis, keepdims, "max")


@method
def min(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Smallest element; NaN where there is one. ShapeError for no elements."""
    return _extremum(ops.reduce_min, x, axis, keepdims, "min")


@method
def any(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """True where any element is nonzero; False for no elements."""
    return _reduce(ops.reduce_max, _truth(x).value, axis, keepdims, "any")


@method
def all(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """True where every element is nonzero; True for no elements."""
    return _reduce(ops.reduce_min, _truth(x).value, axis, keepdims, "all")


def _floats(x: TensorLike) -> Any:
    value = lifting.value_of(x)
    return value if dtypes.is_float(value.type.dtype) else lifting.cast(value, dtypes.float32)


@method
def mean(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Arithmetic mean; integers in float32; NaN for no elements."""
    return _reduce(ops.mean, _floats(x), axis, keepdims, "mean")


@method
def var(x: TensorLike, axis: Axis = None, *, correction: int | float = 0, keepdims: bool = False) -> Tensor:
    """Variance in two passes: squared distances from the mean, divided by n - ``correction``."""
    value = _floats(x)
    axes = axes_of(axis, value.type.ndim, "var")
    result = ops.var(value, axes=axes, correction=float(correction))
    return lifting.wrap(_keep(result, value.type.shape, axes) if keepdims else result)


@method
def std(x: TensorLike, axis: Axis = None, *, correction: int | float = 0, keepdims: bool = False) -> Tensor:
    """Square root of ``var``."""
    return lifting.wrap(ops.sqrt(var(x, axis, correction=correction, keepdims=keepdims).value))


@method
def logsumexp(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) without overflow."""
    return _reduce(ops.logsumexp, _floats(x), axis, keepdims, "logsumexp")


def _arg(op: Op, x: TensorLike, axis: int | None, keepdims: bool, name: str) -> Tensor:
    value = lifting.value_of(x)
    shape = value.type.shape
    if axis is None:
        flat = ops.reshape(value, shape=(value.type.size,))
        result = op(flat, axis=0)
        return lifting.wrap(_keep(result, shape, tuple(range(len(shape)))) if keepdims else result)
    number = axis_of(axis, len(shape), name)
    result = op(value, axis=number)
    return lifting.wrap(_keep(result, shape, (number,)) if keepdims else result)


@method
def argmax(x: TensorLike, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index (int64) of the first largest element, of the first NaN where there is one; of the flat tensor for None."""
    return _arg(ops.argmax, x, axis, keepdims, "argmax")


@method
def argmin(x: TensorLike, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index (int64) of the first smallest element, of the first NaN where there is one; of the flat tensor for None."""
    return _arg(ops.argmin, x, axis, keepdims, "argmin")


@method
def cumsum(x: TensorLike, axis: int = 0) -> Tensor:
    """Running sum along ``axis``; bools and narrow integers in 64 bits."""
    value = _accumulator(lifting.value_of(x))
    return lifting.wrap(ops.cumsum(value, axis=axis_of(axis, value.type.ndim, "cumsum")))


@method
def cumprod(x: TensorLike, axis: int = 0) -> Tensor:
    """Running product along ``axis``; bools and narrow integers in 64 bits."""
    value = _accumulator(lifting.value_of(x))
    return lifting.wrap(ops.cumprod(value, axis=axis_of(axis, value.type.ndim, "cumprod")))


@method
def softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along ``axis``, without overflow."""
    value = _floats(x)
    return lifting.wrap(ops.softmax(value, axis=axis_of(axis, value.type.ndim, "softmax")))


@method
def log_softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """log(softmax(x)) along ``axis``, without overflow."""
    value = _floats(x)
    return lifting.wrap(ops.log_softmax(value, axis=axis_of(axis, value.type.ndim, "log_softmax")))


@method
def sort(x: TensorLike, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Elements in order along ``axis``, NaN last; always stable."""
    value = lifting.value_of(x)
    return lifting.wrap(ops.sort(value, axis=axis_of(axis, value.type.ndim, "sort"), descending=descending)[0])


@method
def argsort(x: TensorLike, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Indices (int64) that sort along ``axis``, NaN last; always stable."""
    value = lifting.value_of(x)
    return lifting.wrap(ops.sort(value, axis=axis_of(axis, value.type.ndim, "argsort"), descending=descending)[1])
