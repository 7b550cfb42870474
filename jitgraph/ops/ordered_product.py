"""Products of matrices of floats in NumPy, in blocks of ``BLOCK_STEPS`` fused steps: bit for bit what compiled code
gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, Final, TypeVar

import numpy as np

from jitgraph.ops.numeric import Array

# ----------------------------------------------------------------------
# The order of a contraction's sum: blocks of ``BLOCK_STEPS`` steps, merged by a tree.
#
# In a block p = fma(left, right, p) in order of k from p = 0. The blocks' sums merge as T(c blocks) = T(largest power
# of two below c) + T(rest). So c blocks err by at most (BLOCK_STEPS + ceil(log2 c)) u sum |left * right|, and any
# aligned run of 2^q blocks is a part of the sum that can be had by itself.

T = TypeVar("T")

BLOCK_STEPS: Final = 384
"""Steps of k in a block; part of the meaning of dot and conv, whatever the target."""


def merged(sums: Iterable[T], add: Callable[[T, T], T]) -> T | None:
    """The tree T over the blocks' sums, ``add`` having the earlier ones on its left; None of no sums."""
    waiting: list[T] = []
    for number, total in enumerate(sums):
        while number & 1:
            total = add(waiting.pop(), total)
            number >>= 1
        waiting.append(total)
    while len(waiting) > 1:
        last = waiting.pop()
        waiting.append(add(waiting.pop(), last))
    return waiting[0] if waiting else None


# ----------------------------------------------------------------------
# Fused multiply-add with one rounding, on NumPy arrays, from plain IEEE arithmetic.
#
# Sources: T. J. Dekker, "A floating-point technique for extending the available precision" (1971), for exact products;
# S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
# odd" (2008).


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """``s + e == a + b`` exactly, ``s`` rounded (Knuth); for finite sums."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def rounded_to_odd(s: Array, e: Array) -> Array:
    """``s + e`` rounded to odd, where ``s`` is ``s + e`` rounded to nearest (float64)."""
    bits = s.view(np.int64)
    move = (e != 0) & np.isfinite(s) & (bits & 1 == 0)  # an inexact even result steps to its odd neighbour towards e
    away = (e > 0) == (s > 0)  # s is not 0 here: a sum that is inexact is not 0
    return np.where(move, bits + np.where(away, 1, -1), bits).view(np.float64)


def fma32(x: Array, y: Array, z: Array) -> Array:
    """``x * y + z`` rounded once, float32.

    The product of two float32 is exact in float64; the sum is rounded to odd there, and 53 bits are at least 24 + 2, so
    the second rounding is harmless, for subnormal results too.
    """
    wide = [np.asarray(v, np.float64) for v in (x, y, z)]
    total, error = two_sum(wide[0] * wide[1], wide[2])
    return rounded_to_odd(total, error).astype(np.float32)


def fma64(x: Array, y: Array, z: Array) -> Array:
    """``x * y + z`` rounded once, float64.

    Moderate exponents go by Dekker's product and a sum rounded to odd; a product too small to move z gives z; what is
    left (near overflow or underflow) is computed in rational numbers, element by element.
    """
    shape = np.broadcast_shapes(np.shape(x), np.shape(y), np.shape(z))
    a, b, c = (np.broadcast_to(np.asarray(v, np.float64), shape) for v in (x, y, z))
    product = a * b
    size = np.abs(product)
    special = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c)) | (a == 0) | (b == 0)  # one rounding at most
    room = (np.abs(a) < 2.0**995) & (np.abs(b) < 2.0**995)
    fast = room & (size > 2.0**-900) & (size < 2.0**1020) & (np.abs(c) < 2.0**1020)
    tiny = room & (size <= 2.0**-900) & (np.abs(c) > 2.0**-700)
    finite = np.isfinite(a) & np.isfinite(b)
    result = np.where(
        special & ~(finite & np.isinf(c)), product + c, c
    )  # the product may overflow, but exactly it is finite
    if fast.any():
        result = np.where(fast & ~special, fma64_by_parts((a, *halves_of(a)), (b, *halves_of(b)), c), result)
    rest = ~(special | fast | tiny)
    if rest.any():
        result[rest] = [_fma_exact(*map(float, v)) for v in zip(a[rest], b[rest], c[rest], strict=True)]
    return result


def fma64_by_parts(a: tuple[Array, Array, Array], b: tuple[Array, Array, Array], c: Array) -> Array:
    """``a * b + c`` rounded once, where nothing overflows or underflows; of a and b also their halves are given."""
    product = a[0] * b[0]
    low = ((a[1] * b[1] - product) + a[1] * b[2] + a[2] * b[1]) + a[2] * b[2]  # the error of the product
    upper, lower = two_sum(c, low)
    high, rest = two_sum(product, upper)
    return np.asarray(high + rounded_to_odd(*two_sum(lower, rest)))


def halves_of(a: Any) -> tuple[Any, Any]:
    """An array or a tensor ``a`` of float64 as a sum of two parts of 26 bits (Veltkamp)."""
    t = a * 134217729.0  # 2^27 + 1
    high = t - (t - a)
    return high, a - high


def _fma_exact(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if c == 0 else 0.0  # exact cancellation of non-zero terms gives +0
    try:
        return exact.numerator / exact.denominator  # Python rounds the quotient of ints once
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


# ----------------------------------------------------------------------
# Products of matrices of floats in NumPy, in the order of ``ordered_product.py`` and so bit for bit what compiled code
# gives.
#
# All blocks of k, all rows and all columns take a step of k together, in pieces that fit into a cache.

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
