"""Diagonals of matrices, and their sums."""

from __future__ import annotations

from typing import Any

from jitgraph.linalg.operands import matrices_of
from jitgraph.tensor.functions.diagonals import diagonal_of
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.reductions import sum
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


@array_function
def diagonal(x: TensorLike, *, offset: int = 0) -> Tensor:
    """The elements of matrices on a diagonal: above the main one for ``offset`` greater than 0, below it for less."""
    return diagonal_of(wrap(matrices_of("diagonal", x)), offset)


@array_function
def trace(x: TensorLike, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of ``diagonal``, with the dtype of ``sum``."""
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)
