"""Products of matrices of floats in NumPy, in the order of ``blocks.py`` and so bit for bit what compiled code gives.

All blocks of k, all rows and all columns take a step of k together, in pieces that fit into a cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from jitgraph.ops.blocks import BLOCK_STEPS, merged
from jitgraph.ops.exact_fma import fma32, fma64, fma64_by_parts, halves_of, rounded_to_odd, two_sum
from jitgraph.ops.numeric import Array

_PIECE: Final = 1 << 14
"""Sums that are computed together."""

_BELOW: Final = (1 << 29) - 1
"""The bits of a float64 that a float32 lacks; with the highest of them alone set, it lies halfway between two."""

_HALFWAY: Final = 1 << 28


def matmul(left: Array, right: Array) -> Array:
    """``left[b, m, k] @ right[b, k, n]``: floats in their order, integers, which wrap, in any."""
    return _ordered(left, right) if left.dtype.kind == "f" else np.matmul(left, right)


def _ordered(left: Array, right: Array) -> Array:
    batch, rows, depth = left.shape
    columns = right.shape[2]
    result = np.zeros((batch, rows, columns), left.dtype)
    if result.size == 0 or depth == 0:
        return result
    chain = _chain_for(left, right)
    wide = min(columns, _PIECE)
    tall = min(rows, max(1, _PIECE // wide))
    together = min(batch, max(1, _PIECE // (wide * tall)))
    for b in range(0, batch, together):
        for m in range(0, rows, tall):
            for n in range(0, columns, wide):
                part = np.s_[b : b + together, m : m + tall, n : n + wide]
                own = left[part[0], part[1]], right[part[0], :, part[2]]
                result[part] = merged(_block_sums(chain, *own, _PIECE // (wide * tall * together)), np.add)
    return result


_Chain = Callable[[Array, Array], Array]


def _block_sums(chain: _Chain, left: Array, right: Array, together: int) -> Iterator[Array]:
    """The sums of the blocks in order, so many ``together``."""
    batch, rows, depth = left.shape
    columns = right.shape[2]
    step = BLOCK_STEPS * max(1, together)
    for first in range(0, depth, step):
        last = min(first + step, depth)
        full_end = first + (last - first) // BLOCK_STEPS * BLOCK_STEPS
        if full_end > first:
            x = left[:, :, first:full_end].reshape(batch, rows, -1, BLOCK_STEPS).transpose(2, 0, 1, 3)
            y = right[:, first:full_end].reshape(batch, -1, BLOCK_STEPS, columns).transpose(1, 0, 2, 3)
            yield from chain(x, y)
        if full_end < last:
            yield chain(left[:, :, full_end:last], right[:, full_end:last])


def _chain_for(left: Array, right: Array) -> _Chain:
    """What sums the steps of a block: quickly, but for numbers whose products a short cut would round wrongly."""
    least, most = _least(left) * _least(right), np.float64(2.0**400)
    if left.dtype == np.float32:
        # All sums are multiples of 2^-149 then, so those that are subnormal are exact.
        return _chain32 if least >= 2.0**-101 else _chain_of(fma32)
    moderate = all(_least(x) >= 1 / most and (np.abs(x) <= most).all() for x in (left, right))
    return _chain64 if moderate else _chain_of(fma64)


def _least(x: Array) -> np.float64:
    """The least magnitude but 0; infinity where there is none."""
    size = np.abs(x)
    return np.float64(size.min(where=size > 0, initial=np.inf))


def _chain_of(fma: Callable[[Array, Array, Array], Array]) -> _Chain:
    def chain(left: Array, right: Array) -> Array:
        total = np.zeros((*left.shape[:-1], right.shape[-1]), left.dtype)
        for x, y in _steps(left, right):
            total = fma(x, y, total)
        return total

    return chain


def _steps(*factors: Array) -> Iterator[tuple[Array, Array]]:
    """For each step of k the column of ``left[..., m, k]`` and the row of ``right[..., k, n]``."""
    left, right = factors
    columns = np.ascontiguousarray(np.moveaxis(left, -1, 0))[..., None]
    rows = np.ascontiguousarray(np.moveaxis(right, -2, 0))[..., None, :]
    return zip(columns, rows, strict=True)


def _chain32(left: Array, right: Array) -> Array:
    """Products of float32 are exact in float64. A sum that is rounded there and again to float32 is right, unless it
    fell halfway between two float32: there the error of the first rounding decides."""
    shape = (*left.shape[:-1], right.shape[-1])
    total, product, wide = np.zeros(shape), np.empty(shape), np.empty(shape)
    narrow, low, halfway = np.empty(shape, np.float32), np.empty(shape, np.int64), np.empty(shape, np.bool_)
    bits = wide.view(np.int64)
    for x, y in _steps(left.astype(np.float64), right.astype(np.float64)):
        np.multiply(x, y, out=product)
        np.add(product, total, out=wide)
        np.copyto(narrow, wide, casting="same_kind")
        np.bitwise_and(bits, _BELOW, out=low)
        np.equal(low, _HALFWAY, out=halfway)
        if halfway.any():
            narrow[halfway] = rounded_to_odd(*two_sum(product[halfway], total[halfway]))
        np.copyto(total, narrow)
    return total.astype(np.float32)


def _chain64(left: Array, right: Array) -> Array:
    total = np.zeros((*left.shape[:-1], right.shape[-1]))
    splits = (_steps(x, y) for x, y in zip(halves_of(left), halves_of(right), strict=True))
    for (x, y), (x1, y1), (x2, y2) in zip(_steps(left, right), *splits, strict=True):
        total = fma64_by_parts((x, x1, x2), (y, y1, y2), total)
    return total
