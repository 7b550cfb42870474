"""The error function and its complement, and 1/sqrt."""

from __future__ import annotations

from jitgraph.ir.scalar import Scalar, Scalars
from jitgraph.ops.math_functions.exp import exp, exponential_parts, scale
from jitgraph.ops.math_functions.format import (
    Format,
    copy_sign,
    fast_two_sum,
    format_of,
    is_below,
    polynomial,
    two_product,
    two_sum,
)

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
