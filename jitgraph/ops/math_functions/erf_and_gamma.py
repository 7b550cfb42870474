"""The error function, its complement and its inverse, the normal distribution, 1/sqrt; lgamma and digamma."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from jitgraph import dtypes
from jitgraph.ir.scalar import Scalar, Scalars
from jitgraph.ops.math_functions import tables
from jitgraph.ops.math_functions.exponential import exp, exponential_part, exponential_parts, log, log_pair, scale
from jitgraph.ops.math_functions.format import (
    Format,
    Pair,
    copy_sign,
    fast_two_sum,
    format_of,
    is_below,
    polynomial,
    two_product,
    two_sum,
)

# ----------------------------------------------------------------------
# The error function, its complement and its inverse, the normal distribution made of them, and 1/sqrt.

_OFFSET = 0.4375  # of ERFC in math_tables.py


def erf(s: Scalars, x: Scalar) -> Scalar:
    """The error function: an odd polynomial up to 1, then 1 - exp(-x^2) p(x)."""
    form = format_of(x)
    near = _near(s, x, form)
    size = s.min(s.abs(x), s.const(form.erf_one, form.dtype))
    tail = polynomial(s, s.sub(size, s.const(1.5, form.dtype)), form.erfcx)
    far = s.fma(s.neg(exp(s, s.neg(s.mul(size, size)))), tail, s.const(1.0, form.dtype))
    near = s.select(s.cmp("eq", x, s.const(0.0, form.dtype)), x, near)  # the sum lost the sign of -0.0
    return s.select(is_below(s, x, 1.0), near, copy_sign(s, far, x, form))


def _near(s: Scalars, x: Scalar, form: Format) -> Scalar:
    """erf(x) for ``|x| <= 1``."""
    slope, slope_low = (s.const(part, form.dtype) for part in form.erf_slope)
    square = s.mul(x, x)
    return s.fma(x, slope, s.mul(x, s.fma(square, polynomial(s, square, form.erf), slope_low)))


def erfc(s: Scalars, x: Scalar) -> Scalar:
    """1 - erf(x), to full precision where it is small: 1 - erf(x) near 0, else from the tail at ``|x|``."""
    form = format_of(x)
    tail = _tail(s, s.min(s.abs(x), s.const(form.erfc_zero, form.dtype)), form)
    negative = s.cmp("lt", x, s.const(0.0, form.dtype))
    far = s.select(negative, s.sub(s.const(2.0, form.dtype), tail), tail)
    return s.select(is_below(s, x, 0.25), s.sub(s.const(1.0, form.dtype), _near(s, x, form)), far)


def _tail(s: Scalars, x: Scalar, form: Format) -> Scalar:
    """erfc(x) from 1/4 on: ``exp(-x^2) (1 + g) / (sqrt(pi) (x + 7/16))`` with a small g.

    The square, the exponential, the divisor and the quotient are sums of two floats, so that little but the last
    rounding is lost; the power of two comes last, so that subnormal results are rounded once.
    """
    one = s.const(1.0, form.dtype)
    square, square_low = two_product(s, x, x)
    k, high, low = exponential_parts(s, s.neg(square), s.neg(square_low), form)
    centre = s.const(form.erfc_centre, form.dtype)
    g = polynomial(s, s.div(s.sub(x, centre), s.add(x, centre)), form.erfc)
    shifted, shifted_low = two_sum(s, x, s.const(_OFFSET, form.dtype))
    root, root_low = (s.const(part, form.dtype) for part in form.sqrt_pi)
    divisor, divisor_low = two_product(s, shifted, root)
    divisor_low = s.fma(shifted_low, root, s.fma(shifted, root_low, divisor_low))
    inverse = s.div(one, divisor)
    quotient = s.mul(high, inverse)
    remainder = s.fma(s.neg(quotient), divisor_low, s.add(s.fma(s.neg(quotient), divisor, high), low))
    quotient, rest = fast_two_sum(s, quotient, s.mul(remainder, inverse))
    return scale(s, s.add(quotient, s.fma(quotient, g, s.fma(rest, g, rest))), k, form)


def rsqrt(s: Scalars, x: Scalar) -> Scalar:
    """``1 / sqrt(x)``: infinity of the sign of a zero, NaN below 0."""
    return s.div(s.const(1.0, x.dtype), s.sqrt(x))


def erfinv(s: Scalars, x: Scalar) -> Scalar:
    """The y with erf(y) = x: infinite at -1 and 1, NaN beyond."""
    form = format_of(x)
    w = s.neg(log(s, s.fma(s.neg(x), x, s.const(1.0, form.dtype))))
    root = s.sqrt(w)
    lost = s.div(s.fma(s.neg(root), root, w), s.add(root, root))  # of the root's rounding: the result is nearly root
    if form.dtype == dtypes.float32:
        near = _series(s, w, None, 1.25, tables.ERFINV_32)
        tail = _series(s, root, lost, 3.125, tables.ERFINV_TAIL_32)
        constant, rest = _select(s, s.cmp("lt", w, s.const(5.0, form.dtype)), near, tail)
    else:
        near = _series(s, w, None, 1.5, tables.ERFINV_64)
        tail = _series(s, root, lost, 3.25, tables.ERFINV_TAIL_64)
        far = _series(s, root, lost, 5.0, tables.ERFINV_FAR_64)
        tail = _select(s, s.cmp("lt", w, s.const(16.0, form.dtype)), tail, far)
        constant, rest = _select(s, s.cmp("lt", w, s.const(6.25, form.dtype)), near, tail)
    high, low = two_product(s, x, constant)
    result = s.add(high, s.fma(x, rest, low))
    result = s.select(s.cmp("eq", x, s.const(0.0, form.dtype)), x, result)  # the sum lost the sign of -0.0
    end = s.cmp("eq", s.abs(x), s.const(1.0, form.dtype))
    return s.select(end, s.mul(x, s.const(math.inf, form.dtype)), result)


def _series(s: Scalars, x: Scalar, x_low: Scalar | None, centre: float, coefficients: Sequence[float]) -> Pair:
    """The polynomial in ``x + x_low - centre``: its constant's first part, and the rest."""
    first, low, *rest = coefficients
    t = s.sub(x, s.const(centre, x.dtype))
    t = t if x_low is None else s.add(t, x_low)
    return s.const(first, x.dtype), s.fma(t, polynomial(s, t, rest), s.const(low, x.dtype))


def _select(s: Scalars, condition: Scalar, left: Pair, right: Pair) -> Pair:
    return s.select(condition, left[0], right[0]), s.select(condition, left[1], right[1])


def gaussian(s: Scalars, x: Scalar) -> Scalar:
    """``exp(-x^2 / 2)``; the square is a sum of two floats, so that large ones lose no digits."""
    form = format_of(x)
    k, part = gaussian_parts(s, s.min(s.abs(x), s.const(form.ndtr_zero, form.dtype)), form)
    return scale(s, part, k, form)


def ndtr(s: Scalars, x: Scalar) -> Scalar:
    """The distribution function: ``exp(-z^2 / 2) h / (z + c)`` at z = |x|, with a smooth h; 1 less that above 0."""
    form = format_of(x)
    size = s.min(s.abs(x), s.const(form.ndtr_zero, form.dtype))
    k, part = gaussian_parts(s, size, form)
    centre, one = s.const(form.ndtr_centre, form.dtype), s.const(1.0, form.dtype)
    inverse = s.div(one, s.add(size, centre))
    factor = s.mul(polynomial(s, s.mul(s.sub(size, centre), inverse), form.ndtr), inverse)
    tail = scale(s, s.mul(part, factor), k, form)
    return s.select(s.cmp("gt", x, s.const(0.0, form.dtype)), s.sub(one, tail), tail)


def gaussian_parts(s: Scalars, size: Scalar, form: Format) -> tuple[Scalar, Scalar]:
    """Integer k, and what times ``2**k`` is exp(-size^2 / 2)."""
    half = s.const(-0.5, form.dtype)
    square, low = two_product(s, size, size)
    return exponential_part(s, s.mul(square, half), s.mul(low, half), form)


# ----------------------------------------------------------------------
# lgamma and digamma: Stirling's series from 8 on, where smaller arguments are lifted to, and reflection below 0.
#
# All is done in float64, in sums of two floats, so that the cancellation of large terms (at 1 and 2 and around them)
# costs nothing: what is left is an absolute error near 2^-58 for x > 0. Below 0 it is that of the reflection's sine and
# cotangent, a few 2^-53, which is all of the result's digits near a zero. float32 goes by float64.

_FROM: Final = 8  # where the series begin
_HALF_LOG_2PI: Final = (0.4189385332046727, 1.6728209650585413e-17)  # log(2 pi)/2 - 1/2
_LOG_PI: Final = (1.1447298858494002, 1.0265951162707826e-17)
_NEAR_POLE: Final = 2.0**-60  # below, lgamma is -log|x| and digamma -1/x


def lgamma(s: Scalars, x: Scalar) -> Scalar:
    """The logarithm of |gamma(x)|: infinite at 0, -1, -2, ..."""
    if x.dtype == dtypes.float32:
        return s.cast(lgamma(s, s.cast(x, dtypes.float64)), dtypes.float32)
    form = format_of(x)
    zero, infinity = s.const(0.0, form.dtype), s.const(math.inf, form.dtype)
    size = s.abs(x)
    below = s.cmp("lt", size, s.const(float(_FROM), form.dtype))
    rising, rising_low = _rising(s, size, form)
    stirling, stirling_low = _stirling(s, *_lifted(s, size, below, form), form)
    # lgamma(x) is stirling - log(q) for x > 0, and log(pi) - stirling - log(q) for x < 0
    positive = s.or_(s.cmp("gt", x, zero), is_below(s, x, _NEAR_POLE))
    product, product_low = two_product(s, rising, size)
    product_low = s.fma(rising_low, size, product_low)
    sine, _ = _sine_and_cosine(s, s.abs(s.sub(x, s.rint(x))), form)
    reflected = s.select(below, s.div(sine, rising), s.mul(size, sine))
    lifted = s.select(below, product, s.const(1.0, form.dtype))
    q = s.select(positive, lifted, reflected)
    q_low = s.select(s.and_(positive, below), product_low, zero)
    log_q, log_q_low = log_pair(s, q, form)
    log_q_low = s.add(log_q_low, s.div(q_low, q))
    log_q, log_q_low = (s.select(positive, s.neg(part), part) for part in (log_q, log_q_low))
    total, low = two_sum(s, stirling, log_q)
    low = s.add(low, s.add(stirling_low, log_q_low))
    log_pi, log_pi_low = (s.const(part, form.dtype) for part in _LOG_PI)
    mirrored, mirrored_low = two_sum(s, log_pi, s.neg(total))
    mirror = s.add(mirrored, s.add(mirrored_low, s.sub(log_pi_low, low)))
    result = s.select(positive, s.add(total, low), mirror)
    result = s.select(s.cmp("eq", x, s.const(1.0, form.dtype)), zero, result)  # of 2 the sum itself gives 0
    endless = s.or_(s.cmp("eq", q, zero), s.cmp("eq", stirling, infinity))
    return s.select(endless, infinity, result)


def digamma(s: Scalars, x: Scalar) -> Scalar:
    """The derivative of lgamma: infinite at the zeros, with the sign of -x, NaN at -1, -2, ..."""
    if x.dtype == dtypes.float32:
        return s.cast(digamma(s, s.cast(x, dtypes.float64)), dtypes.float32)
    form = format_of(x)
    zero, one, infinity = (s.const(value, form.dtype) for value in (0.0, 1.0, math.inf))
    size = s.abs(x)
    below = s.cmp("lt", size, s.const(float(_FROM), form.dtype))
    z, z_low = _lifted(s, size, below, form)
    log_z, log_low = log_pair(s, z, form)
    inverse, inverse_low = _reciprocal(s, z, z_low)
    square = s.mul(inverse, inverse)
    rest = s.mul(square, polynomial(s, square, tables.DIGAMMA_64))
    half = s.const(-0.5, form.dtype)
    total, low = two_sum(s, log_z, s.mul(half, inverse))
    low = s.add(low, s.add(s.sub(log_low, rest), s.fma(half, inverse_low, s.mul(z_low, inverse))))
    # below 8: minus the sum of 1/(size + k), without that of k = 0; the pairs (k, 7 - k) in one quotient
    lifting, lifting_low = _lifting_sum(s, size)
    total, carry = two_sum(s, total, s.select(below, s.neg(lifting), zero))
    low = s.add(low, s.add(carry, s.select(below, s.neg(lifting_low), zero)))
    # -1/size belongs to the sum for x > 0, and 1/size to the reflection where that sum is not taken
    positive = s.cmp("gt", x, zero)
    first, first_low = _reciprocal(s, size, zero)
    factor = s.select(positive, s.select(below, s.neg(one), zero), s.select(below, zero, one))
    total, carry = two_sum(s, total, s.mul(factor, first))
    low = s.add(low, s.fma(factor, first_low, carry))
    fraction = s.sub(x, s.rint(x))
    sine, cosine = _sine_and_cosine(s, s.abs(fraction), form)
    cotangent = copy_sign(s, s.div(s.mul(s.const(math.pi, form.dtype), cosine), sine), fraction, form)
    reflected = s.add(s.sub(total, cotangent), low)
    result = s.select(positive, s.add(total, low), reflected)
    result = s.select(s.cmp("eq", x, infinity), infinity, result)
    result = s.select(s.and_(s.not_(positive), s.cmp("eq", fraction, zero)), s.const(math.nan, form.dtype), result)
    return s.select(is_below(s, x, _NEAR_POLE), s.div(s.neg(one), x), result)


def _lifted(s: Scalars, size: Scalar, below: Scalar, form: Format) -> Pair:
    """``size`` from 8 on, else ``size + 8``."""
    high, low = two_sum(s, size, s.const(float(_FROM), form.dtype))
    return s.select(below, high, size), s.select(below, low, s.const(0.0, form.dtype))


def _rising(s: Scalars, x: Scalar, form: Format) -> Pair:
    """``(x + 1) (x + 2) ... (x + 7)``."""
    high, low = two_sum(s, x, s.const(1.0, form.dtype))
    for k in range(2, _FROM):
        factor, factor_low = two_sum(s, x, s.const(float(k), form.dtype))
        product, error = two_product(s, high, factor)
        low = s.fma(low, factor, s.fma(high, factor_low, error))
        high = product
    return fast_two_sum(s, high, low)


def _stirling(s: Scalars, z: Scalar, z_low: Scalar, form: Format) -> Pair:
    """lgamma(z + z_low) from 8 on: ``(z - 1/2) (log(z) - 1) + log(2 pi)/2 - 1/2 + p(1/z^2) / z``."""
    inverse = s.div(s.const(1.0, form.dtype), z)
    logarithm, low = log_pair(s, z, form)
    logarithm, carry = two_sum(s, logarithm, s.const(-1.0, form.dtype))
    low = s.add(carry, s.fma(z_low, inverse, low))
    factor, factor_low = two_sum(s, z, s.const(-0.5, form.dtype))
    factor_low = s.add(factor_low, z_low)
    product, error = two_product(s, factor, logarithm)
    error = s.fma(factor, low, s.fma(factor_low, logarithm, error))
    constant, constant_low = (s.const(part, form.dtype) for part in _HALF_LOG_2PI)
    total, carry = two_sum(s, product, constant)
    rest = s.mul(inverse, polynomial(s, s.mul(inverse, inverse), tables.STIRLING_64))
    return total, s.add(s.add(carry, rest), s.add(error, constant_low))


def _reciprocal(s: Scalars, x: Scalar, low: Scalar) -> Pair:
    """``1 / (x + low)``."""
    one = s.const(1.0, x.dtype)
    inverse = s.div(one, x)
    remainder = s.fma(s.neg(inverse), low, s.fma(s.neg(inverse), x, one))
    return inverse, s.mul(remainder, inverse)


def _lifting_sum(s: Scalars, x: Scalar) -> Pair:
    """``1/(x + 1) + ... + 1/(x + 7)``; k and 7 - k give (2x + 7) / (x (x + 7) + k (7 - k))."""
    shifted, shifted_low = two_sum(s, x, s.const(7.0, x.dtype))
    total, low = _reciprocal(s, shifted, shifted_low)
    y, y_low = two_product(s, x, shifted)
    y_low = s.fma(x, shifted_low, y_low)
    numerator, numerator_low = two_sum(s, shifted, x)
    numerator_low = s.add(numerator_low, shifted_low)
    for k in (1, 2, 3):
        divisor, divisor_low = two_sum(s, y, s.const(float(k * (7 - k)), x.dtype))
        inverse, inverse_low = _reciprocal(s, divisor, s.add(divisor_low, y_low))
        product, error = two_product(s, numerator, inverse)
        error = s.fma(numerator, inverse_low, s.fma(numerator_low, inverse, error))
        total, carry = two_sum(s, total, product)
        low = s.add(low, s.add(carry, error))
    return total, low


def _sine_and_cosine(s: Scalars, fraction: Scalar, form: Format) -> Pair:
    """``sin(pi f)`` and ``cos(pi f)`` for f from 0 to 1/2."""
    near = s.cmp("le", fraction, s.const(0.25, form.dtype))
    part = s.select(near, fraction, s.sub(s.const(0.5, form.dtype), fraction))
    pi, pi_low = (s.const(value, form.dtype) for value in form.pi)
    angle, low = two_product(s, part, pi)
    low = s.fma(part, pi_low, low)
    square = s.mul(angle, angle)
    sine = s.add(angle, s.fma(s.mul(angle, square), polynomial(s, square, form.sin), low))
    half_square = s.mul(s.const(0.5, form.dtype), square)
    tail = s.sub(s.mul(s.mul(square, square), polynomial(s, square, form.cos)), s.mul(angle, low))
    high, lost = fast_two_sum(s, s.const(1.0, form.dtype), s.neg(half_square))
    cosine = s.add(high, s.add(lost, tail))
    return s.select(near, sine, cosine), s.select(near, cosine, sine)
