"""Reductions of ``x[mask]`` in a trace, where how many elements there are depends on values.

The selected rows are moved to the front, in order, and behind them stands what changes no result. The order of sums
goes by positions from the front and does not depend on how many rows follow: so results have eager's bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.ir import dims
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.method import axes_of
from jitgraph.tensor.tensor import Tensor, wrap
from jitgraph.tensor.traced_indexing import Selection, refused


def reduced(name: str, x: Tensor, axis: Any, keepdims: bool, dtype: Any = None) -> Tensor:
    """The reduction of that name; refused where the selected axis is not among those that are reduced."""
    selection: Selection = x._value
    axes = axes_of(axis, selection.trailing + 1, name)
    if 0 not in axes:
        raise refused()
    if dtype is not None:
        selection = _cast(selection, dtypes.canonical(dtype))
    result = _REDUCTIONS[name](selection, axes, dtype)
    if keepdims:
        sizes = enumerate((1, *selection.full.shape[len(selection.mask.shape) :]))
        result = ops.reshape(result, shape=tuple(1 if number in axes else size for number, size in sizes))
    return wrap(result)


def _cast(selection: Selection, dtype: Any) -> Selection:
    return Selection(lifting.cast(selection.full, dtype), selection.mask, selection.trace)


def _rows(selection: Selection) -> Any:
    """The full tensor with the axes of the mask as one."""
    count, shape = len(selection.mask.shape), selection.full.shape
    return ops.reshape(selection.full, shape=(dims.product(shape[:count]), *shape[count:]))


def _flat(selection: Selection) -> Any:
    return ops.reshape(selection.mask, shape=(dims.product(selection.mask.shape),))


def _in_front(selection: Selection, filler: float) -> Any:
    """The selected rows in order, and behind them rows of ``filler``."""
    rows, flat = _rows(selection), _flat(selection)
    length, rest = rows.shape[0], rows.shape[1:]
    last = ops.full(shape=(length,), value=length, dtype=dtypes.int64)
    ranks = ops.sub(ops.cumsum(lifting.cast(flat, dtypes.int64), axis=0), lifting.repeated(1, dtypes.int64, (length,)))
    empty = lifting.repeated(filler, rows.dtype, (length + 1, *rest))
    moved = ops.scatter(empty, ops.select(flat, ranks, last), rows, axis=0)  # what is not selected ends in one more row
    bounds = {"starts": (0,) * len(moved.shape), "stops": rows.shape, "strides": (1,) * len(moved.shape)}
    return ops.slice(moved, **bounds)


def _count(selection: Selection, axes: tuple[int, ...]) -> Any:
    """How many elements are reduced, int64 of rank 0."""
    rows = ops.reduce_sum(lifting.cast(_flat(selection), dtypes.int64), axes=(0,))
    sizes = selection.full.shape[len(selection.mask.shape) :]
    each = dims.product([sizes[number - 1] for number in axes if number])
    return ops.mul(rows, ops.full(shape=(), value=each, dtype=dtypes.int64))


def _has_rows(selection: Selection) -> Any:
    """Whether a row is selected, a bool of rank 0."""
    return ops.gt(_count(selection, (0,)), ops.full(shape=(), value=0, dtype=dtypes.int64))


def _where_any(selection: Selection, result: Any, otherwise: float) -> Any:
    """``result`` where a row is selected."""
    some = _has_rows(selection)
    chosen = some if not result.shape else ops.broadcast(some, shape=result.shape, axes=())
    return ops.select(chosen, result, lifting.repeated(otherwise, result.dtype, result.shape))


def _accumulator(selection: Selection, dtype: Any) -> Selection:
    """The selection in the dtype of its sum or product: that which was asked for, or one that is wide enough."""
    own = selection.full.dtype
    if dtype is not None or dtypes.is_inexact(own) or own.itemsize == 8:
        return selection
    return _cast(selection, dtypes.uint64 if own.kind == "u" else dtypes.int64)


def _sum(selection: Selection, axes: tuple[int, ...], dtype: Any) -> Any:
    wide = _accumulator(selection, dtype)
    filler = -0.0 if dtypes.is_inexact(wide.full.dtype) else 0
    return _where_any(selection, ops.reduce_sum(_in_front(wide, filler), axes=axes), 0)


def _prod(selection: Selection, axes: tuple[int, ...], dtype: Any) -> Any:
    wide = _accumulator(selection, dtype)
    if dtypes.is_complex(wide.full.dtype):
        raise refused()
    return ops.reduce_prod(_in_front(wide, 1), axes=axes)


def _mean(selection: Selection, axes: tuple[int, ...], dtype: Any) -> Any:
    own = selection.full.dtype
    target = own if dtypes.is_inexact(own) else dtypes.float32
    wide = dtypes.float32 if target.itemsize == 2 else target
    total = ops.reduce_sum(_in_front(_cast(selection, wide), -0.0), axes=axes)
    count = lifting.broadcast_to(lifting.cast(_count(selection, axes), wide), total.shape)
    return lifting.cast(_where_any(selection, ops.div(total, count), float("nan")), target)


def _extremum(op: Any, name: str) -> Callable[..., Any]:
    def extremum(selection: Selection, axes: tuple[int, ...], dtype: Any) -> Any:
        ops.check(_has_rows(selection), kind="ValueError", message=f"{name} of no elements: the mask selects none")
        return op(_rows(selection), axes=axes)  # at other places one of the selected stands

    return extremum


def _truth(op: Any, of_none: bool) -> Callable[..., Any]:
    def truth(selection: Selection, axes: tuple[int, ...], dtype: Any) -> Any:
        result = op(lifting.cast(_rows(selection), dtypes.bool_), axes=axes)
        return _where_any(selection, result, of_none)

    return truth


_REDUCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "sum": _sum,
    "prod": _prod,
    "mean": _mean,
    "max": _extremum(ops.reduce_max, "max"),
    "min": _extremum(ops.reduce_min, "min"),
    "any": _truth(ops.reduce_max, False),
    "all": _truth(ops.reduce_min, True),
}
