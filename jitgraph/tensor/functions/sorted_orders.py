"""Orders by several keys, partitions, and the largest or smallest elements of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import ShapeError
from jitgraph.ops import rules
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.complex_numbers import imag, real
from jitgraph.tensor.functions.creation import arange
from jitgraph.tensor.functions.elementwise import isnan, where
from jitgraph.tensor.functions.manipulation import concat, moveaxis, take_along_axis
from jitgraph.tensor.functions.method import array_function, axis_of, method
from jitgraph.tensor.functions.operands import tensor_like
from jitgraph.tensor.functions.reductions import all as all_of
from jitgraph.tensor.functions.reductions import argsort, sort
from jitgraph.tensor.functions.reductions import max as max_of
from jitgraph.tensor.functions.reductions import min as min_of
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import listed
from jitgraph.tensor.tensor import Tensor, wrap


@array_function
def lexsort(keys: TensorLike | Sequence[TensorLike], axis: int = -1) -> Tensor:
    """Indices (int64) that sort by the last of the keys, equal ones by the one before it, and so on, as in NumPy.

    ``keys`` is a list of tensors of one shape, or a tensor whose rows are keys. ShapeError for none.
    """
    rows = [tensor_like(keys[i]) for i in range(len(keys))]  # type: ignore[arg-type,index]
    if not rows:
        raise ShapeError("lexsort by no keys")
    if rows[0].ndim == 0:
        return wrap(lifting.repeated(0, dtypes.int64, ()))
    number = axis_of(axis, rows[0].ndim, "lexsort")
    order: Tensor | None = None
    for key in rows:
        for part in (imag(key), real(key)) if dtypes.is_complex(key.dtype) else (key,):
            if order is None:
                order = argsort(part, number)
                continue
            order = take_along_axis(order, argsort(take_along_axis(part, order, number), number), number)
    assert order is not None
    return order


@method
def partition(x: TensorLike, kth: int | Sequence[int], axis: int | None = -1) -> Tensor:
    """The elements along ``axis`` with the smallest ones before place ``kth``, as if sorted; they are all sorted here.

    Without an axis of the flat tensor. IndexError for places out of range.
    """
    tensor, number = _parted(x, kth, axis, "partition")
    return sort(tensor, number)


@method
def argpartition(x: TensorLike, kth: int | Sequence[int], axis: int | None = -1) -> Tensor:
    """Indices (int64) that make the ``partition``; they sort."""
    tensor, number = _parted(x, kth, axis, "argpartition")
    return argsort(tensor, number)


def _parted(x: TensorLike, kth: int | Sequence[int], axis: int | None, name: str) -> tuple[Tensor, int]:
    tensor = tensor_like(x)
    if axis is None:
        tensor, axis = reshape(tensor, (-1,)), 0
    number = axis_of(axis, tensor.ndim, name)
    size = tensor.value.type.shape[number]
    for index in listed(kth):
        if isinstance(size, int) and not -size <= index < size:
            raise IndexError(f"{name}: place {index} does not lie within the {size} elements along axis {axis}")
    return tensor, number


# --- distinct elements ------------------------------------------------------------------------------------------------


_SHORT_ROW: Final = 1 << 14
"""Elements that are sorted as they are."""
_GAIN: Final = 4
"""How many times fewer elements the sorts of candidates have to have."""


@method
def topk(x: TensorLike, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The ``k`` largest (or smallest) elements along ``axis`` and their indices (int64), always in order.

    NaN is the greatest, and of equal elements the first comes first. ShapeError for more than there are.
    """
    tensor = tensor_like(x)
    number = axis_of(axis, tensor.ndim, "topk")
    size = tensor.value.type.shape[number]
    if isinstance(size, int) and not 0 <= k <= size:
        raise ShapeError(f"topk: k={k} does not lie between 0 and the {size} elements along axis {axis}")
    rows = moveaxis(tensor, number, -1)
    length = _block_length(rows, k)
    if length:
        indices = _by_blocks(wrap(ops.stop_gradient(rows.value)), k, length, largest)
        values = take_along_axis(rows, indices, -1)
    else:
        order, indices = ops.sort(rows.value, axis=rows.ndim - 1, descending=largest)
        values, indices = wrap(order)[..., :k], wrap(indices)[..., :k]
    return moveaxis(values, -1, number), moveaxis(indices, -1, number)


def _block_length(rows: Tensor, k: int) -> int:
    """Elements a block, so that the blocks' extremes and the elements of k blocks are about as many; 0 for a sort."""
    size = rows.value.type.shape[-1]
    if not isinstance(size, int) or size < _SHORT_ROW or k < 1 or rows.dtype not in rules.NUMBERS:
        return 0
    length = math.isqrt(size // k)
    candidates = size // length + (k + 1) * length if length > 1 else size
    return length if candidates * _GAIN <= size else 0


def _by_blocks(rows: Tensor, k: int, length: int, largest: bool) -> Tensor:
    """The places of the first k elements of the order, which lie in the k blocks whose extremes are the first.

    An element of another block has one of each of these k blocks before it. Places rise within the candidates, so that
    a stable sort keeps the order of equal elements. What is no whole block is a candidate.
    """
    *batch, size = rows.value.type.shape
    blocks = size // length
    blocked = reshape(rows[..., : blocks * length], (*batch, blocks, length))
    chosen = sort(argsort(_extremes(blocked, largest), -1, descending=largest)[..., :k], -1)
    with placement.beside(rows.value):
        within = arange(length, dtype=dtypes.int64)
        rest = lifting.broadcast_to(lifting.value_of(np.arange(blocks * length, size)), (*batch, size % length))
        indices = reshape(expand_dims(chosen, -1) * length + within, (*batch, k * length))
        indices = concat([indices, wrap(rest)], axis=-1)
    order = argsort(take_along_axis(rows, indices, -1), -1, descending=largest)[..., :k]
    return take_along_axis(indices, order, -1)


def _extremes(blocks: Tensor, largest: bool) -> Tensor:
    """The element of each block that comes first in the order, in which NaN is the greatest."""
    if largest or not dtypes.is_float(blocks.dtype):
        extreme: Any = max_of if largest else min_of
        return extreme(blocks, -1)  # type: ignore[no-any-return]
    missing = isnan(blocks)
    least = min_of(where(missing, math.inf, blocks), -1)
    return where(all_of(missing, -1), math.nan, least)
