"""Fourier transforms of a few elements: the butterflies that the passes of a transform consist of, in scalar ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from jitgraph.ir.scalar import Scalars
from jitgraph.ops.fourier_factors import roots

Number: TypeAlias = tuple[Any, Any]
"""A complex number as its two parts: scalars of a kernel, or arrays of which each element is computed alike."""


@lru_cache(maxsize=512)
def root(k: int, n: int) -> tuple[float, float]:
    """cos and sin of 2 pi k / n, each rounded once to float64."""
    cos, sin = roots(np.array([k], dtype=np.int64), n)
    return float(cos[0]), float(sin[0])


def times(s: Scalars, x: Number, y: Number) -> Number:
    """The product of two numbers, a fused multiply-add in each part."""
    (a, b), (c, d) = x, y
    return s.fma(a, c, s.neg(s.mul(b, d))), s.fma(a, d, s.mul(b, c))


def butterfly(s: Scalars, x: Sequence[Number], sign: int) -> list[Number]:
    """Element k is the sum of ``x[j] exp(sign 2 pi i j k / r)`` for the r elements of x.

    r is 1, a prime, or a product of such; equal sums are computed once, and factors of 1 and i cost nothing.
    """
    r = len(x)
    if r == 1:
        return list(x)
    if r == 2:
        return [_sum(s, x[0], x[1]), _difference(s, x[0], x[1])]
    first = 4 if r % 4 == 0 and r > 4 else next(p for p in range(2, r + 1) if r % p == 0)
    if first == r:
        return _prime(s, x, sign)
    if r == 4:
        first = 2
    rest = r // first
    # Element j of x is j1 rest + j2; element k of the result is k1 + first k2.
    columns = [butterfly(s, x[j::rest], sign) for j in range(rest)]
    rows = [[_turned(s, columns[j][k], j * k, r, sign) for j in range(rest)] for k in range(first)]
    result: list[Number] = [x[0]] * r
    for k, row in enumerate(rows):
        result[k::first] = butterfly(s, row, sign)
    return result


def _sum(s: Scalars, x: Number, y: Number) -> Number:
    return s.add(x[0], y[0]), s.add(x[1], y[1])


def _difference(s: Scalars, x: Number, y: Number) -> Number:
    return s.sub(x[0], y[0]), s.sub(x[1], y[1])


def _turned(s: Scalars, x: Number, k: int, n: int, sign: int) -> Number:
    """``x exp(sign 2 pi i k / n)``."""
    k = k % n * sign % n
    eighths, odd = divmod(8 * k, n)
    a, b = x
    if odd:
        cos, sin = root(k, n)
        return times(s, x, (s.const(cos), s.const(sin)))
    if eighths % 2:
        half = s.const(math.sqrt(0.5))
        x = s.mul(s.sub(a, b), half), s.mul(s.add(a, b), half)  # by an eighth
        a, b = x
    match eighths // 2:
        case 1:
            return s.neg(b), a
        case 2:
            return s.neg(a), s.neg(b)
        case 3:
            return b, s.neg(a)
    return x


def _prime(s: Scalars, x: Sequence[Number], sign: int) -> list[Number]:
    """For an odd prime: elements j and r - j have one cosine, and sines of both signs."""
    r = len(x)
    pairs = [(j, _sum(s, x[j], x[r - j]), _difference(s, x[j], x[r - j])) for j in range(1, (r + 1) // 2)]
    total = x[0]
    for _, both, _ in pairs:
        total = _sum(s, total, both)
    result = [total] * r
    for k in range(1, (r + 1) // 2):
        even, odd = x[0], None
        for j, both, apart in pairs:
            cos, sin = (s.const(part) for part in root(j * k % r, r))
            even = s.fma(cos, both[0], even[0]), s.fma(cos, both[1], even[1])
            if odd is None:
                odd = s.mul(sin, apart[0]), s.mul(sin, apart[1])
            else:
                odd = s.fma(sin, apart[0], odd[0]), s.fma(sin, apart[1], odd[1])
        assert odd is not None
        up = s.sub(even[0], odd[1]), s.add(even[1], odd[0])
        down = s.add(even[0], odd[1]), s.sub(even[1], odd[0])
        result[k], result[r - k] = (up, down) if sign > 0 else (down, up)
    return result
