"""Changing shape and order; nothing here computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.errors import DTypeError, JitgraphError, ShapeError, UndecidedError
from jitgraph.ir import context, dims
from jitgraph.ir.dims import DimLike
from jitgraph.ops import rules
from jitgraph.tensor import direct, indexing, lifting, scalars
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.method import array_function, axes_of, axis_of, method
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, settled, wrap


@method
def reshape(x: TensorLike, *shape: Any) -> Tensor:
    """The same elements in row-major order in another shape; one size may be -1."""
    wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    if set(map(type, wanted)) <= {int} and min(wanted, default=0) >= -1:  # NumPy takes any negative size for -1
        found = direct.view(x, lambda array: array.reshape(wanted))
        if found is not None:
            return wrap(found)
    value = lifting.value_of(x)
    return wrap(ops.reshape(value, shape=_resolve(value.type.shape, wanted)))


def _resolve(old: tuple[DimLike, ...], wanted: Sequence[Any]) -> tuple[DimLike, ...]:
    """The new shape with -1 replaced; ShapeError where the numbers of elements differ."""
    holes = [i for i, size in enumerate(wanted) if isinstance(size, int) and size == -1]
    known = shape_of(tuple(1 if i in holes else size for i, size in enumerate(wanted)))
    total, part = dims.product(old), dims.product(known)
    shown = tuple(-1 if i in holes else size for i, size in enumerate(known))
    if len(holes) > 1:
        raise ShapeError(f"reshape to {shown}: only one size may be -1")
    if holes:
        left = rules.quotient(f"reshape of {old} to {shown}: {total} elements", total, part)
        return tuple(left if i in holes else size for i, size in enumerate(known))
    if not context.constraints().same(total, part):
        raise ShapeError(f"reshape of {old} to {shown}: {total} elements against {part}")
    return known


@method
def permute_dims(x: TensorLike, axes: tuple[int, ...]) -> Tensor:
    """Axes in another order: axis i of the result is axis ``axes[i]`` of x."""
    found = direct.view(x, lambda array: array.transpose(axes)) if axes.__class__ is tuple else None
    if found is not None:
        return wrap(found)
    value = lifting.value_of(x)
    order = tuple(axis_of(a, value.type.ndim, "permute_dims") for a in axes)
    if sorted(order) != list(range(value.type.ndim)):
        raise ShapeError(f"permute_dims: {tuple(axes)} is not an order of the axes of {value.type}")
    return wrap(ops.transpose(value, permutation=order))


@method
def transpose(x: TensorLike, *axes: Any) -> Tensor:
    """All axes reversed; with two axes (PyTorch) those are swapped; with a tuple or more (NumPy) the new order."""
    value = lifting.value_of(x)
    given = tuple(axes[0]) if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
    if not given:
        given = tuple(reversed(range(value.type.ndim)))
    elif len(axes) == 2:
        first, second = (axis_of(a, value.type.ndim, "transpose") for a in axes)
        order = list(range(value.type.ndim))
        order[first], order[second] = second, first
        given = tuple(order)
    return permute_dims(wrap(value), given)


@array_function
def matrix_transpose(x: Tensor) -> Tensor:
    """The last two axes swapped."""
    return x.mT


@method
def flatten(x: TensorLike, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """Axes ``start_axis`` to ``end_axis`` as one."""
    value = lifting.value_of(x)
    shape = value.type.shape
    if not shape:
        return wrap(ops.reshape(value, shape=(1,)))
    first, last = axis_of(start_axis, len(shape), "flatten"), axis_of(end_axis, len(shape), "flatten")
    merged = (*shape[:first], dims.product(shape[first : last + 1]), *shape[last + 1 :])
    return wrap(ops.reshape(value, shape=merged))


@method
def squeeze(x: TensorLike, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Axes of size 1 dropped: the given ones, which must have size 1, or all for None."""
    value = lifting.value_of(x)
    shape = value.type.shape
    if axis is None:
        dropped: tuple[int, ...] = tuple(i for i, size in enumerate(shape) if isinstance(size, int) and size == 1)
    else:
        dropped = axes_of(axis, len(shape), "squeeze")
        for i in dropped:
            if not context.constraints().same(shape[i], 1):
                raise ShapeError(f"squeeze: axis {i} of {value.type} does not have size 1")
    return wrap(ops.reshape(value, shape=tuple(s for i, s in enumerate(shape) if i not in dropped)))


@method
def expand_dims(x: TensorLike, axis: int = 0) -> Tensor:
    """A new axis of size 1 at position ``axis`` of the result."""
    value = lifting.value_of(x)
    position = axis_of(axis, value.type.ndim + 1, "expand_dims")
    shape = value.type.shape
    return wrap(ops.reshape(value, shape=(*shape[:position], 1, *shape[position:])))


@method
def unsqueeze(x: TensorLike, axis: int) -> Tensor:
    """PyTorch's name of ``expand_dims``."""
    return expand_dims(x, axis)


@method
def broadcast_to(x: TensorLike, shape: Any) -> Tensor:
    """x repeated along new axes and axes of size 1."""
    value, wanted = lifting.value_of(settled(x)), shape_of(shape)
    if lifting.broadcast_shapes(value.type.shape, wanted) != wanted:
        raise ShapeError(f"{value.type} does not broadcast to {wanted}")
    return wrap(lifting.broadcast_to(value, wanted))


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
    if not xs:
        raise JitgraphError("concat of no tensors")
    dtype = lifting.common_dtype(*xs)
    values = [lifting.cast(lifting.value_of(x, dtype), dtype) for x in xs]
    if axis is None:
        values = [ops.reshape(value, shape=(value.type.size,)) for value in values]
    number = axis_of(axis or 0, values[0].type.ndim, "concat")
    if len({value.type.ndim for value in values}) > 1:
        raise ShapeError(f"concat of tensors of different ranks: {', '.join(str(value.type) for value in values)}")
    return wrap(values[0] if len(values) == 1 else ops.concat(*values, axis=number))


def _list_of(xs: Any, axis: Any, name: str) -> list[Any]:
    """The tensors to be joined; JitgraphError where they stand as arguments one by one."""
    if isinstance(axis, Tensor) or (isinstance(xs, Tensor) and xs.ndim == 0):
        raise JitgraphError(f"{name} takes one list of tensors and an axis\n  hint: jg.{name}([x, y], axis=0)")
    return list(xs)


concatenate = concat


@array_function
def stack(xs: Sequence[TensorLike], axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis.

    ShapeError for different shapes, JitgraphError for no tensors; dtypes promote.
    """
    xs = _list_of(xs, axis, "stack")
    if not xs:
        raise JitgraphError("stack of no tensors")
    pieces = [expand_dims(x, axis) for x in xs]
    types = [piece.value.type for piece in pieces]
    if any(type.ndim != types[0].ndim or _differ(type.shape, types[0].shape) for type in types):
        shapes = [squeeze(piece, axis % piece.ndim).value.type.shape for piece in pieces]
        found = ", ".join(dict.fromkeys(f"({', '.join(map(str, shape))})" for shape in shapes))
        raise ShapeError(
            f"stack takes tensors of one shape, not {found}", hint="jg.concat joins along an axis they have"
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
    if isinstance(sections, Sequence):
        sizes: Sequence[DimLike] = shape_of(tuple(sections))
        whole = sum(sizes)
        if not context.constraints().same(whole, total):
            raise ShapeError(f"split: sizes {list(sizes)} add up to {whole}, the axis has {total}")
    else:
        sizes = _equal_parts(total, *shape_of(sections))
    return _pieces(value, number, sizes)


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


def _pieces(value: Any, axis: int, sizes: Sequence[DimLike]) -> list[Tensor]:
    pieces = []
    start: DimLike = 0
    for size in sizes:
        pieces.append(wrap(_slice_axis(value, axis, start, start + size)))
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
        return split(wrap(value), -(-total // chunks) or 1, number)
    what = f"chunk of {value.type} along axis {number}"
    rules.require_elements(what, total)
    return _pieces(value, number, [rules.quotient(f"{what}: {total} slices", total, chunks)] * chunks)


def _slice_axis(value: Any, axis: int, start: DimLike, stop: DimLike) -> Any:
    shape = value.type.shape
    starts = tuple(start if i == axis else 0 for i in range(len(shape)))
    stops = tuple(stop if i == axis else size for i, size in enumerate(shape))
    return ops.slice(value, starts=starts, stops=stops, strides=(1,) * len(shape))


@method
def flip(x: TensorLike, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """The order of elements reversed along ``axis``, or along all."""
    value = lifting.value_of(x)
    axes = axes_of(axis, value.type.ndim, "flip")
    return wrap(ops.flip(value, axes=axes) if axes else value)


@method
def roll(x: TensorLike, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Elements moved by ``shift`` places along ``axis``, those that leave at one end entering at the other.

    Without an axis, those of the flat tensor.
    """
    value = lifting.value_of(x)
    shape = value.shape
    if axis is None:
        if isinstance(shift, tuple):
            raise ShapeError("roll: several shifts need as many axes")
        flat = ops.reshape(value, shape=(dims.product(shape),))
        return wrap(ops.reshape(_rolled(flat, shift, 0), shape=shape))
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    for number, places in zip(axes, shifts, strict=True):
        value = _rolled(value, places, axis_of(number, len(shape), "roll"))
    return wrap(value)


def _rolled(value: Any, shift: int, axis: int) -> Any:
    size, shift = value.shape[axis], scalars.python_int(shift)
    if isinstance(size, int) and (size == 0 or shift % size == 0):
        return value
    rules.require_elements("roll", size)
    cut = size - shift % size
    return ops.concat(*(_slice_axis(value, axis, *bounds) for bounds in ((cut, size), (0, cut))), axis=axis)


@method
def repeat(x: TensorLike, repeats: int, axis: int | None = None) -> Tensor:
    """Each slice along ``axis`` repeated in place; without an axis each element of the flat tensor."""
    value = lifting.value_of(x)
    if axis is None:
        value, axis = ops.reshape(value, shape=(dims.product(value.shape),)), 0
    number = axis_of(axis, len(value.shape), "repeat")
    repeats = scalars.python_int(repeats)
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 0:
        raise ShapeError(f"repeat: repeats={repeats!r} is not a non-negative int", hint="jg.tile repeats whole tensors")
    before, size, after = value.shape[:number], value.shape[number], value.shape[number + 1 :]
    wide = (*before, size, repeats, *after)
    kept = tuple(i for i in range(len(wide)) if i != number + 1)
    spread = ops.broadcast(value, shape=wide, axes=kept)
    return wrap(ops.reshape(spread, shape=(*before, size * repeats, *after)))


@method
def tile(x: TensorLike, repetitions: int | tuple[int, ...]) -> Tensor:
    """Copies of x one after the other, ``repetitions`` of them along each axis, counted from the last one."""
    value = lifting.value_of(x)
    given = tuple(repetitions) if isinstance(repetitions, tuple | list) else (repetitions,)
    counts = (1,) * (len(value.shape) - len(given)) + tuple(map(scalars.python_int, given))
    shape = (1,) * (len(counts) - len(value.shape)) + value.shape
    wide = tuple(part for pair in zip(counts, shape, strict=True) for part in pair)
    kept = tuple(2 * i + 1 for i in range(len(shape)))
    spread = ops.broadcast(ops.reshape(value, shape=shape), shape=wide, axes=kept)
    return wrap(ops.reshape(spread, shape=tuple(n * size for n, size in zip(counts, shape, strict=True))))


@method
def moveaxis(x: TensorLike, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> Tensor:
    """Axes moved to other positions, the others staying in order."""
    value = lifting.value_of(x)
    ndim = len(value.shape)
    sides = [axes if isinstance(axes, tuple) else (axes,) for axes in (source, destination)]
    old, new = ([axis_of(a, ndim, "moveaxis") for a in axes] for axes in sides)
    if len(old) != len(new) or len(set(old)) != len(old) or len(set(new)) != len(new):
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
    front = moveaxis(x, axis, 0)
    return tuple(front[i] for i in range(len(front)))


@method
def pad(x: TensorLike, widths: Sequence[tuple[int, int]], value: float | int = 0) -> Tensor:
    """x with ``(before, after)`` elements of ``value`` around each axis.

    ShapeError where there are not two widths for each axis, or where one is negative.
    """
    operand = lifting.value_of(x)
    if len(widths) != operand.type.ndim:
        raise ShapeError(f"pad: {len(widths)} widths for a tensor of rank {operand.type.ndim}")
    if not all(isinstance(width, Sequence) and len(width) == 2 for width in widths):
        raise ShapeError(f"pad takes (before, after) for each axis, not {widths!r}", hint="jg.pad(x, ((1, 1), (0, 0)))")
    filler = lifting.constant(value, operand.type.dtype)
    low, high = tuple(int(w[0]) for w in widths), tuple(int(w[1]) for w in widths)
    return wrap(ops.pad(operand, filler, low=low, high=high, interior=(0,) * len(widths)))


@method
def take(x: TensorLike, indices: TensorLike, axis: int | None = None) -> Tensor:
    """Slices of x at ``indices`` (any integer dtype and rank) along ``axis``, which a vector may leave out.

    IndexError where an index is out of range.
    """
    value = lifting.value_of(x)
    if axis is None and value.type.ndim != 1:
        raise ShapeError(f"take from a tensor of rank {value.type.ndim} needs an axis", hint="jg.take(x, i, axis=0)")
    number = 0 if axis is None else axis_of(axis, value.type.ndim, "take")
    return wrap(ops.gather(value, _positions(indices, "take"), axis=number))


def _positions(indices: TensorLike, name: str) -> Any:
    value = lifting.value_of(indices)
    if not dtypes.is_integer(value.dtype):
        raise DTypeError(f"{name}: indices are integers, not {value.type}", hint="indices.astype(jg.int64)")
    return lifting.positions(value)


@method
def take_along_axis(x: TensorLike, indices: TensorLike, axis: int = -1) -> Tensor:
    """For each element of ``indices``, the element of x at that place along ``axis`` and the same place elsewhere."""
    value = lifting.value_of(x)
    number = axis_of(axis, value.type.ndim, "take_along_axis")
    return wrap(indexing.along(value, _positions(indices, "take_along_axis"), number))


@method
def index_select(x: TensorLike, axis: int, index: TensorLike) -> Tensor:
    """PyTorch's order of the arguments of ``take``."""
    return take(x, index, axis)


@method
def index_add(x: TensorLike, axis: int, index: TensorLike, source: TensorLike) -> Tensor:
    """x with slice i of ``source`` added to slice ``index[i]`` along ``axis``; IndexError out of range or below 0."""
    value = lifting.value_of(x)
    added = lifting.cast(lifting.value_of(source, value.dtype), value.dtype)
    number = axis_of(axis, value.type.ndim, "index_add")
    return wrap(ops.scatter_add(value, _positions(index, "index_add"), added, axis=number, negative=False))
