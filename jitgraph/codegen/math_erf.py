"""The error function, and 1/sqrt."""

from __future__ import annotations

from jitgraph.codegen.math_exp import exp
from jitgraph.codegen.math_format import copy_sign, format_of, is_below, polynomial
from jitgraph.ir.scalar import Scalar, Scalars


def erf(s: Scalars, x: Scalar) -> Scalar:
    """The error function: an odd polynomial up to 1, then 1 - exp(-x^2) p(x)."""
    form = format_of(x)
    slope, slope_low = (s.const(part, form.dtype) for part in form.erf_slope)
    square = s.mul(x, x)
    near = s.fma(x, slope, s.mul(x, s.fma(square, polynomial(s, square, form.erf), slope_low)))
    size = s.min(s.abs(x), s.const(form.erf_one, form.dtype))
    tail = polynomial(s, s.sub(size, s.const(1.5, form.dtype)), form.erfcx)
    far = s.fma(s.neg(exp(s, s.neg(s.mul(size, size)))), tail, s.const(1.0, form.dtype))
    near = s.select(s.cmp("eq", x, s.const(0.0, form.dtype)), x, near)  # the sum lost the sign of -0.0
    return s.select(is_below(s, x, 1.0), near, copy_sign(s, far, x, form))


def rsqrt(s: Scalars, x: Scalar) -> Scalar:
    """``1 / sqrt(x)``: infinity of the sign of a zero, NaN below 0."""
    return s.div(s.const(1.0, x.dtype), s.sqrt(x))
