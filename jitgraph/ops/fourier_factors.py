"""How Fourier transforms of n elements are cut: factors, sizes that have kernels, and the roots of unity."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from jitgraph.ops.numeric import Array

_MOST: Final = 32  # the greatest Fourier matrix
_MOST_RADIX: Final = 16
GREATEST_PRIME: Final = 13

ROW: Final = 1 << 14
"""The most elements of a transform that stays in the caches, and is one kernel."""

LANE: Final = 1 << 12
"""The most elements of a transform of which neighbouring ones go together, as columns do."""

_BLOCK: Final = 16  # the most columns of a long transform that go together

LEAST_REAL: Final = 128
"""The least even size of real transforms that have kernels of their own."""


def roots(numerators: Array, n: int) -> tuple[Array, Array]:
    """cos and sin of 2 pi k / n for integers k, from an angle of at most pi / 4, in the widest floats there are."""
    k = numerators % n
    octant = (8 * k) // n
    rest = np.where(octant % 2 == 0, 8 * k - octant * n, (octant + 1) * n - 8 * k)  # of an eighth of the circle, by n
    angle = rest.astype(np.longdouble) / np.longdouble(n) * (np.longdouble("0.785398163397448309615660845819875721"))
    cos, sin = np.cos(angle), np.sin(angle)
    x = np.choose(octant, [cos, sin, -sin, -cos, -cos, -sin, sin, cos])
    y = np.choose(octant, [sin, cos, cos, sin, -sin, -cos, -cos, -sin])
    return x, y


@lru_cache(maxsize=256)
def radices(n: int) -> tuple[int, ...] | None:
    """Factors of n of at most 16, greatest first, as few as can be; None where a prime factor is above 13.

    Those of a size that is two (``halves``) are those of the one and then those of the other.
    """
    if n > ROW and (split := halves(n)) is not None:
        first, second = map(radices, split)
        return None if first is None or second is None else (*first, *second)
    of_n = primes(n)
    if n < 1 or max(of_n, default=1) > GREATEST_PRIME:
        return None
    if n & (n - 1) == 0:
        return _powers(n.bit_length() - 1)
    return tuple(sorted(_merged(of_n, _MOST_RADIX), reverse=True)) or (1,)


def _powers(bits: int) -> tuple[int, ...]:
    """The radices of 2**bits: 16 first, and then as even as can be."""
    if bits <= 4:
        return (1 << bits,)
    if bits == 5:
        return (8, 4)
    left = bits - 4
    count = -(-left // 4)
    return (16, *(1 << (left // count + (number < left % count)) for number in range(count)))


@lru_cache(maxsize=256)
def halves(n: int) -> tuple[int, int] | None:
    """Factors (a, b) of n, none above LANE and near each other, b a multiple of 16 if one is; None where none are."""
    if max(primes(n), default=1) > GREATEST_PRIME:
        return None
    pairs = [(n // b, b) for b in range(1, LANE + 1) if n % b == 0 and n // b <= LANE]
    return min(pairs, key=lambda pair: (pair[1] % 16 != 0, max(pair), pair[1]), default=None)


def neighbours(extent: int) -> int:
    """How many of ``extent`` columns of a long transform go together: these share a table of twiddle factors."""
    return next(width for width in range(min(_BLOCK, extent), 0, -1) if extent % width == 0)


def primes(n: int) -> list[int]:
    """The prime factors of n, each as often as it divides."""
    divisors, p = [], 2
    while n > 1 and p * p <= n:
        while n % p == 0:
            divisors.append(p)
            n //= p
        p += 1
    return [*divisors, n] if n > 1 else divisors


def _merged(divisors: Sequence[int], most: int) -> list[int]:
    merged: list[int] = []
    for prime in sorted(divisors, reverse=True):
        fitting = [i for i, factor in enumerate(merged) if factor * prime <= most]
        if fitting:
            merged[min(fitting, key=lambda i: merged[i])] *= prime
        else:
            merged.append(prime)
    return merged


def is_in_kernels(n: int) -> bool:
    """Whether kernels transform n elements."""
    return n <= LANE**2 and radices(n) is not None and (n <= ROW or halves(n) is not None)


def factors(n: int) -> list[int] | None:
    """Factors of n of at most 32, as few and as even as can be; None where a prime factor is greater."""
    of_n = primes(n)
    return None if max(of_n, default=1) > _MOST else _merged(of_n, _MOST)


def has_real_kernel(n: int) -> bool:
    """Whether a kernel transforms n real numbers, or gives them."""
    return n % 2 == 0 and LEAST_REAL <= n <= 2 * ROW and radices(n // 2) is not None


def transform_size(least: int) -> int:
    """The least size from ``least`` on that is a power of 2 times an odd number of at most 15 with a radix."""
    return min(odd << max(0, (-(-least // odd) - 1).bit_length()) for odd in (1, 3, 5, 7, 9, 11, 13, 15))
