"""The normal distribution: its density without the constant, and its distribution function."""

from __future__ import annotations

from jitgraph.ir.scalar import Scalar, Scalars
from jitgraph.ops.math_functions.exp import exponential_part, scale
from jitgraph.ops.math_functions.format import Format, format_of, polynomial, two_product


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
