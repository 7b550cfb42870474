"""``x[mask]`` in a trace, where its size is not known: for elementwise ops, whose result is written back by the mask.

``x[mask] -= 1`` and ``x[mask] = f(x[mask])`` are computed for all places, and kept where the mask holds. At the others
stands one of the selected elements meanwhile, so that nothing is computed of numbers that were not selected: no error,
and no NaN in a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn

from jitgraph import dtypes, ops
from jitgraph.errors import DTypeError, ShapeError, UnsupportedOp
from jitgraph.ir import context, dims
from jitgraph.ir.op import Op
from jitgraph.tensor import lifting
from jitgraph.tensor.scalars import is_scalar

_DEEPEST: Final = 16


def refused() -> UnsupportedOp:
    """The error for what needs the size of a selection."""
    return UnsupportedOp(
        "indexing with a boolean mask has a size that depends on values, which a trace cannot record",
        hint="jg.where(mask, x, fill), x[mask] = v, or index eagerly",
    )


class Selection:
    """The value of ``x[mask]``: ``full`` has the shape of x, and counts where ``mask`` (of the first axes) holds."""

    __slots__ = ("full", "mask", "trace")

    def __init__(self, full: Any, mask: Any, trace: Any) -> None:
        self.full = full
        self.mask = mask
        self.trace = trace

    def outside(self, handle: object) -> NoReturn:
        """Refuse to be read."""
        raise refused()

    def __getattr__(self, name: str) -> NoReturn:
        raise refused()

    def goes_with(self, mask: Any, shape: tuple[Any, ...]) -> bool:
        """Whether the same places of the same shape are selected by ``mask``."""
        trace = context.current().trace
        return trace is self.trace and self.full.shape == shape and _is_same(self.mask.ir, mask.ir)

    def in_dtype(self, old: Selection) -> Selection:
        """This as the result of an operator in place of ``old``; DTypeError where numbers of that kind do not fit."""
        dtype = old.full.dtype
        if dtypes.kind_rank(self.full.dtype) > dtypes.kind_rank(dtype):
            hint = "x[mask] = f(x[mask]).astype(...), or cast x first"
            raise DTypeError(f"in-place would turn {dtype.name} into {self.full.dtype.name}", hint=hint)
        return Selection(lifting.cast(self.full, dtype), self.mask, self.trace)

    @property
    def trailing(self) -> int:
        """How many axes stand behind those of the mask."""
        return len(self.full.shape) - len(self.mask.shape)


def spread(mask: Any, shape: tuple[Any, ...]) -> Any:
    """A mask of the first axes for all elements of a shape."""
    return mask if mask.shape == shape else ops.broadcast(mask, shape=shape, axes=tuple(range(len(mask.shape))))


def selected(value: Any, mask: Any) -> Selection:
    """``value[mask]``; elements that are not selected are the last one that is, or 1."""
    shape, count = value.shape, len(mask.shape)
    length, rest = dims.product(shape[:count]), shape[count:]
    flat, rows = ops.reshape(mask, shape=(length,)), ops.reshape(value, shape=(length, *rest))
    numbers = ops.add(
        ops.iota(shape=(length,), axis=0, dtype=dtypes.int64), lifting.repeated(1, dtypes.int64, (length,))
    )
    behind = ops.select(flat, numbers, lifting.repeated(0, dtypes.int64, (length,)))
    zero, one = lifting.repeated(0, dtypes.int64, (1,)), lifting.repeated(1, value.dtype, (1, *rest))
    latest = ops.reduce_max(ops.concat(zero, behind, axis=0), axes=(0,))
    filler = ops.gather(ops.concat(one, rows, axis=0), latest, axis=0)
    filler = lifting.broadcast_to(ops.stop_gradient(filler), shape)
    return Selection(ops.select(spread(mask, shape), value, filler), mask, context.current().trace)


def applied(op: Op, xs: Sequence[Any], *, floating: bool = False) -> Selection:
    """An elementwise op of selections by one mask, and of what broadcasts along the axes behind that.

    ``floating`` lifts integers and bools to float32.
    """
    first: Selection = next(x._value for x in xs if isinstance(getattr(x, "_value", None), Selection))
    if context.current().trace is not first.trace:
        raise refused()
    values = [_operand(x, first) for x in xs]
    target = dtypes.promote(*(value.dtype for value in values if not is_scalar(value)))
    for value in filter(is_scalar, values):
        target = dtypes.promote_scalar(target, value)
    if floating and not dtypes.is_inexact(target):
        target = dtypes.float32
    shape = first.full.shape
    full = [
        lifting.repeated(value, target, shape)
        if is_scalar(value)
        else lifting.broadcast_to(lifting.cast(value, target), shape)
        for value in values
    ]
    return Selection(lifting.form_of(op, full[0])(*full), first.mask, first.trace)


def _is_same(left: Any, right: Any, depth: int = _DEEPEST) -> bool:
    """Whether two values of the trace are computed alike, as by ``x > 0`` written twice."""
    if left == right:
        return True
    trace: Any = context.current().trace
    one, other = trace.producers.get(left), trace.producers.get(right)
    if not depth or one is None or other is None or one.op is not other.op or one.op.effect != "none" or one.regions:
        return False
    if one.attrs != other.attrs or len(one.inputs) != len(other.inputs) or len(one.outputs) > 1:
        return False
    return all(_is_same(a, b, depth - 1) for a, b in zip(one.inputs, other.inputs, strict=True))


def _operand(x: Any, like: Selection) -> Any:
    inner = getattr(x, "_value", None)
    if isinstance(inner, Selection):
        if not inner.goes_with(like.mask, like.full.shape):
            raise refused()
        return inner.full
    if is_scalar(x):
        return x
    value = lifting.value_of(x)
    if getattr(x, "_weak", False):
        value = lifting.cast(value, dtypes.promote_scalar(like.full.dtype, lifting.scalar_like(value.dtype)))
    while len(value.shape) > like.trailing and value.shape[0] == 1:
        value = ops.reshape(value, shape=value.shape[1:])
    if len(value.shape) > like.trailing:
        raise refused()
    return value


def put(value: Any, mask: Any, new: Any) -> Any:
    """``value`` with ``value[mask] = new`` done: a selection by the same mask, one row for all, or a row for each."""
    shape = value.shape
    inner = getattr(new, "_value", None)
    if isinstance(inner, Selection):
        if not inner.goes_with(mask, shape):
            raise refused()
        return ops.select(spread(mask, shape), lifting.cast(inner.full, value.dtype), value)
    filler = lifting.cast(lifting.value_of(new, value.dtype), value.dtype)
    rest = shape[len(mask.shape) :]
    while len(filler.shape) > len(rest) and isinstance(filler.shape[0], int) and filler.shape[0] == 1:
        filler = ops.reshape(filler, shape=filler.shape[1:])
    if len(filler.shape) > len(rest) + 1:
        raise ShapeError(f"cannot write {filler.type} to the rows of {value.type} that a mask selects")
    if len(filler.shape) > len(rest):
        return _put_rows(value, mask, filler)
    return ops.select(spread(mask, shape), lifting.broadcast_to(filler, shape), value)


def _put_rows(value: Any, mask: Any, rows: Any) -> Any:
    """The rows of ``rows`` in order, one for each place where the mask holds; ValueError for another number of them."""
    shape, count = value.shape, len(mask.shape)
    length, row_count = dims.product(shape[:count]), rows.shape[0]
    flat = ops.reshape(mask, shape=(length,))
    ranks = ops.cumsum(lifting.cast(flat, dtypes.int64), axis=0)
    total = ops.reduce_sum(lifting.cast(flat, dtypes.int64), axes=(0,))
    fits = ops.eq(total, ops.full(shape=(), value=row_count, dtype=dtypes.int64))
    ops.check(fits, kind="ValueError", message=f"the mask does not select as many elements as are written: {row_count}")
    rows = lifting.broadcast_to(rows, (row_count, *shape[count:]))
    padded = ops.concat(lifting.repeated(0, value.dtype, (1, *shape[count:])), rows, axis=0)
    bound = ops.full(shape=(length,), value=row_count, dtype=dtypes.int64)
    picked = ops.gather(padded, ops.minimum(ranks, bound), axis=0)
    return ops.select(spread(mask, shape), ops.reshape(picked, shape=shape), value)
