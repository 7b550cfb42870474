"""exp, exp2, expm1, sinh, cosh and tanh.

exp(x) = 2^k exp(r) with k = rint(x / ln 2) and |r| <= ln(2)/2 (Cody and Waite's reduction with ln 2 in two parts), and
exp(r) = 1 + r + r^2 p(r). What cancels (expm1, sinh, tanh) carries its result as a sum of two floats.
"""

from __future__ import annotations

from jitgraph.ir.scalar import Scalar, Scalars
from jitgraph.ops.math_functions.format import (
    Format,
    Pair,
    copy_sign,
    fast_two_sum,
    format_of,
    is_below,
    polynomial,
    power_of_two,
    two_sum,
)

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
    return _exponential(s, *_reduce(s, _clamp(s, x, form), form), form)


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
    k, integer = _nearest_integer(s, clamped, form)
    part, ln2 = s.sub(clamped, k), s.const(form.ln2[0] + form.ln2[1], form.dtype)
    r = s.mul(part, ln2)
    return _exponential(s, integer, r, s.fma(part, ln2, s.neg(r)), form)


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
