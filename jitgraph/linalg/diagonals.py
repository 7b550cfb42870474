"""Diagonals of matrices, and their sums."""

from __future__ import annotations

from typing import Any

from jitgraph.linalg.operands import matrices_of
from jitgraph.ops.matrices import columns_of, lesser, rows_of
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.reductions import sum
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


@array_function
def diagonal(x: TensorLike, *, offset: int = 0) -> Tensor:
    """The elements of matrices on a diagonal: above the main one for ``offset`` greater than 0, below it for less."""
    value = matrices_of("diagonal", x)
    rows, columns = value.shape[-2:]
    down, right = max(-offset, 0), max(offset, 0)
    if isinstance(rows, int) and isinstance(columns, int):
        length: Any = max(min(rows - down, columns - right), 0)
        down, right = min(down, rows - length), min(right, columns - length)
    else:
        length = lesser(rows - down, columns - right)
    square = wrap(columns_of(rows_of(value, down, down + length), right, right + length))
    place = wrap(lifting.places((length,), 0, value))
    return square[..., place, place]


@array_function
def trace(x: TensorLike, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of ``diagonal``, with the dtype of ``sum``."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)
