"""Bessel functions of orders 0 and 1: J and Y, and modified ones, plain and scaled; float64 inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.ir.op import Op
from jitgraph.ops import bessel_tables as tables
from jitgraph.ops import rules, special_tables
from jitgraph.ops.arithmetic import abs, add, div, eq, le, maximum, minimum, mul, neg, select, sign, sub
from jitgraph.ops.composite import composite
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.sampling import elementwise_samples
from jitgraph.ops.transcendental import cos, exp, log, sin, sqrt

# ----------------------------------------------------------------------
# Modified Bessel functions of the first kind, orders 0 and 1, plain and scaled by exp(-|x|); float64 inside.
#
# Chebyshev expansions of exp(-x) I(x) up to 8 and of sqrt(x) exp(-x) I(x) beyond (``bench/fit_special.py``).

_FLAT: Final = 1e-9  # up to which I1(x) / x rounds to 1/2


def chebyshev(coefficients: Sequence[float], t: Any) -> Any:
    """The sum of c[k] T_k(t), by Clenshaw's recurrence."""
    double = add(t, t)
    later, latest = zeros_like(t), full_like(coefficients[-1], t)
    for c in reversed(coefficients[1:-1]):
        later, latest = latest, add(sub(mul(double, latest), later), full_like(c, t))
    return add(sub(mul(t, latest), later), full_like(coefficients[0], t))


def _scaled_parts(x: Any, near: Sequence[float], far: Sequence[float]) -> tuple[Any, Any, Any]:
    """|x| held below 8 with the expansion there, and whether x is there; beyond, exp(-|x|) I(|x|)."""
    size, bound = abs(x), full_like(8.0, x)
    low, high = minimum(size, bound), maximum(size, bound)
    one = full_like(1.0, x)
    inner = chebyshev(near, sub(div(low, full_like(4.0, x)), one))
    outer = div(chebyshev(far, sub(div(full_like(16.0, x), high), one)), sqrt(high))
    return inner, outer, le(size, bound)


def _i0e(x: Any) -> Any:
    inner, outer, near = _scaled_parts(x, special_tables.I0_NEAR, special_tables.I0_FAR)
    return select(near, inner, outer)


def _i1e(x: Any) -> Any:
    inner, outer, near = _scaled_parts(x, special_tables.I1_NEAR, special_tables.I1_FAR)
    return select(near, mul(inner, x), mul(outer, sign(x)))


def _grown(scaled: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function without its scale; in two steps, as exp(|x|) overflows before it."""

    def body(x: Any) -> Any:
        growth = exp(mul(abs(x), full_like(0.5, x)))
        clamped = maximum(minimum(x, full_like(1e4, x)), full_like(-1e4, x))  # far beyond overflow; 0 * inf is NaN
        return mul(mul(scaled(clamped), growth), growth)

    return body


def bessel(name: str, body: Callable[[Any], Any], vjp: Callable[..., tuple[Any]], doc: str) -> Op:
    def wide(x: Any) -> Any:
        return cast(body(cast(x, dtype=dtypes.float64)), dtype=x.dtype) if x.dtype != dtypes.float64 else body(x)

    return composite(
        name,
        wide,
        vjp=vjp,
        samples=elementwise_samples(name, 1, rules.FLOATS, domain=(0.5, 12.0)),
        traits=["pointwise"],
        doc=doc,
    )


def over_x(value: Any, x: Any) -> Any:
    """I1(x) / x, which is 1/2 at 0, and beside it, where I1(x) may be subnormal."""
    near = le(abs(x), full_like(_FLAT, x))
    return select(near, full_like(0.5, x), div(value, select(near, full_like(1.0, x), x)))


i0: Op = bessel("i0", _grown(_i0e), lambda ct, out, x: (mul(ct, i1(x)),), "I_0(x).")
i1: Op = bessel("i1", _grown(_i1e), lambda ct, out, x: (mul(ct, sub(i0(x), over_x(out, x))),), "I_1(x).")
i0e: Op = bessel(
    "i0e", _i0e, lambda ct, out, x: (mul(ct, sub(i1e(x), mul(sign(x), out))),), "exp(-|x|) I_0(x), without overflow."
)
i1e: Op = bessel(
    "i1e",
    _i1e,
    lambda ct, out, x: (mul(ct, sub(sub(i0e(x), over_x(out, x)), mul(sign(x), out))),),
    "exp(-|x|) I_1(x), without overflow.",
)


# ----------------------------------------------------------------------
# Bessel functions J and Y, and modified ones K, plain and scaled by exp(x); orders 0 and 1, float64 inside.
#
# J and Y up to 8: expansions in x^2, of J over its zeros there, of Y beside its logarithm and pole, and of Y around its
# zeros; beyond by Hankel's
# P and Q (Abramowitz and Stegun 9.2.5). K up to 2: an expansion beside its logarithm and pole (9.6.13); beyond of
# sqrt(x) exp(x) K. ``bench/fit_special.py bessel`` has the tables.

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
