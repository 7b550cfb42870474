"""Indices of a trace that depend on values: masks of unknown count, and slices whose bounds the trace computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn

from jitgraph import dtypes, ops
from jitgraph.eager.handle import ValueHandle
from jitgraph.errors import DTypeError, IndexingError, ShapeError, UndecidedError, UnsupportedOp
from jitgraph.ir import context, dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op
from jitgraph.location import Location
from jitgraph.tensor import indexing, lifting, scalars
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import is_scalar

# ----------------------------------------------------------------------
# ``x[mask]`` in a trace, where its size is not known: for elementwise ops, whose result is written back by the mask.
#
# ``x[mask] -= 1`` and ``x[mask] = f(x[mask])`` are computed for all places, and kept where the mask holds. At the
# others stands one of the selected elements meanwhile, so that nothing is computed of numbers that were not selected:
# no error, and no NaN in a gradient.

_DEEPEST: Final = 16


def refused(location: Location | None = None) -> UnsupportedOp:
    """The error for what needs the size of a selection that was made at ``location``."""
    line = "" if location is None or location == Location.of_user() else f" (x[mask] at {location})"
    return UnsupportedOp(
        f"indexing with a boolean mask has a size that depends on values, which a trace cannot record{line}",
        hint="where(mask, x, fill), x[mask] = v, or a reduction of all of it, as x[mask].sum() and x[mask].mean()",
    )


class UnknownShape:
    """A shape of which the rank alone is known: whoever looks at its sizes is refused."""

    __slots__ = ("_location", "_rank")

    def __init__(self, rank: int, location: Location | None) -> None:
        self._rank = rank
        self._location = location

    def __len__(self) -> int:
        return self._rank

    def _refuse(self, *args: object) -> NoReturn:
        raise refused(self._location)

    __iter__ = __getitem__ = __contains__ = __eq__ = __hash__ = _refuse


class SelectionType(NamedTuple):
    """What is known of the type of a selection."""

    dtype: Any
    shape: UnknownShape


class Selection:
    """The value of ``x[mask]``: ``full`` has the shape of x, and counts where ``mask`` (of the first axes) holds."""

    __slots__ = ("full", "location", "mask", "trace")

    def __init__(self, full: Any, mask: Any, trace: Any) -> None:
        self.full = full
        self.mask = mask
        self.trace = trace
        self.location = Location.of_user()

    def outside(self, handle: object) -> NoReturn:
        """Refuse to be read."""
        raise refused(self.location)

    def __getattr__(self, name: str) -> NoReturn:
        raise refused(self.location)

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
    def type(self) -> SelectionType:
        """The dtype and the rank."""
        return SelectionType(self.full.dtype, UnknownShape(self.trailing + 1, self.location))

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow through it."""
        return bool(self.full.requires_grad)

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


def put_masked(value: Any, mask: Any, new: Any) -> Any:
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


# ----------------------------------------------------------------------
# Indices of a trace that depend on values: masks, and slices whose bounds the trace computes.
#
# Of ``x[i:i + 3]`` the start is a tensor and the length a number, what is left of stop - start as sums of products of
# what the trace knows; a block that does not lie within its axis is an IndexError when the graph runs, as a shorter
# result would have another shape.
#
# Bounds that are Python ints which vary from call to call have Python's meaning, negative ones and those beyond the
# axis included: where the slice lies is asked of the numbers, and the graph serves calls with the same answers.


def get(value: Any, index: Any) -> Any:
    """``value[index]``: of a mask a selection, whose size is not known."""
    mask = _mask_alone(value.shape, index)
    if mask is not None:
        return selected(value, mask)
    if any(map(indexing.is_mask, _items(index))):
        raise refused()
    block, items, _ = _block(value, indexing.expanded(value.shape, index))
    return indexing.picked(block, tuple(items))


def put(value: Any, index: Any, new: TensorLike) -> Any:
    """``value`` with ``value[index] = new`` done."""
    mask = _mask_alone(value.shape, index)
    if mask is not None:
        return put_masked(value, mask, new)
    filler = lifting.cast(lifting.value_of(new, value.dtype), value.dtype)
    if any(map(indexing.is_mask, _items(index))):
        return _put_beside(value, list(_items(index)), filler)
    block, items, starts = _block(value, indexing.expanded(value.shape, index))
    written = indexing.written(block, tuple(items), filler)
    return ops.dynamic_update_slice(value, written, *starts) if starts else written


def _items(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _mask_alone(shape: tuple[DimLike, ...], index: Any) -> Any:
    """The value of a mask that is all of an index, or stands before whole axes; None for any other index."""
    first, *rest = _items(index)
    if not indexing.is_mask(first):
        return None
    mask = lifting.value_of(first)
    if not mask.shape or any(map(_is_other, rest)):
        return None
    indexing.require_mask(mask, shape[: len(mask.shape)])
    return mask


def _is_other(item: Any) -> bool:
    """Whether an item is neither ``...`` nor a slice of a whole axis; tensors are not to be compared."""
    return item is not Ellipsis and not (isinstance(item, slice) and item == slice(None))


def _put_beside(value: Any, items: list[Any], filler: Any) -> Any:
    """A number written where a mask holds, in the part of the tensor that ints and slices beside it cut out."""
    masks = [at for at, item in enumerate(items) if indexing.is_mask(item)]
    plain = [item for item in items if item is Ellipsis or isinstance(item, int | slice)]
    if len(masks) > 1 or len(plain) + 1 < len(items) or filler.shape or any(map(has_tensors, plain)):
        hint = "write a number there, or x[i] = jg.where(mask, v, x[i])"
        raise UnsupportedOp("a mask beside other indices selects a size that a trace does not know", hint=hint)
    (at,) = masks
    mask = lifting.value_of(items[at])
    rank = len(mask.shape)
    cut = (*items[:at], *[slice(None)] * rank, *items[at + 1 :])
    first = sum(map(indexing.axes_of_item, items[:at]))
    if Ellipsis in cut[:at]:
        first = len(value.shape) - rank - sum(map(indexing.axes_of_item, items[at + 1 :]))
    indexing.require_mask(mask, value.shape[first : first + rank])
    each = [item for item in indexing.expanded(value.shape, cut) if item is not Ellipsis]
    start = sum(isinstance(item, slice) for item in each[:first])
    part = indexing.picked(value, cut)
    axes = tuple(range(start, start + rank))
    wide = mask if mask.shape == part.shape else ops.broadcast(mask, shape=part.shape, axes=axes)
    return indexing.written(value, cut, ops.select(wide, lifting.broadcast_to(filler, part.shape), part))


Form = dict[Any, int]  # a sum: how often each term is in it; the term None stands for 1

_DEEPEST_CHAIN: Final = 32
_HINT: Final = "x[i:i + n] with a number n, or jg.where with a mask of places"


def is_moving(item: Any) -> bool:
    """Whether a slice has a tensor for a bound, or bounds which vary from call to call."""
    return isinstance(item, slice) and (has_tensors(item) or _varies(item))


def has_tensors(item: Any) -> bool:
    """Whether a slice has a tensor for a bound."""
    return isinstance(item, slice) and (isinstance(item.start, ValueHandle) or isinstance(item.stop, ValueHandle))


def _varies(item: slice) -> bool:
    """Whether both bounds of a slice vary, so that its length may be the same at each call."""
    step = item.step is None or (type(item.step) is int and item.step > 0)
    return step and all(scalars.is_varying(x) and x.kind is int and not x.is_size for x in (item.start, item.stop))


def _block(value: Any, items: list[Any]) -> tuple[Any, list[Any], list[Any]]:
    """The block of ``value`` in which the moving slices lie, the items that index it, and where it starts.

    All of ``value`` where every slice has its place after all; it starts nowhere then.
    """
    starts: list[Any] = []
    sizes: list[DimLike] = []
    block_items: list[Any] = []
    axis = 0
    for item in items:
        if item is None or item is Ellipsis:
            block_items.append(item)
            continue
        size = value.shape[axis]
        window: Any = None
        if is_moving(item):
            window = _window(item, size, axis) if has_tensors(item) else _cut(item, size)
        if isinstance(window, tuple):
            start, length = window
            starts.append(start)
            sizes.append(length)
            block_items.append(slice(None, None, item.step))
        else:
            starts.append(None)
            sizes.append(size)
            block_items.append(item if window is None else window)
        axis += 1
    if not any(start is not None for start in starts):
        return value, block_items, []
    starts = [ops.full(shape=(), value=0, dtype=dtypes.int64) if start is None else start for start in starts]
    return ops.dynamic_slice(value, *starts, sizes=tuple(sizes)), block_items, starts


def _window(item: slice, size: DimLike, axis: int) -> tuple[Any, int]:
    """Where the block of a slice starts (int64 of rank 0), and its length."""
    if item.start is None or item.stop is None:
        raise UndecidedError("a slice with a traced bound and no other has no known length", hint=_HINT)
    if item.step is not None and int(item.step) < 1:
        raise UndecidedError("a reversed slice with traced bounds", hint="x[i:i + n], then jg.flip")
    left, right = _form(item.start), _form(item.stop)
    rest = {term: right.get(term, 0) - left.get(term, 0) for term in {**left, **right}}
    if any(count for term, count in rest.items() if term is not None):
        raise UndecidedError("the length of this slice depends on values, which a trace cannot know", hint=_HINT)
    length = max(0, rest.get(None, 0))
    start = lifting.positions(_integer(item.start))
    if length:
        zero, extent, last = (ops.full(shape=(), value=n, dtype=dtypes.int64) for n in (0, length, size))
        inside = ops.bitwise_and(ops.ge(start, zero), ops.le(ops.add(start, extent), last))
        what = f"a slice of {length} elements lies outside axis {axis} with size {size}"
        ops.check(inside, kind="IndexError", message=what)
    return start, length


def _cut(item: slice, size: DimLike) -> tuple[Any, DimLike] | slice:
    """Where the block of a slice between bounds that vary starts (int64), and its length, as Python cuts it.

    A slice where that is known: one without elements, or that begins at an end of the axis.
    """
    trace: Any = context.current().trace
    extent = size if isinstance(size, int) else trace.number_of(size)
    start, stop = (_within(bound, extent) for bound in (item.start, item.stop))
    if not start < stop:
        return slice(0, 0, item.step)
    first = lifting.index_of(start) if scalars.is_varying(start) else start
    if not isinstance(first, ValueHandle):
        return slice(first, stop, item.step)
    return lifting.value_of(first), trace.to_dim(stop - start)


def _within(bound: Any, extent: Any) -> Any:
    """A bound counted from the start of an axis, and within it."""
    if bound < 0:
        bound = bound + extent
        return 0 if bound < 0 else bound
    return extent if bound > extent else bound


def _integer(bound: Any) -> Any:
    value = lifting.value_of(bound)
    if not dtypes.is_integer(value.dtype) or value.shape:
        raise IndexingError(f"a slice's bound must be an integer, not {value.type}")
    return value


def _form(bound: Any) -> Form:
    """A bound as a sum of terms."""
    if not isinstance(bound, ValueHandle):
        return {None: int(bound)}
    value = _integer(bound)
    trace: Any = context.current().trace
    return _form_of(value.ir, trace.producers, _DEEPEST_CHAIN)


def _form_of(ir: Any, producers: Any, depth: int) -> Form:
    node = producers.get(ir) if depth else None
    if node is None:
        return {ir: 1}
    name = node.op.name
    if name == "full" and isinstance(node.attrs["value"], int):
        return {None: int(node.attrs["value"])}
    if name in ("add", "sub", "mul", "cast"):
        parts = [_form_of(operand, producers, depth - 1) for operand in node.inputs]
        if name == "cast":
            return parts[0] if dtypes.is_integer(node.inputs[0].dtype) else {ir: 1}
        left, right = parts
        if name == "mul":
            return _product(left, right, ir)
        sign = 1 if name == "add" else -1
        return {term: left.get(term, 0) + sign * right.get(term, 0) for term in {**left, **right}}
    return {ir: 1}


def _product(left: Form, right: Form, ir: Any) -> Form:
    """A product of which one factor is a number; any other is a term of its own."""
    for factor, other in ((left, right), (right, left)):
        if set(factor) <= {None}:
            return {term: count * factor.get(None, 0) for term, count in other.items()}
    return {ir: 1}
