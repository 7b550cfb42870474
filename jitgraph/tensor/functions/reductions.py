"""Reductions over axes, and running sums, products and extremes along one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.errors import ShapeError, UnsupportedOp
from jitgraph.ir.op import Op
from jitgraph.location import Location
from jitgraph.ops import rules
from jitgraph.runtime import imports
from jitgraph.tensor import element_numbers, lifting
from jitgraph.tensor.direct_calls import DirectCalls, direct_call
from jitgraph.tensor.functions.method import axes_of, axis_of, method
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap

# ----------------------------------------------------------------------
# Reductions over axes; ``axis`` is an int, a tuple or None for all, and ``keepdims`` keeps them with size 1.

Axis = int | Sequence[int] | None


def _reduce(op: Op, value: Any, axis: Axis, keepdims: bool, name: str) -> Tensor:
    axes = axes_of(axis, len(value.shape), name)
    if not value.shape and element_numbers.are_total():
        raise UnsupportedOp(
            f"a function of one element uses {name}, which is no function of single numbers",
            location=Location.of_user(),
            hint=f"call jg.{name} before, and give its result as an argument",
        )
    result = op(value, axes=axes) if axes else value
    return wrap(_keepdims(result, value.type.shape, axes) if keepdims else result)


def _is_selection(x: Any) -> bool:
    """Whether ``x`` is ``y[mask]`` in a trace, whose size is not known there."""
    return isinstance(x, Tensor) and hasattr(x._value, "trailing")


def _of_selection(name: str, x: Any, axis: Axis, keepdims: bool, dtype: Any = None) -> Tensor:
    result: Tensor = imports.module("jitgraph.tensor.selected_reductions").reduced(name, x, axis, keepdims, dtype)
    return result


def _keepdims(result: Any, shape: tuple[Any, ...], axes: tuple[int, ...]) -> Any:
    return ops.reshape(result, shape=tuple(1 if i in axes else size for i, size in enumerate(shape)))


def accumulator(value: Any) -> Any:
    """Bools and narrow integers are summed in the widest integer of their sign, as NumPy does."""
    dtype = value.dtype
    if dtypes.is_inexact(dtype) or dtype.itemsize == 8:
        return value
    return lifting.cast(value, dtypes.uint64 if dtype.kind == "u" else dtypes.int64)


def _calls(reduction: Callable[..., Tensor]) -> DirectCalls:
    """``reduction(x, axis, keepdims)`` of all axes or of one, by the axis and whether that is kept."""
    return DirectCalls(lambda of: direct_call(lambda x: reduction(x, *of), 1))


def _sum(x: TensorLike, axis: Axis, keepdims: bool) -> Tensor:
    if _is_selection(x):
        return _of_selection("sum", x, axis, keepdims)
    return _reduce(ops.reduce_sum, accumulator(lifting.value_of(x)), axis, keepdims, "sum")


_sums = _calls(_sum)


@method
def sum(x: TensorLike, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Sum; bools and narrow integers in 64 bits, 16-bit floats accumulated in float32; 0 for no elements."""
    if dtype is None:
        if keepdims.__class__ is bool and (axis is None or axis.__class__ is int):
            return _sums[axis, keepdims](x)  # type: ignore[no-any-return]
        return _sum(x, axis, keepdims)
    if _is_selection(x):
        return _of_selection("sum", x, axis, keepdims, dtype)
    value = lifting.value_of(x)
    return _reduce(ops.reduce_sum, lifting.cast(value, dtypes.canonical(dtype)), axis, keepdims, "sum")


@method
def prod(x: TensorLike, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """Product; bools and narrow integers in 64 bits; 1 for no elements."""
    if _is_selection(x):
        return _of_selection("prod", x, axis, keepdims, dtype)
    value = lifting.value_of(x)
    value = accumulator(value) if dtype is None else lifting.cast(value, dtypes.canonical(dtype))
    if dtypes.is_complex(value.dtype):
        return wrap(_complex_product(value, axes_of(axis, len(value.shape), "prod"), keepdims=keepdims))
    return _reduce(ops.reduce_prod, value, axis, keepdims, "prod")


def _require_elements(value: Any, axis: Axis, name: str) -> None:
    """ShapeError where there is nothing along ``axis``, to which no element answers."""
    shape = value.type.shape
    for number in axes_of(axis, len(shape), name):
        rules.require_elements(f"{name} of no elements: the shape is {shape}, axis {axis}", shape[number])


def _extremum(op: Op, x: TensorLike, axis: Axis, keepdims: bool, name: str) -> Tensor:
    if _is_selection(x):
        return _of_selection(name, x, axis, keepdims)
    value = lifting.value_of(x)
    _require_elements(value, axis, name)
    return _reduce(op, value, axis, keepdims, name)


_maxima = _calls(lambda x, axis, keepdims: _extremum(ops.reduce_max, x, axis, keepdims, "max"))
_minima = _calls(lambda x, axis, keepdims: _extremum(ops.reduce_min, x, axis, keepdims, "min"))


@method
def max(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Largest element; NaN where there is one. ShapeError for no elements."""
    if keepdims.__class__ is bool and (axis is None or axis.__class__ is int):
        return _maxima[axis, keepdims](x)  # type: ignore[no-any-return]
    return _extremum(ops.reduce_max, x, axis, keepdims, "max")


@method
def min(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Smallest element; NaN where there is one. ShapeError for no elements."""
    if keepdims.__class__ is bool and (axis is None or axis.__class__ is int):
        return _minima[axis, keepdims](x)  # type: ignore[no-any-return]
    return _extremum(ops.reduce_min, x, axis, keepdims, "min")


@method
def any(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """True where any element is nonzero; False for no elements."""
    if _is_selection(x):
        return _of_selection("any", x, axis, keepdims)
    return _reduce(ops.reduce_max, lifting.cast(lifting.value_of(x), dtypes.bool_), axis, keepdims, "any")


@method
def all(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """True where every element is nonzero; True for no elements."""
    if _is_selection(x):
        return _of_selection("all", x, axis, keepdims)
    return _reduce(ops.reduce_min, lifting.cast(lifting.value_of(x), dtypes.bool_), axis, keepdims, "all")


def _floats(x: TensorLike) -> Any:
    value = lifting.value_of(x)
    return value if dtypes.is_inexact(value.type.dtype) else lifting.cast(value, dtypes.float32)


@method
def mean(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Arithmetic mean, of integers in float32; NaN for no elements."""
    if keepdims.__class__ is bool and (axis is None or axis.__class__ is int):
        return _means[axis, keepdims](x)  # type: ignore[no-any-return]
    return _mean(x, axis, keepdims)


def _mean(x: TensorLike, axis: Axis, keepdims: bool) -> Tensor:
    if _is_selection(x):
        return _of_selection("mean", x, axis, keepdims)
    value = _floats(x)
    if dtypes.is_complex(value.dtype):
        return _by_parts(lambda part: _mean(part, axis, keepdims), value)
    return _reduce(ops.mean, value, axis, keepdims, "mean")


def _by_parts(function: Callable[[Tensor], Tensor], value: Any) -> Tensor:
    """The complex tensor whose parts are ``function`` of those of ``value``."""
    return wrap(ops.complex_(*(function(wrap(part(value))).value for part in (ops.real, ops.imag))))


_means = _calls(_mean)


def _spread(op: Op, x: TensorLike, axis: Axis, correction: int | float, keepdims: bool, name: str) -> Tensor:
    value = _floats(x)
    if dtypes.is_complex(value.dtype):
        real, imag = (_spread(ops.var, wrap(part(value)), axis, correction, keepdims, name)
                      for part in (ops.real, ops.imag))  # fmt: skip
        return (real + imag).sqrt() if name == "std" else real + imag
    axes = axes_of(axis, value.type.ndim, name)
    is_whole = float(correction).is_integer() and abs(float(correction)) < 2**63  # no attribute holds a longer int
    plain_correction = int(correction) if is_whole else float(correction)
    result = op(value, axes=axes, correction=plain_correction)
    return wrap(_keepdims(result, value.type.shape, axes) if keepdims else result)


class _Corrected(dict[int, DirectCalls]):
    """Of the variance or its root, the functions for each correction."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def __missing__(self, correction: int) -> DirectCalls:
        def general(x: TensorLike, axis: Axis, keepdims: bool) -> Tensor:
            return _spread(getattr(ops, self._name), x, axis, correction, keepdims, self._name)

        if len(self) >= _MOST_CORRECTIONS:
            self.clear()
        calls = self[correction] = _calls(general)
        return calls


_MOST_CORRECTIONS: Final = 16


@method
def var(x: TensorLike, axis: Axis = None, *, correction: int | float = 0, keepdims: bool = False) -> Tensor:
    """Variance in two passes: squared distances from the mean, summed and divided by max(0, n - ``correction``)."""
    if keepdims.__class__ is bool and correction.__class__ is int and (axis is None or axis.__class__ is int):
        return _variances[correction][axis, keepdims](x)  # type: ignore[no-any-return]
    return _spread(ops.var, x, axis, correction, keepdims, "var")


_variances = _Corrected("var")


@method
def std(x: TensorLike, axis: Axis = None, *, correction: int | float = 0, keepdims: bool = False) -> Tensor:
    """Square root of ``var``."""
    if keepdims.__class__ is bool and correction.__class__ is int and (axis is None or axis.__class__ is int):
        return _deviations[correction][axis, keepdims](x)  # type: ignore[no-any-return]
    return _spread(ops.std, x, axis, correction, keepdims, "std")


_deviations = _Corrected("std")


@method
def logsumexp(x: TensorLike, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) without overflow."""
    return _reduce(ops.logsumexp, _floats(x), axis, keepdims, "logsumexp")


def _arg(op: Op, x: TensorLike, axis: int | None, keepdims: bool, name: str) -> Tensor:
    value = lifting.value_of(x)
    shape = value.type.shape
    axes = tuple(range(len(shape))) if axis is None else (axis_of(axis, len(shape), name),)
    _require_elements(value, axes, name)
    if axis is None:
        value = ops.reshape(value, shape=(value.type.size,))
    result = op(value, axis=0 if axis is None else axes[0])
    return wrap(_keepdims(result, shape, axes) if keepdims else result)


@method
def argmax(x: TensorLike, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index (int64) of the first largest element, of the first NaN where there is one; of the flat tensor for None."""
    if keepdims is False and (axis is None or axis.__class__ is int):
        return _places_of_maxima[axis](x)  # type: ignore[no-any-return]
    return _arg(ops.argmax, x, axis, keepdims, "argmax")


@method
def argmin(x: TensorLike, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index (int64) of the first smallest element, of the first NaN where there is one; of the flat tensor for None."""
    if keepdims is False and (axis is None or axis.__class__ is int):
        return _places_of_minima[axis](x)  # type: ignore[no-any-return]
    return _arg(ops.argmin, x, axis, keepdims, "argmin")


def _positions(name: str) -> DirectCalls:
    """``argmax`` or ``argmin`` along one axis, or of all elements."""

    return DirectCalls(lambda axis: direct_call(lambda x: _arg(getattr(ops, name), x, axis, False, name), 1))


_places_of_maxima, _places_of_minima = map(_positions, ("argmax", "argmin"))


def _along(name: str) -> Callable[[TensorLike, int], Tensor]:
    """The composite of this name, of floats along one axis."""

    def general(x: TensorLike, axis: int) -> Tensor:
        value = _floats(x)
        return wrap(getattr(ops, name)(value, axis=axis_of(axis, value.type.ndim, name)))

    calls = DirectCalls(lambda axis: direct_call(lambda x: general(x, axis), 1))
    return lambda x, axis: calls[axis](x) if axis.__class__ is int else general(x, axis)


_softmax = _along("softmax")
_log_softmax = _along("log_softmax")


@method
def softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """exp(x) / sum(exp(x)) along ``axis``, without overflow."""
    return _softmax(x, axis)


@method
def log_softmax(x: TensorLike, axis: int = -1) -> Tensor:
    """log(softmax(x)) along ``axis``, without overflow."""
    return _log_softmax(x, axis)


def _sorted(x: TensorLike, axis: int, descending: bool, name: str) -> tuple[Any, Any]:
    value = lifting.value_of(x)
    result: tuple[Any, Any] = ops.sort(value, axis=axis_of(axis, value.type.ndim, name), descending=descending)
    return result


@method
def sort(x: TensorLike, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Elements in order along ``axis``, NaN as the greatest; always stable."""
    return wrap(_sorted(x, axis, descending, "sort")[0])


@method
def argsort(x: TensorLike, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Indices (int64) that sort along ``axis``, NaN as the greatest; always stable."""
    return wrap(_sorted(x, axis, descending, "argsort")[1])


# ----------------------------------------------------------------------
# Running sums, products and extremes along an axis.


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
        return _running(_running_complex_product, value, axis, "cumprod")
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


# ----------------------------------------------------------------------
# Products of complex numbers along axes: of halves and halves of these for one number, by doubled steps for all.


def _complex_product(value: Any, axes: Sequence[int], *, keepdims: bool = False) -> Any:
    """The product over ``axes``; ShapeError where one of them has a name for its size."""
    for axis in reversed(axes):
        value = _product_along(value, axis)
        if not keepdims:
            value = ops.reshape(value, shape=tuple(d for i, d in enumerate(value.shape) if i != axis))
    return value


def _product_along(value: Any, axis: int) -> Any:
    size = _known_size(value, axis, "prod")
    if size == 0:
        shape = tuple(1 if i == axis else extent for i, extent in enumerate(value.shape))
        return ops.full(shape=shape, value=1.0, dtype=value.dtype)
    while size > 1:
        half = size // 2
        paired = ops.complex_mul(_part(value, axis, 0, half), _part(value, axis, half, 2 * half))
        rest = [_part(value, axis, 2 * half, size)] if size % 2 else []
        value = ops.concat(paired, *rest, axis=axis) if rest else paired
        size = half + size % 2
    return value


def _running_complex_product(value: Any, axis: int) -> Any:
    """The products up to each element of ``axis``: by 1, 2, 4 ... elements back (Hillis and Steele, CACM 29, 1986)."""
    size, step = _known_size(value, axis, "cumprod"), 1
    while step < size:
        later = ops.complex_mul(_part(value, axis, 0, size - step), _part(value, axis, step, size))
        value = ops.concat(_part(value, axis, 0, step), later, axis=axis)
        step *= 2
    return value


def _known_size(value: Any, axis: int, name: str) -> int:
    size = value.shape[axis]
    if not isinstance(size, int):
        raise ShapeError(
            f"{name} of complex numbers along axis {axis}, whose size {size} is a name",
            hint="give that size as a number",
        )
    return size


def _part(value: Any, axis: int, start: int, stop: int) -> Any:
    starts = tuple(start if i == axis else 0 for i in range(len(value.shape)))
    stops = tuple(stop if i == axis else extent for i, extent in enumerate(value.shape))
    return ops.slice(value, starts=starts, stops=stops, strides=(1,) * len(starts))
