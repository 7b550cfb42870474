"""Bessel functions J and Y, and modified ones K, plain and scaled by exp(x); orders 0 and 1, float64 inside.

J and Y up to 8: expansions in x^2, of J over its zeros there, of Y beside its logarithm and pole, and of Y around its
zeros; beyond by Hankel's
P and Q (Abramowitz and Stegun 9.2.5). K up to 2: an expansion beside its logarithm and pole (9.6.13); beyond of
sqrt(x) exp(x) K. ``bench/fit_special.py bessel`` has the tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from jitgraph.ir.op import Op
from jitgraph.ops import bessel_tables as tables
from jitgraph.ops.arithmetic import abs, add, div, maximum, minimum, mul, neg, sign, sub
from jitgraph.ops.bessel_functions import bessel, chebyshev, over_x
from jitgraph.ops.comparison import eq, le, select
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.transcendental import cos, exp, log, sin, sqrt

_FAR = 8.0  # where Hankel's expansion serves
_LOW = 2.0  # where K is taken beside its logarithm


def _wave_argument(x: Any) -> tuple[Any, Any, Any]:
    """x held to 8 and less, the variable of its tables, and whether x is there."""
    bound = full_like(_FAR, x)
    low = minimum(x, bound)
    return low, sub(div(mul(low, low), full_like(_FAR * _FAR / 2, x)), full_like(1.0, x)), le(x, bound)


def _near_j(x: Any, t: Any, table: Sequence[float], zeros: Sequence[tuple[float, float]]) -> Any:
    """J, over x for order 1: the factors keep full precision at the zeros, which are sums of two numbers."""
    total = chebyshev(table, t)
    for high, rest in zeros:
        factor = sub(sub(x, full_like(high, x)), full_like(rest, x))
        total = mul(total, mul(factor, add(x, full_like(high, x))))
    return total


def _far(x: Any, p: Sequence[float], q: Sequence[float]) -> tuple[Any, Any, Any, Any]:
    """P and Q of x held to 8 and more, both over sqrt(pi x), and the sine and cosine of x."""
    high = maximum(x, full_like(_FAR, x))
    ratio = div(full_like(_FAR, x), high)
    t = sub(mul(full_like(2.0, x), mul(ratio, ratio)), full_like(1.0, x))
    size = mul(sqrt(high), full_like(math.sqrt(math.pi), x))
    return div(chebyshev(p, t), size), div(mul(ratio, chebyshev(q, t)), size), sin(high), cos(high)


def _j0(x: Any) -> Any:
    size = abs(x)
    low, t, near = _wave_argument(size)
    p, q, s, c = _far(size, tables.P0_FAR, tables.Q0_FAR)
    outer = sub(mul(p, add(c, s)), mul(q, sub(s, c)))
    return select(near, _near_j(low, t, tables.J0_NEAR, tables.J0_ZEROS), outer)


def _j1(x: Any) -> Any:
    size = abs(x)
    low, t, near = _wave_argument(size)
    p, q, s, c = _far(size, tables.P1_FAR, tables.Q1_FAR)
    outer = mul(add(mul(p, sub(s, c)), mul(q, add(s, c))), sign(x))
    return select(near, mul(_near_j(low, t, tables.J1_NEAR, tables.J1_ZEROS), x), outer)


def _y0(x: Any) -> Any:
    low, t, near = _wave_argument(x)
    p, q, s, c = _far(x, tables.P0_FAR, tables.Q0_FAR)
    logarithm = mul(log(low), full_like(2 / math.pi, x))
    inner = add(mul(logarithm, _near_j(low, t, tables.J0_NEAR, tables.J0_ZEROS)), chebyshev(tables.Y0_NEAR, t))
    result = select(near, inner, add(mul(p, sub(s, c)), mul(q, add(s, c))))
    return _around_zeros(result, x, tables.Y0_ZEROS)


def _y1(x: Any) -> Any:
    low, t, near = _wave_argument(x)
    p, q, s, c = _far(x, tables.P1_FAR, tables.Q1_FAR)
    logarithm = mul(log(low), full_like(2 / math.pi, x))
    product = mul(logarithm, _near_j(low, t, tables.J1_NEAR, tables.J1_ZEROS))
    pole = div(full_like(-2 / math.pi, x), low)
    inner = add(pole, mul(low, add(product, chebyshev(tables.Y1_NEAR, t))))
    outer = sub(mul(q, sub(s, c)), mul(p, add(c, s)))
    return _at_zero(_around_zeros(select(near, inner, outer), x, tables.Y1_ZEROS), x, -math.inf)


def _around_zeros(value: Any, x: Any, zeros: Sequence[tuple[float, float, Sequence[float]]]) -> Any:
    """Y within 1/8 of its zeros below 8: expansions over these, as the terms of the others cancel there."""
    one = full_like(1.0, x)
    for high, rest, table in zeros:
        distance = sub(sub(x, full_like(high, x)), full_like(rest, x))
        t = mul(distance, full_like(8.0, x))
        clamped = maximum(minimum(t, one), neg(one))
        value = select(le(abs(t), one), mul(distance, chebyshev(table, clamped)), value)
    return value


def _at_zero(value: Any, x: Any, limit: float) -> Any:
    return select(eq(x, zeros_like(x)), full_like(limit, x), value)


def _k(x: Any, order: int) -> tuple[Any, Any, Any]:
    """K of x held to 2 and less, exp(x) K of x held to 2 and more, and whether x is up to 2."""
    bound = full_like(_LOW, x)
    low, high = minimum(x, bound), maximum(x, bound)
    t = sub(div(mul(low, low), bound), full_like(1.0, x))
    rest, first, far = (
        (tables.K1_NEAR, tables.I1_LOW, tables.K1_FAR) if order else (tables.K0_NEAR, tables.I0_LOW, tables.K0_FAR)
    )
    product = mul(_log_of_half(low), chebyshev(first, t))
    if order:
        inner = add(div(full_like(1.0, x), low), mul(low, add(product, chebyshev(rest, t))))
        inner = _at_zero(inner, x, math.inf)
    else:
        inner = sub(chebyshev(rest, t), product)
    outer = div(chebyshev(far, sub(div(full_like(4.0, x), high), full_like(1.0, x))), sqrt(high))
    return inner, outer, le(x, bound)


def _log_of_half(x: Any) -> Any:
    """log(x / 2), of subnormal numbers too, whose halves would be rounded."""
    tiny = le(x, full_like(2.0**-1000, x))
    lifted = mul(x, select(tiny, full_like(2.0**99, x), full_like(0.5, x)))
    return sub(log(lifted), select(tiny, full_like(100 * math.log(2.0), x), zeros_like(x)))


def _decaying(x: Any, order: int) -> Any:
    inner, outer, near = _k(x, order)
    return select(near, inner, mul(outer, exp(neg(x))))


def _scaled(x: Any, order: int) -> Any:
    inner, outer, near = _k(x, order)
    return select(near, mul(inner, exp(minimum(x, full_like(_LOW, x)))), outer)


def _slope_of_k1e(out: Any, x: Any) -> Any:
    """k1e - k0e - k1e / x, in an order that gives -inf at 0."""
    one = full_like(1.0, x)
    return sub(mul(out, sub(one, div(one, abs(x)))), k0e(x))


j0: Op = bessel("j0", _j0, lambda ct, out, x: (neg(mul(ct, j1(x))),), "J_0(x).")
j1: Op = bessel("j1", _j1, lambda ct, out, x: (mul(ct, sub(j0(x), over_x(out, x))),), "J_1(x).")
y0: Op = bessel("y0", _y0, lambda ct, out, x: (neg(mul(ct, y1(x))),), "Y_0(x); NaN for x < 0.")
y1: Op = bessel(
    "y1",
    _y1,
    lambda ct, out, x: (mul(ct, _at_zero(sub(y0(x), div(out, x)), x, math.inf)),),
    "Y_1(x); NaN for x < 0.",
)
k0: Op = bessel("k0", lambda x: _decaying(x, 0), lambda ct, out, x: (neg(mul(ct, k1(x))),), "K_0(x); NaN for x < 0.")
k1: Op = bessel(
    "k1",
    lambda x: _decaying(x, 1),
    lambda ct, out, x: (neg(mul(ct, add(k0(x), div(out, abs(x))))),),
    "K_1(x); NaN for x < 0.",
)
k0e: Op = bessel(
    "k0e",
    lambda x: _scaled(x, 0),
    lambda ct, out, x: (mul(ct, _at_zero(sub(out, k1e(x)), x, -math.inf)),),
    "exp(x) K_0(x), without underflow; NaN for x < 0.",
)
k1e: Op = bessel(
    "k1e",
    lambda x: _scaled(x, 1),
    lambda ct, out, x: (mul(ct, _slope_of_k1e(out, x)),),
    "exp(x) K_1(x), without underflow; NaN for x < 0.",
)
