"""log, log2, log1p and pow.

x = 2^k m with m from sqrt(1/2) to sqrt(2), f = m - 1, s = f / (2 + f), and log(m) = log((1+s)/(1-s)) = 2s + s^3 p(s^2),
summed as f - (f^2/2 - s (f^2/2 + s^2 p)) so that f, which is exact, dominates (the arrangement of FreeBSD's msun).
pow carries log(x) to about 2^-66 as a sum of two float64.
"""

from __future__ import annotations

import math

from jitgraph import dtypes
from jitgraph.ir.scalar import Scalar, Scalars
from jitgraph.ops.math_functions import tables as tables
from jitgraph.ops.math_functions.exp import exp, exp_of_pair
from jitgraph.ops.math_functions.format import (
    Format,
    Pair,
    fast_two_sum,
    format_of,
    is_below,
    polynomial,
    two_product,
    two_sum,
)


def _split(s: Scalars, x: Scalar, form: Format) -> tuple[Scalar, Scalar, Scalar]:
    """k (a float), m and the integer k with ``x = 2**k m``, for x positive and finite."""
    up = form.mantissa + 2
    small = s.cmp("lt", x, s.const(2.0 ** (1 - form.bias), form.dtype))
    bits = s.bitcast(s.select(small, s.mul(x, s.const(2.0**up, form.dtype)), x), form.integer)
    width = s.const(form.mantissa, form.integer)
    root = s.bitcast(s.const(math.sqrt(0.5), form.dtype), form.integer)
    k = s.shr(s.sub(bits, root), width)
    m = s.bitcast(s.sub(bits, s.shl(k, width)), form.dtype)
    exponent = s.sub(k, s.select(small, s.const(up, form.integer), s.const(0, form.integer)))
    return _to_float(s, exponent, form), m, exponent


def _to_float(s: Scalars, integer: Scalar, form: Format) -> Scalar:
    magic = s.const(form.magic, form.dtype)
    return s.sub(s.bitcast(s.add(integer, s.bitcast(magic, form.integer)), form.dtype), magic)


def _series(s: Scalars, f: Scalar, form: Format) -> Pair:
    """``h = f^2/2`` and ``r`` with ``log(1 + f) = f - (h - r)``."""
    quotient = s.div(f, s.add(s.const(2.0, form.dtype), f))
    z = s.mul(quotient, quotient)
    half_square = s.mul(s.mul(s.const(0.5, form.dtype), f), f)
    return half_square, s.mul(quotient, s.fma(z, polynomial(s, z, form.log), half_square))


def _edges(s: Scalars, x: Scalar, result: Scalar, form: Format) -> Scalar:
    """``result`` for x positive and finite, else what log gives at 0, below 0, at infinity and NaN."""
    zero = s.const(0.0, form.dtype)
    infinity = s.const(math.inf, form.dtype)
    at_most_zero = s.select(s.cmp("eq", x, zero), s.neg(infinity), s.const(math.nan, form.dtype))
    return s.select(s.cmp("gt", x, zero), s.select(s.cmp("lt", x, infinity), result, x), at_most_zero)


def log(s: Scalars, x: Scalar) -> Scalar:
    """The natural logarithm."""
    form = format_of(x)
    k, m, _ = _split(s, x, form)
    return _edges(s, x, _log_of_parts(s, k, s.sub(m, s.const(1.0, form.dtype)), None, form), form)


def _log_of_parts(s: Scalars, k: Scalar, f: Scalar, low: Scalar | None, form: Format) -> Scalar:
    """``k ln 2 + log(1 + f) + low``."""
    half_square, rest = _series(s, f, form)
    small = s.fma(k, s.const(form.ln2[1], form.dtype), rest)
    if low is not None:
        small = s.add(small, low)
    return s.fma(k, s.const(form.ln2[0], form.dtype), s.sub(f, s.sub(half_square, small)))


def log1p(s: Scalars, x: Scalar) -> Scalar:
    """log(1 + x) without cancellation."""
    form = format_of(x)
    return s.select(is_below(s, x, form.tiny**2), x, log1p_of_pair(s, x, None, form))


def log1p_of_pair(
    s: Scalars, x: Scalar, low: Scalar | None, form: Format, *, doublings: Scalar | None = None
) -> Scalar:
    """``log(1 + x + low)`` (plus ``doublings`` times ln 2): what rounding 1 + x loses is added to f, scaled."""
    one = s.const(1.0, form.dtype)
    total, lost = two_sum(s, one, x)
    lost = lost if low is None else s.add(lost, low)
    k, m, exponent = _split(s, total, form)
    if doublings is not None:
        k = s.add(k, _to_float(s, doublings, form))
    unit = s.const(form.bias, form.integer)
    limited = s.min(exponent, s.const(form.bias - 2, form.integer))  # 2^-k must be normal; lost is 0 long before
    scale = s.bitcast(s.shl(s.sub(unit, limited), s.const(form.mantissa, form.integer)), form.dtype)
    f, rest = two_sum(s, s.sub(m, one), s.mul(lost, scale))
    return _edges(s, total, _log_of_parts(s, k, f, rest, form), form)


def log2(s: Scalars, x: Scalar) -> Scalar:
    """The logarithm to base 2: log(m) as a sum of two, times 1/ln 2 in two parts."""
    form = format_of(x)
    k, m, _ = _split(s, x, form)
    f = s.sub(m, s.const(1.0, form.dtype))
    half_square, rest = _series(s, f, form)
    lost = s.fma(s.mul(s.const(0.5, form.dtype), f), f, s.neg(half_square))
    high, low = fast_two_sum(s, f, s.neg(half_square))
    high, low = fast_two_sum(s, high, s.add(s.sub(low, lost), rest))
    inverse, inverse_low = (s.const(part, form.dtype) for part in form.log2e)
    product, error = two_product(s, high, inverse)
    error = s.fma(high, inverse_low, s.fma(low, inverse, error))
    total, rounding = two_sum(s, k, product)
    return _edges(s, x, s.add(total, s.add(rounding, error)), form)


def pow_(s: Scalars, x: Scalar, y: Scalar) -> Scalar:
    """x to the power y, with C99's special cases."""
    form = format_of(x)
    size = s.abs(x)
    if form.dtype == dtypes.float32:
        wide = s.mul(s.cast(y, dtypes.float64), log(s, s.cast(size, dtypes.float64)))
        result = s.cast(exp(s, wide), dtypes.float32)
    else:
        result = _pow_of_finite(s, size, y, form)
    return _pow_edges(s, x, y, result, form)


def _pow_edges(s: Scalars, x: Scalar, y: Scalar, result: Scalar, form: Format) -> Scalar:
    zero, one, infinity = (s.const(value, form.dtype) for value in (0.0, 1.0, math.inf))
    size = s.abs(x)
    endless = s.cmp("eq", s.abs(y), infinity)
    extreme = s.or_(s.or_(s.cmp("eq", size, zero), s.cmp("eq", size, infinity)), endless)
    vanishes = s.xor(s.cmp("lt", size, one), s.cmp("lt", y, zero))
    result = s.select(extreme, s.select(vanishes, zero, infinity), result)
    result = s.select(s.cmp("eq", size, one), one, result)
    half = s.mul(y, s.const(0.5, form.dtype))
    is_integral = s.cmp("eq", s.trunc(y), y)
    odd = s.and_(is_integral, s.cmp("ne", s.trunc(half), half))
    negative = s.cmp("lt", s.bitcast(x, form.integer), s.const(0, form.integer))
    result = s.select(s.and_(negative, odd), s.neg(result), result)
    finite_below = s.and_(s.cmp("lt", x, zero), s.cmp("lt", size, infinity))
    invalid = s.and_(finite_below, s.not_(is_integral))
    unordered = s.or_(s.cmp("ne", x, x), s.cmp("ne", y, y))
    result = s.select(s.or_(invalid, unordered), s.const(math.nan, form.dtype), result)
    return s.select(s.or_(s.cmp("eq", y, zero), s.cmp("eq", x, one)), one, result)


def _pow_of_finite(s: Scalars, x: Scalar, y: Scalar, form: Format) -> Scalar:
    high, low = log_pair(s, x, form)
    product, error = two_product(s, y, high)
    error = s.fma(y, low, error)
    moderate = is_below(s, product, 2048.0)  # beyond, the error is no longer small, and does not matter
    return exp_of_pair(s, product, s.select(moderate, error, s.const(0.0, form.dtype)))


def log_pair(s: Scalars, x: Scalar, form: Format) -> Pair:
    """log(x) of a positive finite float64 as a sum of two, to about 2^-66."""
    k, m, _ = _split(s, x, form)
    f = s.sub(m, s.const(1.0, form.dtype))
    divisor, error = fast_two_sum(s, s.const(2.0, form.dtype), f)
    inverse = s.div(s.const(1.0, form.dtype), divisor)
    q = s.mul(f, inverse)
    remainder = s.fma(s.neg(q), error, s.fma(s.neg(q), divisor, f))
    q_low = s.mul(remainder, inverse)
    z, z_low = two_product(s, q, q)
    z_low = s.fma(s.add(q, q), q_low, z_low)
    cube, cube_low = two_product(s, q, z)
    cube_low = s.fma(q, z_low, s.fma(q_low, z, cube_low))
    third, third_low = 2.0 / 3.0, 3.700743415417188e-17
    factor, factor_low = fast_two_sum(s, s.const(third, form.dtype), s.mul(z, polynomial(s, z, tables.LOG_REST_64)))
    factor_low = s.add(factor_low, s.const(third_low, form.dtype))
    rest, rest_low = two_product(s, cube, factor)
    rest_low = s.fma(cube, factor_low, s.fma(cube_low, factor, rest_low))
    high, low = fast_two_sum(s, s.add(q, q), rest)
    low = s.add(low, s.add(s.add(q_low, q_low), rest_low))
    total, carry = two_sum(s, s.mul(k, s.const(form.ln2[0], form.dtype)), high)
    carry = s.add(carry, s.fma(k, s.const(form.ln2[1], form.dtype), low))
    return fast_two_sum(s, total, carry)
