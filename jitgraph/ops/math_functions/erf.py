"""The error function, its complement and its inverse, the normal distribution made of them, and 1/sqrt."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jitgraph import dtypes
from jitgraph.ir.scalar import Scalar, Scalars
from jitgraph.ops.math_functions import tables as tables
from jitgraph.ops.math_functions.exp import exp, exponential_part, exponential_parts, scale
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
from jitgraph.ops.math_functions.log import log

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
