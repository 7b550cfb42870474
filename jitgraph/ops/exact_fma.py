"""Fused multiply-add with one rounding, on NumPy arrays, from plain IEEE arithmetic.

Sources: T. J. Dekker, "A floating-point technique for extending the available precision" (1971), for exact products;
S. Boldo and G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
odd" (2008).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


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


def halves_of(a: Array) -> tuple[Array, Array]:
    """``a`` as a sum of two parts of 26 bits (Veltkamp)."""
    t = a * 134217729.0
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
