"""Joins, cuts and turns of tensors, diagonals, triangles and blocks, in NumPy's and PyTorch's names."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import ShapeError
from jitgraph.ir import context, dims
from jitgraph.ir.dims import DimLike
from jitgraph.ops.matrices import lesser
from jitgraph.tensor import lifting, scalars
from jitgraph.tensor.functions.creation import asarray, shape_of
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.manipulation import chunk, concat, flip, moveaxis, pad, split
from jitgraph.tensor.functions.method import array_function, axis_of, method, ordered_axes_of
from jitgraph.tensor.functions.operands import tensor_like
from jitgraph.tensor.functions.shapes import expand_dims, reshape, transpose
from jitgraph.tensor.index_bounds import dim_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import items, listed
from jitgraph.tensor.tensor import Tensor, wrap

# ----------------------------------------------------------------------
# Diagonals taken and made, indices of triangles, matrices in blocks; names and conventions of PyTorch and NumPy.


@method
def diagonal(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements x[i, i + offset] of the matrices in two axes, along a new last axis, as NumPy and PyTorch have it.

    ShapeError for fewer than two axes or one axis twice.
    """
    tensor = tensor_like(x)
    if tensor.ndim < 2:
        raise ShapeError(f"diagonal of {tensor.value.type}, which is no matrix")
    first, second = (axis_of(axis, tensor.ndim, "diagonal") for axis in (axis1, axis2))
    if first == second:
        raise ShapeError(f"diagonal of {tensor.value.type}: axis {axis1} twice")
    return diagonal_of(moveaxis(tensor, (first, second), (-2, -1)), offset)


def diagonal_of(matrices: Tensor, offset: int = 0) -> Tensor:
    """The elements [..., i, i + offset] of matrices in the last two axes."""
    *batch, rows, columns = matrices.value.type.shape
    down, right, count = diagonal_positions(rows, columns, offset)
    flat = reshape(matrices, (*batch, rows * columns))
    if isinstance(count, int) and isinstance(columns, int):
        chosen = lifting.value_of(np.arange(count) * (columns + 1) + (down * columns + right))
    else:
        step = wrap(ops.full(shape=(), value=columns, dtype=dtypes.int64))
        index = wrap(lifting.positions_along((count,), 0, matrices.value))
        chosen = ((index + down) * step + (index + right)).value
    with placement.beside(flat.value):
        return wrap(ops.gather(flat.value, chosen, axis=flat.ndim - 1))


def diagonal_positions(rows: Any, columns: Any, offset: int) -> tuple[int, int, Any]:
    """The row and the column in which a diagonal of a matrix begins, and its length."""
    down, right = max(-offset, 0), max(offset, 0)
    if isinstance(rows, int) and isinstance(columns, int):
        down, right = min(down, rows), min(right, columns)
        return down, right, min(rows - down, columns - right)
    return down, right, lesser(rows - down, columns - right)


@method
def diag_embed(x: TensorLike, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Tensor:
    """Matrices of zeros with the last axis of x on a diagonal, in two new axes of the result; PyTorch's function."""
    tensor = tensor_like(x)
    if tensor.ndim < 1:
        raise ShapeError("diag_embed of a tensor of rank 0")
    size, shift = tensor.value.type.shape[-1], abs(offset)
    sides = [(max(-offset, 0), max(offset, 0))]
    column = pad(tensor, [(0, 0)] * (tensor.ndim - 1) + sides) if offset else tensor
    extent = size + shift
    shape = (*tensor.value.type.shape[:-1], extent, extent)
    spread = wrap(lifting.broadcast_to(expand_dims(column, -1).value, shape))
    rows, columns = (wrap(lifting.positions_along(shape, len(shape) - 2 + i, tensor.value)) for i in range(2))
    zero = wrap(lifting.repeated(0, tensor.dtype, shape))
    matrices = where(columns - rows == offset, spread, zero)
    return moveaxis(matrices, (-2, -1), (axis1, axis2))


@method
def diag(x: TensorLike, k: int = 0) -> Tensor:
    """The k-th diagonal of a matrix, or the matrix with a vector on its k-th diagonal; ShapeError for other ranks."""
    tensor = tensor_like(x)
    if tensor.ndim == 1:
        return diag_embed(tensor, k)
    if tensor.ndim != 2:
        raise ShapeError(f"diag takes a vector or a matrix, not {tensor.value.type}", hint="jg.diagonal, jg.diag_embed")
    return diagonal(tensor, k)


@method
def diagflat(x: TensorLike, k: int = 0) -> Tensor:
    """The matrix with all elements of x, in their order, on its k-th diagonal."""
    return diag_embed(reshape(tensor_like(x), (-1,)), k)


@array_function
def block_diag(*tensors: TensorLike) -> Tensor:
    """The matrix with the given matrices along its diagonal; vectors count as rows, numbers as 1 by 1."""
    blocks = [wrap(value) for value in lifting.beside(*tensors)]
    if not blocks:
        raise ShapeError("block_diag of no matrices")
    matrices: list[Tensor] = []
    for block in blocks:
        if block.ndim > 2:
            raise ShapeError(f"block_diag takes matrices, not {block.value.type}")
        matrices.append(block if block.ndim == 2 else reshape(block, (1, -1)))
    width: Any = sum(m.value.type.shape[1] for m in matrices)
    rows, before = [], 0
    for matrix in matrices:
        columns: Any = matrix.value.type.shape[1]
        rows.append(pad(matrix, [(0, 0), (before, width - before - columns)]))
        before += columns
    common = lifting.common_dtype(*rows)
    return concat([row.astype(common) for row in rows], axis=0)


@array_function
def tril_indices(row: int, col: int | None = None, offset: int = 0) -> Tensor:
    """Rows and columns, int64 [2, count], of the elements on and below a diagonal of a row by col matrix."""
    return asarray(np.stack(np.tril_indices(row, offset, col)).astype(np.int64))


@array_function
def triu_indices(row: int, col: int | None = None, offset: int = 0) -> Tensor:
    """Rows and columns, int64 [2, count], of the elements on and above a diagonal of a row by col matrix."""
    return asarray(np.stack(np.triu_indices(row, offset, col)).astype(np.int64))


# ----------------------------------------------------------------------
# More ways to join, cut and turn tensors, in NumPy's and PyTorch's names; nothing here computes.


def _of_rank(x: TensorLike, least: int, name: str) -> Tensor:
    tensor = wrap(lifting.value_of(x))
    if tensor.ndim < least:
        raise ShapeError(f"{name} takes a tensor of rank {least} or more, not {tensor.value.type}")
    return tensor


@method
def fliplr(x: TensorLike) -> Tensor:
    """The columns (axis 1) in reversed order."""
    return flip(_of_rank(x, 2, "fliplr"), 1)


@method
def flipud(x: TensorLike) -> Tensor:
    """The rows (axis 0) in reversed order."""
    return flip(_of_rank(x, 1, "flipud"), 0)


@method
def rot90(x: TensorLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """x turned by ``k`` quarters from the first of ``axes`` towards the second."""
    tensor = _of_rank(x, 2, "rot90")
    first, second = ordered_axes_of(axes, tensor.ndim, "rot90")
    turns = scalars.python_int(k) % 4
    if turns == 0:
        return tensor
    if turns == 2:
        return flip(tensor, (first, second))
    if turns == 1:
        return transpose(flip(tensor, second), first, second)
    return flip(transpose(tensor, first, second), second)


@method
def movedim(x: TensorLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """PyTorch's name of ``moveaxis``."""
    return moveaxis(x, source, destination)


@method
def swapdims(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """PyTorch's name of ``swapaxes``."""
    return transpose(x, axis1, axis2)


@method
def rollaxis(x: TensorLike, axis: int, start: int = 0) -> Tensor:
    """Axis ``axis`` moved before axis ``start``, as in NumPy."""
    tensor = wrap(lifting.value_of(x))
    number = axis_of(axis, tensor.ndim, "rollaxis")
    before = start + tensor.ndim if start < 0 else start
    if not 0 <= before <= tensor.ndim:
        raise ShapeError(f"rollaxis: start {start} is out of range for a tensor of rank {tensor.ndim}")
    return moveaxis(tensor, number, before - 1 if before > number else before)


@method
def ravel(x: TensorLike) -> Tensor:
    """The elements in row-major order as a vector."""
    return reshape(x, -1)


@method
def narrow(x: TensorLike, axis: int, start: int, length: DimLike) -> Tensor:
    """The ``length`` slices of x from ``start`` on along ``axis``; ShapeError where they do not lie within."""
    tensor = _of_rank(x, 1, "narrow")
    number = axis_of(axis, tensor.ndim, "narrow")
    size = tensor.value.type.shape[number]
    first, count = scalars.python_int(start), scalars.python_int(length)
    if type(first) is int and first < 0:
        first += tensor.shape[number]
    known, low, extent = context.constraints(), dim_of(first), dim_of(count)
    if not (known.at_least(low, 0) and known.at_least(extent, 0) and known.at_least(size, low + extent)):
        raise ShapeError(f"narrow: {length} slices from {start} on do not lie within the {size} of axis {axis}")
    sliced = tensor[(*[slice(None)] * number, slice(first, first + count))]
    return wrap(sliced.value)


@method
def unflatten(x: TensorLike, axis: int, sizes: Sequence[DimLike]) -> Tensor:
    """Axis ``axis`` as several axes of the given sizes, of which one may be -1."""
    tensor = _of_rank(x, 1, "unflatten")
    number = axis_of(axis, tensor.ndim, "unflatten")
    shape = tensor.value.type.shape
    new_sizes, size = tuple(map(scalars.python_int, listed(sizes))), shape[number]
    others = [each for each in new_sizes if not (isinstance(each, int) and each == -1)]
    if len(others) == len(new_sizes) - 1 and isinstance(size, int) and all(isinstance(each, int) for each in others):
        rest = math.prod(others)
        if rest and size % rest == 0:
            new_sizes = tuple(size // rest if isinstance(each, int) and each == -1 else each for each in new_sizes)
            others = list(new_sizes)
    if len(others) == len(new_sizes):
        if isinstance(size, int) and dims.product(shape_of(new_sizes)) != size:
            raise ShapeError(f"unflatten: sizes {new_sizes} do not multiply to the {size} of axis {axis}")
        return wrap(ops.reshape(tensor.value, shape=(*shape[:number], *shape_of(new_sizes), *shape[number + 1 :])))
    if number == tensor.ndim - 1 or all(isinstance(size, int) and size for size in shape):
        return reshape(tensor, (*shape[:number], *new_sizes, *shape[number + 1 :]))
    raise ShapeError(f"unflatten: -1 in {new_sizes} cannot be told from {tensor.value.type}", hint="write the size out")


@method
def unfold(x: TensorLike, axis: int, size: int, step: int) -> Tensor:
    """Windows of ``size`` elements along ``axis``, one every ``step``, along a new last axis."""
    tensor = wrap(lifting.value_of(x))
    number = axis_of(axis, tensor.ndim, "unfold")
    extent = tensor.value.type.shape[number]
    if size < 0 or step < 1 or (isinstance(extent, int) and size > extent):
        raise ShapeError(f"unfold: windows of {size} each {step} of the {extent} elements along axis {axis}")
    count = (extent - size) // step + 1
    starts = wrap(lifting.positions_along((count, size), 0, tensor.value)) * step
    picks = starts + wrap(lifting.positions_along((count, size), 1, tensor.value))
    windows = wrap(ops.gather(tensor.value, picks.value, axis=number))
    return moveaxis(windows, number + 1, -1)


# --- cutting --------------------------------------------------------------------------------------------------------


@method
def tensor_split(x: TensorLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """That many pieces along ``axis``, the first ones larger by one; or pieces that begin at the given indices."""
    tensor = _of_rank(x, 1, "tensor_split")
    number = axis_of(axis, tensor.ndim, "tensor_split")
    size = tensor.value.type.shape[number]
    listed_places = items(indices_or_sections)
    if listed_places is not None:
        if not isinstance(size, int):
            raise ShapeError(f"tensor_split at indices of the named size {size}", hint="jg.split takes listed sizes")
        cuts = [slice(0, index).indices(size)[1] for index in map(scalars.python_int, listed_places)]
        bounds = zip([0, *cuts], [*cuts, size], strict=True)
        return [narrow(tensor, number, first, max(last - first, 0)) for first, last in bounds]
    count = scalars.python_int(indices_or_sections)
    if not isinstance(count, int) or count < 1:
        raise ShapeError(f"tensor_split: {indices_or_sections!r} pieces; at least 1 is needed")
    if not isinstance(size, int):
        return chunk(tensor, count, number)
    return split(tensor, [size // count + (i < size % count) for i in range(count)], number)


def _splitter(name: str, axis: Callable[[int], int], least: int, doc: str) -> Any:
    def function(x: TensorLike, indices_or_sections: int | Sequence[int]) -> list[Tensor]:
        tensor = _of_rank(x, least, name)
        number = axis(tensor.ndim)
        size = tensor.value.type.shape[number]
        count = indices_or_sections
        if isinstance(count, int) and isinstance(size, int) and (count < 1 or size % count):
            raise ShapeError(f"{name}: {size} elements along axis {number} are not {count} equal pieces")
        return tensor_split(tensor, indices_or_sections, number)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return method(function)


hsplit = _splitter("hsplit", lambda rank: 0 if rank == 1 else 1, 1, "Equal pieces, or at indices, along axis 1 (0).")
vsplit = _splitter("vsplit", lambda rank: 0, 2, "Equal pieces, or pieces cut at indices, along axis 0.")
dsplit = _splitter("dsplit", lambda rank: 2, 3, "Equal pieces, or pieces cut at indices, along axis 2.")


# --- joining --------------------------------------------------------------------------------------------------------


def _widened(x: TensorLike, rank: int) -> Tensor:
    tensor = wrap(lifting.value_of(x))
    if rank == 3 and tensor.ndim == 2:
        return expand_dims(tensor, 2)
    if rank == 3 and tensor.ndim == 1:
        return reshape(tensor, (1, *tensor.value.type.shape, 1))
    while tensor.ndim < rank:
        tensor = expand_dims(tensor, 0)
    return tensor


def _beside(xs: Sequence[TensorLike]) -> list[Tensor]:
    return [wrap(value) for value in lifting.beside(*xs)]


def _at_least(name: str, rank: int) -> Any:
    def function(*xs: TensorLike) -> Tensor | list[Tensor]:
        widened = [_widened(x, rank) for x in xs]
        return widened[0] if len(widened) == 1 else widened

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Each tensor with axes of size 1 added until it has rank {rank}, as in NumPy."
    return array_function(function)


atleast_1d = _at_least("atleast_1d", 1)
atleast_2d = _at_least("atleast_2d", 2)
atleast_3d = _at_least("atleast_3d", 3)


@array_function
def hstack(xs: Sequence[TensorLike]) -> Tensor:
    """Tensors joined along axis 1; vectors along axis 0."""
    widened = [_widened(x, 1) for x in _beside(xs)]
    return concat(widened, 0 if widened and widened[0].ndim == 1 else 1)


@array_function
def vstack(xs: Sequence[TensorLike]) -> Tensor:
    """Tensors joined along axis 0; vectors are rows."""
    return concat([_widened(x, 2) for x in _beside(xs)], 0)


@array_function
def dstack(xs: Sequence[TensorLike]) -> Tensor:
    """Tensors joined along axis 2, which is added where they have none."""
    return concat([_widened(x, 3) for x in _beside(xs)], 2)


@array_function
def column_stack(xs: Sequence[TensorLike]) -> Tensor:
    """Tensors joined along axis 1; vectors are columns."""
    return concat([reshape(x, (x.value.type.size, 1)) if x.ndim < 2 else x for x in _beside(xs)], 1)


# --- one part replaced ----------------------------------------------------------------------------------------------


@method
def select_scatter(x: TensorLike, src: TensorLike, axis: int, index: int) -> Tensor:
    """x with slice ``index`` along ``axis`` replaced by ``src``."""
    tensor = _of_rank(x, 1, "select_scatter")
    number = axis_of(axis, tensor.ndim, "select_scatter")
    return _replaced(tensor, (*[slice(None)] * number, index), src)


@method
def slice_scatter(
    x: TensorLike, src: TensorLike, axis: int = 0, start: int | None = None, stop: int | None = None, step: int = 1
) -> Tensor:
    """x with its slices ``start:stop:step`` along ``axis`` replaced by ``src``."""
    tensor = _of_rank(x, 1, "slice_scatter")
    number = axis_of(axis, tensor.ndim, "slice_scatter")
    return _replaced(tensor, (*[slice(None)] * number, slice(start, stop, step)), src)


@method
def diagonal_scatter(x: TensorLike, src: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """x with a diagonal over two axes replaced by ``src``, whose last axis runs along it."""
    tensor = _of_rank(x, 2, "diagonal_scatter")
    first, second = (axis_of(axis, tensor.ndim, "diagonal_scatter") for axis in (axis1, axis2))
    front = moveaxis(tensor, (first, second), (0, 1))
    rows, columns = front.value.type.shape[:2]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise ShapeError(f"diagonal_scatter of the named sizes {rows} and {columns}", hint="jg.where with jg.eye")
    down, across, count = diagonal_positions(rows, columns, offset)
    steps = wrap(ops.iota(shape=(count,), axis=0, dtype=dtypes.int64))
    source = moveaxis(wrap(lifting.value_of(src, tensor.dtype)), -1, 0)
    return moveaxis(_replaced(front, (steps + down, steps + across), source), (0, 1), (first, second))


def _replaced(tensor: Tensor, index: Any, src: TensorLike) -> Tensor:
    from jitgraph.tensor import indexing

    part_shape = wrap(indexing.get(tensor.value, index)).value.type.shape
    source = lifting.value_of(src, tensor.dtype)
    if source.type.shape != part_shape:
        raise ShapeError(f"a part of shape {part_shape} cannot be replaced by {source.type}")
    return wrap(indexing.put(tensor.value, index, wrap(source)))
