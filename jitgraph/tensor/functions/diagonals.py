"""Diagonals taken and made, indices of triangles, matrices in blocks; names and conventions of PyTorch and NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import ShapeError
from jitgraph.ops.matrices import lesser
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.creation import asarray
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.manipulation import concat, moveaxis, pad
from jitgraph.tensor.functions.method import array_function, axis_of, method
from jitgraph.tensor.functions.operands import tensor_like
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


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
