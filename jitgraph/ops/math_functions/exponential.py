"""exp, exp2, expm1, log, log2, log1p, pow, and the hyperbolic functions and their inverses; hypot."""

from __future__ import annotations

import math

from jitgraph import dtypes
from jitgraph.ir.scalar import Scalar, Scalars
from jitgraph.ops.math_functions import tables
from jitgraph.ops.math_functions.format import (
    Format,
    Pair,
    copy_sign,
    fast_two_sum,
    format_of,
    is_below,
    polynomial,
    power_of_two,
    two_product,
    two_sum,
)

# ----------------------------------------------------------------------
# exp, exp2, expm1, sinh, cosh and tanh.
#
# exp(x) = 2^k exp(r) with k = rint(x / ln 2) and |r| <= ln(2)/2 (Cody and Waite's reduction with ln 2 in two parts),
# and exp(r) = 1 + r + r^2 p(r). What cancels (expm1, sinh, tanh) carries its result as a sum of two floats.

_HALF = 0.6  # exp(x)/2 is infinite at this much more than exp(x); the exponent of exp(x)/4 stays in range


def _nearest_integer(s: Scalars, x: Scalar, form: Format) -> Pair:
    """``rint(x)`` as a float and as an integer, for small x."""
    magic = s.const(form.magic, form.dtype)
    shifted = s.add(x, magic)
    bits = s.bitcast(shifted, form.integer)
    return s.sub(shifted, magic), s.sub(bits, s.bitcast(magic, form.integer))


def _clamp(s: Scalars, x: Scalar, form: Format, room: float = 0.0) -> Scalar:
    low, high = form.exp_range[0], form.exp_range[1] + room
    return s.max(s.min(x, s.const(high, form.dtype)), s.const(low, form.dtype))


def _reduce(s: Scalars, x: Scalar, form: Format) -> tuple[Scalar, Scalar, Scalar]:
    """Integer k and r + low with ``x = k ln 2 + r + low``, for clamped x."""
    k, integer = _nearest_integer(s, s.mul(x, s.const(form.log2e[0], form.dtype)), form)
    first = s.fma(s.neg(k), s.const(form.ln2[0], form.dtype), x)
    r, low = fast_two_sum(s, first, s.mul(k, s.const(-form.ln2[1], form.dtype)))
    return integer, r, low


def _tail(s: Scalars, r: Scalar, low: Scalar, form: Format) -> Scalar:
    """``exp(r + low) - 1 - r``."""
    return s.fma(s.mul(r, r), polynomial(s, r, form.exp), low)


def scale(s: Scalars, x: Scalar, k: Scalar, form: Format) -> Scalar:
    """``x * 2**k``, in two steps so that neither factor leaves the normal range."""
    half = s.shr(k, s.const(1, form.integer))
    return s.mul(s.mul(x, power_of_two(s, half, form)), power_of_two(s, s.sub(k, half), form))


def _exponential(s: Scalars, k: Scalar, r: Scalar, low: Scalar, form: Format) -> Scalar:
    return scale(s, s.add(s.const(1.0, form.dtype), s.add(r, _tail(s, r, low, form))), k, form)


def exp(s: Scalars, x: Scalar) -> Scalar:
    """e to the power x."""
    form = format_of(x)
    x = _clamp(s, x, form)
    shifted = s.fma(x, s.const(form.log2e[0], form.dtype), _magic_of_powers(s, form))
    k = s.sub(shifted, _magic_of_powers(s, form))
    r = s.fma(k, s.const(-form.ln2[0], form.dtype), x)
    return _power(s, shifted, s.fma(k, s.const(-form.ln2[1], form.dtype), r), form)


def _magic_of_powers(s: Scalars, form: Format) -> Scalar:
    """What added to a float that is about k shows ``k + 2 bias`` in the bits."""
    return s.const(form.magic + 2 * form.bias, form.dtype)


def _power(s: Scalars, shifted: Scalar, r: Scalar, form: Format) -> Scalar:
    """``2**k exp(r)``, where ``shifted`` is k plus ``_magic_of_powers``: half of its bits and the other half are the
    exponents, as they are stored, of two powers of two. What r lost by rounding is a quarter of an ulp of the result.
    """
    one = s.const(1.0, form.dtype)
    result = s.fma(s.fma(polynomial(s, r, form.exp), r, one), r, one)
    bits = s.bitcast(shifted, form.integer)
    half = s.shr(bits, s.const(1, form.integer))
    for exponent in (half, s.sub(bits, half)):
        result = s.mul(result, s.bitcast(s.shl(exponent, s.const(form.mantissa, form.integer)), form.dtype))
    return result


def exp_of_pair(s: Scalars, x: Scalar, low: Scalar) -> Scalar:
    """exp(x + low) where ``|low|`` is below an ulp of x; a low part of an infinity must be 0."""
    form = format_of(x)
    k, r, rest = _reduce(s, _clamp(s, x, form), form)
    return _exponential(s, k, *two_sum(s, r, s.add(rest, low)), form)


def exponential_part(s: Scalars, x: Scalar, low: Scalar, form: Format) -> tuple[Scalar, Scalar]:
    """Integer k, and a float that times ``2**k`` is exp(x + low), for x in the range of exp or below."""
    k, r, rest = _reduce(s, x, form)
    r = s.add(r, s.add(rest, low))
    return k, s.add(s.const(1.0, form.dtype), _tail(s, r, r, form))


def exponential_parts(s: Scalars, x: Scalar, low: Scalar, form: Format) -> tuple[Scalar, Scalar, Scalar]:
    """Integer k, and a sum of two floats that times ``2**k`` is exp(x + low), for x in the range of exp or below."""
    k, r, rest = _reduce(s, x, form)
    r, low = two_sum(s, r, s.add(rest, low))
    high, lost = fast_two_sum(s, s.const(1.0, form.dtype), r)
    return k, *fast_two_sum(s, high, s.add(lost, _tail(s, r, low, form)))


def exp2(s: Scalars, x: Scalar) -> Scalar:
    """2 to the power x."""
    form = format_of(x)
    low, high = (limit * form.log2e[0] for limit in form.exp_range)
    clamped = s.max(s.min(x, s.const(high, form.dtype)), s.const(low, form.dtype))
    shifted = s.add(clamped, _magic_of_powers(s, form))
    part = s.sub(clamped, s.sub(shifted, _magic_of_powers(s, form)))
    return _power(s, shifted, s.mul(part, s.const(form.ln2[0] + form.ln2[1], form.dtype)), form)


def _expm1_parts(s: Scalars, x: Scalar, shift: int, form: Format) -> Pair:
    """``expm1(x) * 2**-shift`` for clamped x, as a sum of two."""
    k, r, low = _reduce(s, x, form)
    scale = power_of_two(s, s.sub(k, s.const(shift, form.integer)), form)
    high, rest = two_sum(s, s.sub(scale, s.const(2.0**-shift, form.dtype)), s.mul(scale, r))
    return fast_two_sum(s, high, s.fma(scale, _tail(s, r, low, form), rest))


def expm1(s: Scalars, x: Scalar) -> Scalar:
    """exp(x) - 1 without cancellation."""
    form = format_of(x)
    clamped = s.max(_clamp(s, x, form), s.const(-60.0, form.dtype))
    high, _ = _expm1_parts(s, clamped, 1, form)
    return s.select(is_below(s, x, form.tiny**2), x, s.add(high, high))


def tanh(s: Scalars, x: Scalar) -> Scalar:
    """The hyperbolic tangent: u / (u + 1) for u = expm1(2 |x|) / 2, the quotient corrected by its remainder."""
    form = format_of(x)
    size = s.min(s.abs(x), s.const(22.0, form.dtype))
    high, low = _expm1_parts(s, s.add(size, size), 1, form)
    one = s.const(1.0, form.dtype)
    divisor, error = two_sum(s, one, high)
    inverse = s.div(one, divisor)
    quotient = s.mul(high, inverse)
    remainder = s.fma(s.neg(quotient), divisor, high)
    remainder = s.add(remainder, s.sub(low, s.mul(quotient, s.add(error, low))))
    result = copy_sign(s, s.fma(remainder, inverse, quotient), x, form)
    return s.select(is_below(s, x, form.tiny), x, result)


def sinh(s: Scalars, x: Scalar) -> Scalar:
    """The hyperbolic sine: 2 (u + u / (4u + 1)) for u = expm1(|x|) / 4."""
    form = format_of(x)
    high, low = _expm1_parts(s, _clamp(s, s.abs(x), form, _HALF), 2, form)
    ratio = s.div(high, s.fma(s.const(4.0, form.dtype), high, s.const(1.0, form.dtype)))
    half = s.add(high, s.add(ratio, low))
    return s.select(is_below(s, x, form.tiny), x, copy_sign(s, s.add(half, half), x, form))


def cosh(s: Scalars, x: Scalar) -> Scalar:
    """The hyperbolic cosine: 2 (w + 1/(16 w)) for w = exp(|x|) / 4."""
    form = format_of(x)
    k, r, low = _reduce(s, _clamp(s, s.abs(x), form, _HALF), form)
    scale = power_of_two(s, s.sub(k, s.const(2, form.integer)), form)
    quarter = s.fma(scale, s.add(r, _tail(s, r, low, form)), scale)
    half = s.add(quarter, s.div(s.const(0.0625, form.dtype), quarter))
    return s.add(half, half)


# ----------------------------------------------------------------------
# log, log2, log1p and pow.
#
# x = 2^k m with m from sqrt(1/2) to sqrt(2), f = m - 1, s = f / (2 + f), and log(m) = log((1+s)/(1-s)) = 2s + s^3
# p(s^2), summed as f - (f^2/2 - s (f^2/2 + s^2 p)) so that f, which is exact, dominates (the arrangement of FreeBSD's
# msun). pow carries log(x) to about 2^-66 as a sum of two float64.


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


# ----------------------------------------------------------------------
# asinh, acosh and atanh, as log(1 + y) of a y that is small where the result is small; hypot.
#
# y is carried as a sum of two floats, so that the logarithm's own error is the largest.


def _log_of_sum(s: Scalars, size: Scalar, high: Scalar, low: Scalar, form: Format) -> Scalar:
    """``log(1 + high + low)``, and where ``size`` is so large that its square might overflow, ``log(2 size)``."""
    large = s.cmp("ge", size, s.const(_large(form), form.dtype))
    zero, one = s.const(0, form.integer), s.const(1, form.integer)
    high = s.select(large, size, high)
    low = s.select(large, s.const(0.0, form.dtype), low)
    return log1p_of_pair(s, high, low, form, doublings=s.select(large, one, zero))


def _large(form: Format) -> float:
    """From here on 1 is lost beside x, and sqrt(x^2 + 1) is x."""
    return 2.0 ** (form.mantissa + 2)


def asinh(s: Scalars, x: Scalar) -> Scalar:
    """The inverse hyperbolic sine: log(1 + |x| + x^2 / (1 + sqrt(1 + x^2))) with the sign of x."""
    form = format_of(x)
    size = s.abs(x)
    bounded = s.min(size, s.const(_large(form), form.dtype))
    one = s.const(1.0, form.dtype)
    square = s.mul(bounded, bounded)
    rest = s.div(square, s.add(one, s.sqrt(s.add(square, one))))
    high, low = fast_two_sum(s, bounded, rest)
    result = copy_sign(s, _log_of_sum(s, size, high, low, form), x, form)
    return s.select(is_below(s, x, form.tiny), x, result)


def acosh(s: Scalars, x: Scalar) -> Scalar:
    """The inverse hyperbolic cosine: log(1 + t + sqrt(2t + t^2)) for t = x - 1; NaN below 1."""
    form = format_of(x)
    one = s.const(1.0, form.dtype)
    t = s.sub(s.min(x, s.const(_large(form), form.dtype)), one)
    high, low = fast_two_sum(s, s.sqrt(s.fma(t, t, s.add(t, t))), t)
    result = _log_of_sum(s, x, high, low, form)
    return s.select(s.cmp("ge", x, one), result, s.const(math.nan, form.dtype))


def atanh(s: Scalars, x: Scalar) -> Scalar:
    """The inverse hyperbolic tangent: log(1 + 2|x| + 2x^2 / (1 - |x|)) / 2 with the sign of x; NaN beyond 1."""
    form = format_of(x)
    size, one = s.abs(x), s.const(1.0, form.dtype)
    double = s.add(size, size)
    high, low = two_sum(s, double, s.mul(double, s.div(size, s.sub(one, size))))
    half = s.mul(s.const(0.5, form.dtype), log1p_of_pair(s, high, low, form))
    inside = s.cmp("le", size, one)
    result = s.select(inside, copy_sign(s, half, x, form), s.const(math.nan, form.dtype))
    return s.select(is_below(s, x, form.tiny), x, result)


def hypot(s: Scalars, x: Scalar, y: Scalar) -> Scalar:
    """sqrt(x^2 + y^2) without overflow or underflow on the way; infinite where either is, even beside NaN.

    The larger operand is scaled to 1 .. 2, the squares are exact sums of two floats, and the root is corrected by its
    remainder.
    """
    form = format_of(x)
    x, y = s.abs(x), s.abs(y)
    large, small = s.max(x, y), s.min(x, y)
    width = s.const(form.mantissa, form.integer)
    exponent = s.shr(s.bitcast(large, form.integer), width)  # biased; 0 below the normal numbers
    exponent = s.max(s.min(exponent, s.const(2 * form.bias - 1, form.integer)), s.const(1, form.integer))
    down = s.bitcast(s.shl(s.sub(s.const(2 * form.bias, form.integer), exponent), width), form.dtype)
    up = s.bitcast(s.shl(exponent, width), form.dtype)
    first, first_low = two_product(s, s.mul(large, down), s.mul(large, down))
    second, second_low = two_product(s, s.mul(small, down), s.mul(small, down))
    total, low = fast_two_sum(s, first, second)
    root = s.sqrt(total)
    remainder = s.add(s.fma(s.neg(root), root, total), s.add(low, s.add(first_low, second_low)))
    corrected = s.add(root, s.div(remainder, s.add(root, root)))
    infinity, zero = s.const(math.inf, form.dtype), s.const(0.0, form.dtype)
    result = s.select(s.cmp("eq", large, zero), zero, s.mul(corrected, up))
    endless = s.or_(s.cmp("eq", x, infinity), s.cmp("eq", y, infinity))
    return s.select(endless, infinity, result)
