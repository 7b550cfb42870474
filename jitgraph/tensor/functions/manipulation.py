"""Joining, cutting, repeating, padding and picking elements; nothing here computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.dtypes import DType
from jitgraph.eager import placement
from jitgraph.eager.handle import ValueHandle
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import JitgraphError, ShapeError, UndecidedError
from jitgraph.ir import context, dims
from jitgraph.ir.dims import DimLike
from jitgraph.ops import rules
from jitgraph.tensor import indexing, lifting, scalars
from jitgraph.tensor.direct_calls import DirectCalls, direct_call
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.elementwise import clip, maximum, remainder, where
from jitgraph.tensor.functions.method import array_function, axes_of, axis_of, method, ordered_axes_of
from jitgraph.tensor.functions.operands import index_positions
from jitgraph.tensor.functions.shapes import expand_dims, permute_dims, squeeze, transpose
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import for_each, items, listed
from jitgraph.tensor.tensor import Tensor, settled, wrap

# ----------------------------------------------------------------------
# Padding with elements of the tensor itself: each axis gathers the places that its widened range stands for.

MODES: Final = {  # each with the names that NumPy and PyTorch have for it
    "constant": "constant",
    "reflect": "reflect",
    "edge": "edge",
    "replicate": "edge",
    "wrap": "wrap",
    "circular": "wrap",
    "symmetric": "symmetric",
}


def mode_of(name: str) -> str:
    """The mode of this name; JitgraphError for one that there is not."""
    if name not in MODES:
        raise JitgraphError(f"pad: mode={name!r} is none of {', '.join(MODES)}")
    return MODES[name]


def padded(value: Any, widths: Sequence[tuple[int, int]], mode: str) -> Any:
    """``value`` with (before, after) places more along each axis, filled as ``mode`` says."""
    for axis, (low, high) in enumerate(widths):
        if low or high:
            size = value.shape[axis]
            rules.require_elements(f"pad with mode={mode!r} of {value.type} along axis {axis}", size)
            value = ops.gather(value, _padded_positions(value, size, low, high, mode).value, axis=axis)
    return value


def _padded_positions(value: Any, size: DimLike, low: int, high: int, mode: str) -> Tensor:
    """Which element of an axis each place of the padded one shows."""
    index = wrap(lifting.positions_along((low + size + high,), 0, value)) - low
    extent = wrap(ops.full(shape=(), value=size, dtype=index.dtype))
    if mode == "edge":
        return clip(index, 0, extent - 1)
    if mode == "wrap":
        return remainder(index, extent)
    if mode == "symmetric":  # the last element twice where it turns
        turned = remainder(index, 2 * extent)
        return where(turned < extent, turned, 2 * extent - 1 - turned)
    turned = remainder(index, maximum(2 * extent - 2, 1))
    return where(turned < extent, turned, 2 * extent - 2 - turned)


# ----------------------------------------------------------------------
# Joining, cutting, repeating and picking elements; nothing here computes.


@method
def broadcast_to(x: TensorLike, shape: Any) -> Tensor:
    """x repeated along new axes and axes of size 1."""
    value, target_shape = lifting.value_of(settled(x)), shape_of(shape)
    if lifting.broadcast_shapes(value.type.shape, target_shape) != target_shape:
        raise ShapeError(f"{value.type} does not broadcast to {target_shape}")
    return wrap(lifting.broadcast_to(value, target_shape))


@array_function
def broadcast_arrays(*xs: TensorLike) -> list[Tensor]:
    """All operands in their common broadcast shape, each in its own dtype."""
    values = lifting.together(*(lifting.value_of(x) for x in xs))
    shape = lifting.broadcast_shapes(*(value.type.shape for value in values))
    return [wrap(lifting.broadcast_to(value, shape)) for value in values]


@array_function
def concat(xs: Sequence[TensorLike], axis: int | None = 0) -> Tensor:
    """Tensors joined along an existing axis; each flattened first for None. Dtypes promote."""
    xs = _list_of(xs, axis, "concat")
    if axis.__class__ is int:
        return _joins[axis, len(xs)](*xs)  # type: ignore[no-any-return]
    return _joined(xs, axis)


def _joined(xs: Sequence[TensorLike], axis: int | None) -> Tensor:
    if not xs:
        raise JitgraphError("concat of no tensors")
    dtype = lifting.common_dtype(*xs)
    values = [lifting.cast(lifting.value_of(x, dtype), dtype) for x in xs]
    if axis is None:
        values = [ops.reshape(value, shape=(value.type.size,)) for value in values]
    number = axis_of(0 if axis is None else axis, values[0].type.ndim, "concat")
    if len({value.type.ndim for value in values}) > 1:
        raise ShapeError(f"concat of tensors of different ranks: {', '.join(str(value.type) for value in values)}")
    return wrap(values[0] if len(values) == 1 else ops.concat(*values, axis=number))


def _list_of(xs: Any, axis: Any, name: str) -> list[Any]:
    """The tensors to be joined; JitgraphError where they stand as arguments one by one."""
    if isinstance(axis, Tensor) or (isinstance(xs, Tensor) and xs.ndim == 0):
        raise JitgraphError(f"{name} takes one list of tensors and an axis\n  hint: jg.{name}([x, y], axis=0)")
    return list(xs)


concatenate = concat


def _joining(join: Callable[..., Tensor]) -> DirectCalls:
    """``join(xs, axis)``, which is ``concat`` or ``stack``, by the axis and the number of tensors."""
    return DirectCalls(lambda of: direct_call(lambda *xs: join(xs, of[0]), of[1]))


_joins = _joining(_joined)
_stacks = _joining(lambda xs, axis: _stacked(xs, axis))


@array_function
def stack(xs: Sequence[TensorLike], axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis.

    ShapeError for different shapes, JitgraphError for no tensors; dtypes promote.
    """
    xs = _list_of(xs, axis, "stack")
    if axis.__class__ is int:
        return _stacks[axis, len(xs)](*xs)  # type: ignore[no-any-return]
    return _stacked(xs, axis)


def _stacked(xs: Sequence[TensorLike], axis: int) -> Tensor:
    if not xs:
        raise JitgraphError("stack of no tensors")
    pieces = [expand_dims(wrap(value), axis) for value in lifting.beside(*xs)]
    types = [piece.value.type for piece in pieces]
    if any(type.ndim != types[0].ndim or _differ(type.shape, types[0].shape) for type in types):
        shapes = [squeeze(piece, axis % piece.ndim).value.type.shape for piece in pieces]
        shapes_text = ", ".join(dict.fromkeys(f"({', '.join(map(str, shape))})" for shape in shapes))
        raise ShapeError(
            f"stack takes tensors of one shape, not {shapes_text}", hint="jg.concat joins along an axis they have"
        )
    return concat(pieces, axis)


def _differ(left: Sequence[DimLike], right: Sequence[DimLike]) -> bool:
    """Whether two sizes at one place are numbers, and not the same."""
    return any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(left, right, strict=True))


@method
def split(x: TensorLike, sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Pieces of size ``sections`` along ``axis`` (the last may be smaller), or of the listed sizes, as in PyTorch.

    A named size is split in pieces of listed sizes, or of a size that divides it as often for each, such as ``n // 2``.
    """
    value = lifting.value_of(x)
    number = axis_of(axis, value.type.ndim, "split")
    total = value.type.shape[number]
    if items(sections) is not None:
        sizes: Sequence[DimLike] = shape_of(sections)
        size_sum = sum(sizes)
        if not context.constraints().same(size_sum, total):
            raise ShapeError(f"split: sizes {list(sizes)} add up to {size_sum}, the axis has {total}")
    else:
        sizes = _equal_parts(total, *shape_of(sections))
    return _pieces(x, value, number, sizes)


def _equal_parts(total: DimLike, size: DimLike) -> Sequence[DimLike]:
    """Sizes of pieces of ``size``; what is left of a known ``total`` is one more."""
    rules.at_least("split: the size of a piece", size, 1)
    if isinstance(size, int) and isinstance(total, int):
        return [min(size, total - start) for start in range(0, total, size)] or [0]
    count = None if isinstance(size, int) else context.constraints().ratio(total, size)
    if count is None:
        hint = "split([n // 2, n - n // 2], axis), or chunk(k, axis) for k equal pieces"
        what = f"split of the size {total} in pieces of {size}: how many there are is not known"
        raise UndecidedError(what, hint=hint)
    return [size] * count


def _pieces(x: TensorLike, value: Any, axis: int, sizes: Sequence[DimLike]) -> list[Tensor]:
    pieces = []
    start: DimLike = 0
    for size in sizes:
        if isinstance(x, Tensor) and value.__class__ is EagerValue:
            piece = x[(*[slice(None)] * axis, slice(start, start + size))]
            piece._indexed = False
        else:
            piece = wrap(_slice_axis(value, axis, start, start + size))
        pieces.append(piece)
        start = start + size
    return pieces


@method
def chunk(x: TensorLike, chunks: int, axis: int = 0) -> list[Tensor]:
    """At most ``chunks`` pieces of equal size along ``axis``; the last may be smaller.

    A named size is held to multiples of ``chunks``, from which as many pieces come for each.
    """
    value = lifting.value_of(x)
    number = axis_of(axis, value.type.ndim, "chunk")
    total = value.type.shape[number]
    chunks = scalars.python_int(chunks)
    if isinstance(chunks, bool) or not isinstance(chunks, int) or chunks < 1:
        raise ShapeError(f"chunk: {chunks!r} pieces; at least 1 is needed")
    if isinstance(total, int):
        return split(x, -(-total // chunks) or 1, number)
    what = f"chunk of {value.type} along axis {number}"
    rules.require_elements(what, total)
    return _pieces(x, value, number, [rules.quotient(f"{what}: {total} slices", total, chunks)] * chunks)


def _slice_axis(value: Any, axis: int, start: DimLike, stop: DimLike) -> Any:
    shape = value.type.shape
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    stops = tuple(stop if i == axis else size for i, size in enumerate(shape))
    return ops.slice(value, starts=starts, stops=stops, strides=(1,) * len(shape))


@method
def flip(x: TensorLike, axis: int | Sequence[int] | None = None) -> Tensor:
    """The order of elements reversed along ``axis``, or along all."""
    value = lifting.value_of(x)
    axes = axes_of(axis, value.type.ndim, "flip")
    return wrap(ops.flip(value, axes=axes) if axes else value)


@method
def roll(x: TensorLike, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """Elements shifted by ``shift`` positions along ``axis``; those that leave at one end enter at the other.

    Without an axis, those of the flat tensor.
    """
    value = lifting.value_of(x)
    shape = value.shape
    moves = items(shift)
    if axis is None:
        if moves is not None and len(moves) != 1:
            raise ShapeError("roll: several shifts need as many axes")
        flat = ops.reshape(value, shape=(dims.product(shape),))
        return wrap(ops.reshape(_rolled(flat, listed(shift)[0], 0), shape=shape))
    axes = listed(axis)
    shifts = for_each(shift, len(axes))
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    for number, offset in zip(axes, shifts, strict=True):
        value = _rolled(value, offset, axis_of(number, len(shape), "roll"))
    return wrap(value)


def _rolled(value: Any, shift: int, axis: int) -> Any:
    size, shift = value.shape[axis], scalars.python_int(shift)
    if isinstance(size, int) and size == 0:
        return value
    if scalars.is_varying(shift) and not scalars.is_named_size(shift):
        extent: Any = size if isinstance(size, int) else context.current().trace.number_of(size)
        cut: Any = lifting.index_of(extent - shift % extent)
        if isinstance(cut, ValueHandle):
            starts = [lifting.constant(0, dtypes.int64)] * len(value.shape)
            starts[axis] = lifting.value_of(cut)
            return ops.dynamic_slice(ops.concat(value, value, axis=axis), *starts, sizes=value.shape)
    if isinstance(size, int) and shift % size == 0:
        return value
    rules.require_elements("roll", size)
    cut = size - shift % size
    return ops.concat(*(_slice_axis(value, axis, *bounds) for bounds in ((cut, size), (0, cut))), axis=axis)


@method
def tile(x: TensorLike, repetitions: int | Sequence[int]) -> Tensor:
    """Copies of x one after the other, ``repetitions`` of them along each axis, counted from the last one."""
    value = lifting.value_of(x)
    reps = listed(repetitions)
    counts = (1,) * (len(value.shape) - len(reps)) + shape_of(reps)
    shape = (1,) * (len(counts) - len(value.shape)) + value.shape
    wide = tuple(part for pair in zip(counts, shape, strict=True) for part in pair)
    axes = tuple(2 * i + 1 for i in range(len(shape)))
    spread = ops.broadcast(ops.reshape(value, shape=shape), shape=wide, axes=axes)
    return wrap(ops.reshape(spread, shape=tuple(n * size for n, size in zip(counts, shape, strict=True))))


@method
def moveaxis(x: TensorLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Axes moved to other positions, the others staying in order."""
    value = lifting.value_of(x)
    ndim = len(value.shape)
    old, new = (ordered_axes_of(axes, ndim, "moveaxis") for axes in (source, destination))
    if len(old) != len(new):
        raise ShapeError(f"moveaxis: {source} and {destination} do not pair axes with positions")
    order = [axis for axis in range(ndim) if axis not in old]
    for position, axis in sorted(zip(new, old, strict=True)):
        order.insert(position, axis)
    return permute_dims(wrap(value), tuple(order))


@method
def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged."""
    return transpose(x, axis1, axis2)


@method
def unstack(x: TensorLike, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along ``axis``, which is dropped."""
    value = lifting.value_of(x)
    front = moveaxis(wrap(value), axis_of(axis, len(value.shape), "unstack"), 0)
    return tuple(front[i] for i in range(len(front)))


@method
def pad(
    x: TensorLike,
    widths: int | Sequence[int] | Sequence[tuple[int, int]],
    value: float | int | Tensor = 0,
    *,
    mode: str = "constant",
) -> Tensor:
    """x with ``(before, after)`` elements around each axis; one pair, or one number, stands for all.

    ``mode``: constant (``value``, a number or a tensor of rank 0), edge or replicate, reflect, symmetric (which repeats
    the edge), wrap or circular.
    ShapeError where there are not two widths for each axis, or where one is negative.
    """
    operand = lifting.value_of(x)
    pairs = _width_pairs(widths, operand.type.ndim)
    if mode != "constant":
        kind = mode_of(mode)
        with placement.beside(operand):
            return wrap(padded(operand, pairs, kind))
    filler = _filler(value, operand.type.dtype)
    low, high = tuple(w[0] for w in pairs), tuple(w[1] for w in pairs)
    return wrap(ops.pad(operand, filler, low=low, high=high, interior=(0,) * len(pairs)))


def _filler(value: Any, dtype: DType) -> Any:
    if not isinstance(value, Tensor) or scalars.is_varying(value):
        return lifting.constant(value, dtype)
    own = lifting.value_of(value)
    if own.type.shape != ():
        raise ShapeError(f"pad fills with one number, not with {own.type}")
    return own if own.type.dtype == dtype else ops.cast(own, dtype=dtype)


def _width_pairs(widths: Any, rank: int) -> list[tuple[int, int]]:
    """Two widths for each axis, none of them negative."""
    listed_widths = items(widths)
    per_axis = [items(width) or width for width in ((widths, widths) if listed_widths is None else listed_widths)]
    if len(per_axis) == 2 and not any(isinstance(width, tuple) for width in per_axis):
        per_axis = [tuple(per_axis)] * rank
    elif len(per_axis) == 1 and isinstance(per_axis[0], tuple):
        per_axis = per_axis * rank
    if len(per_axis) != rank:
        raise ShapeError(f"pad: {len(per_axis)} widths for a tensor of rank {rank}")
    if not all(isinstance(width, tuple) and len(width) == 2 for width in per_axis):
        raise ShapeError(f"pad takes (before, after) for each axis, not {widths!r}", hint="jg.pad(x, ((1, 1), (0, 0)))")
    pairs = [(int(scalars.python_int(low)), int(scalars.python_int(high))) for low, high in per_axis]
    if min((min(pair) for pair in pairs), default=0) < 0:
        raise ShapeError(f"pad: a width of {pairs} is negative", hint="a slice cuts elements off")
    return pairs


@method
def take(x: TensorLike, indices: TensorLike, axis: int | None = None) -> Tensor:
    """Slices of x at ``indices`` (any integer dtype and rank) along ``axis``, which is optional for a vector.

    IndexError where an index is out of range.
    """
    value = lifting.value_of(x)
    if axis is None and value.type.ndim != 1:
        raise ShapeError(f"take from a tensor of rank {value.type.ndim} needs an axis", hint="jg.take(x, i, axis=0)")
    number = 0 if axis is None else axis_of(axis, value.type.ndim, "take")
    with placement.beside(value):
        return wrap(ops.gather(value, index_positions(indices, "take"), axis=number))


@method
def take_along_axis(x: TensorLike, indices: TensorLike, axis: int = -1) -> Tensor:
    """For each element of ``indices`` the element of x at that index along ``axis``, at its own along other axes."""
    value = lifting.value_of(x)
    number = axis_of(axis, value.type.ndim, "take_along_axis")
    return wrap(indexing.along(value, index_positions(indices, "take_along_axis"), number))


@method
def index_select(x: TensorLike, axis: int, index: TensorLike) -> Tensor:
    """PyTorch's order of the arguments of ``take``."""
    return take(x, index, axis)


@method
def index_add(x: TensorLike, axis: int, index: TensorLike, source: TensorLike, *, alpha: TensorLike = 1) -> Tensor:
    """x with ``alpha`` times slice i of ``source`` added to slice ``index[i]`` along ``axis``.

    IndexError for an index out of range or below 0.
    """
    value = lifting.value_of(x)
    added = lifting.cast(lifting.value_of(source, value.dtype), value.dtype)
    if not (scalars.is_scalar(alpha) and alpha == 1):
        added = lifting.cast((wrap(added) * alpha).value, value.dtype)
    number = axis_of(axis, value.type.ndim, "index_add")
    return wrap(ops.scatter_add(value, index_positions(index, "index_add"), added, axis=number, negative=False))
