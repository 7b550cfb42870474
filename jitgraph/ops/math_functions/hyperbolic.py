"""asinh, acosh and atanh, as log(1 + y) of a y that is small where the result is small; hypot.

y is carried as a sum of two floats, so that the logarithm's own error is the largest.
"""

from __future__ import annotations

import math

from jitgraph.ir.scalar import Scalar, Scalars
from jitgraph.ops.math_functions.format import (
    Format,
    copy_sign,
    fast_two_sum,
    format_of,
    is_below,
    two_product,
    two_sum,
)
from jitgraph.ops.math_functions.log import log1p_of_pair


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
