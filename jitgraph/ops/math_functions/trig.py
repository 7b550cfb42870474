"""sin, cos, tan and their inverses.

Polynomials on [-pi/4, pi/4] in the arrangement of FreeBSD's msun, which keeps the leading terms exact. The inverses
reduce by 1/x, by (1 - x)/2 and by swapping the sides of the triangle.
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
    two_sum,
)
from jitgraph.ops.math_functions.turns import reduce_angle


def _sine(s: Scalars, r: Scalar, low: Scalar, form: Format) -> Pair:
    """sin(r + low) as a sum of two, for a rest of at most pi/4."""
    z = s.mul(r, r)
    cube = s.mul(z, r)
    correction = s.fma(s.mul(low, s.const(-0.5, form.dtype)), z, low)  # low cos(r)
    return fast_two_sum(s, r, s.fma(cube, polynomial(s, z, form.sin), correction))


def _cosine(s: Scalars, r: Scalar, low: Scalar, form: Format) -> Pair:
    """cos(r + low) as a sum of two, for a rest of at most pi/4."""
    z = s.mul(r, r)
    square_low = s.fma(r, r, s.neg(z))
    half = s.mul(z, s.const(0.5, form.dtype))
    high, lost = fast_two_sum(s, s.const(1.0, form.dtype), s.neg(half))
    rest = s.fma(s.mul(z, z), polynomial(s, z, form.cos), s.fma(s.neg(r), low, lost))
    return high, s.fma(square_low, s.const(-0.5, form.dtype), rest)


def _bit(s: Scalars, quadrant: Scalar, bit: int) -> Scalar:
    zero = s.const(0, quadrant.dtype)
    return s.cmp("ne", s.and_(quadrant, s.const(bit, quadrant.dtype)), zero)


def _sine_of_quadrant(s: Scalars, quadrant: Scalar, r: Scalar, low: Scalar, form: Format) -> Scalar:
    sine, cosine = (s.add(*pair) for pair in (_sine(s, r, low, form), _cosine(s, r, low, form)))
    size = s.select(_bit(s, quadrant, 1), cosine, sine)
    return s.select(_bit(s, quadrant, 2), s.neg(size), size)


def sin(s: Scalars, x: Scalar) -> Scalar:
    """The sine of an angle in radians; NaN for infinities."""
    form = format_of(x)
    result = _sine_of_quadrant(s, *reduce_angle(s, x, form), form)
    return s.select(is_below(s, x, form.tiny), x, result)


def cos(s: Scalars, x: Scalar) -> Scalar:
    """The cosine of an angle in radians; NaN for infinities."""
    form = format_of(x)
    quadrant, r, low = reduce_angle(s, x, form)
    return _sine_of_quadrant(s, s.add(quadrant, s.const(1, form.integer)), r, low, form)


def tan(s: Scalars, x: Scalar) -> Scalar:
    """The tangent of an angle in radians: the quotient of sine and cosine, corrected by its remainder."""
    form = format_of(x)
    quadrant, r, low = reduce_angle(s, x, form)
    sine, cosine = _sine(s, r, low, form), fast_two_sum(s, *_cosine(s, r, low, form))
    odd = _bit(s, quadrant, 1)
    above, above_low = (s.select(odd, s.neg(c), a) for a, c in zip(sine, cosine, strict=True))
    below, below_low = (s.select(odd, a, c) for a, c in zip(sine, cosine, strict=True))
    inverse = s.div(s.const(1.0, form.dtype), below)
    quotient = s.mul(above, inverse)
    remainder = s.fma(s.neg(quotient), below, above)
    remainder = s.add(remainder, s.fma(s.neg(quotient), below_low, above_low))
    return s.select(is_below(s, x, form.tiny), x, s.fma(remainder, inverse, quotient))


def _arctangent(s: Scalars, x: Scalar, form: Format) -> Scalar:
    """``atan(x) - x`` for x from 0 to 1."""
    z = s.mul(x, x)
    return s.mul(s.mul(z, x), polynomial(s, z, form.atan))


def atan(s: Scalars, x: Scalar) -> Scalar:
    """The inverse tangent, from -pi/2 to pi/2."""
    form = format_of(x)
    size = s.abs(x)
    one = s.const(1.0, form.dtype)
    steep = s.cmp("gt", size, one)
    ratio = s.select(steep, s.div(one, size), size)
    rest = _arctangent(s, ratio, form)
    high, low = (s.const(part / 2, form.dtype) for part in form.pi)
    turned, error = fast_two_sum(s, high, s.neg(ratio))
    turned = s.add(turned, s.add(error, s.sub(low, rest)))
    result = copy_sign(s, s.select(steep, turned, s.add(ratio, rest)), x, form)
    return s.select(is_below(s, x, form.tiny), x, result)


def atan2(s: Scalars, y: Scalar, x: Scalar) -> Scalar:
    """The angle of the point (x, y), from -pi to pi, with C99's special cases."""
    form = format_of(x)
    zero, one = s.const(0.0, form.dtype), s.const(1.0, form.dtype)
    up, side = s.abs(y), s.abs(x)
    steep = s.cmp("gt", up, side)
    small, large = s.select(steep, side, up), s.select(steep, up, side)
    same = s.cmp("eq", small, large)  # both infinite, or both 0
    ratio = s.select(s.cmp("eq", large, zero), zero, s.select(same, one, s.div(small, large)))
    rest = _arctangent(s, ratio, form)
    half, half_low = (s.const(part / 2, form.dtype) for part in form.pi)
    high, error = fast_two_sum(s, half, s.neg(ratio))
    low = s.add(error, s.sub(half_low, rest))
    high, low = s.select(steep, high, ratio), s.select(steep, low, rest)
    behind = s.cmp("lt", s.bitcast(x, form.integer), s.const(0, form.integer))
    mirrored, error = two_sum(s, s.const(form.pi[0], form.dtype), s.neg(high))
    mirrored_low = s.add(error, s.sub(s.const(form.pi[1], form.dtype), low))
    angle = s.add(s.select(behind, mirrored, high), s.select(behind, mirrored_low, low))
    unordered = s.or_(s.cmp("ne", x, x), s.cmp("ne", y, y))
    return s.select(unordered, s.add(x, y), copy_sign(s, angle, y, form))


def _half_angle(s: Scalars, size: Scalar, form: Format) -> tuple[Scalar, Scalar, Scalar]:
    """``asin(sqrt(z)) = root + low`` with its ``root`` for z = (1 - size)/2, and that z: ``acos(size) / 2``."""
    z = s.mul(s.sub(s.const(1.0, form.dtype), size), s.const(0.5, form.dtype))
    root = s.sqrt(z)
    missing = s.fma(s.neg(root), root, z)
    correction = s.div(missing, s.max(s.add(root, root), s.const(2.0 ** (2 - form.bias), form.dtype)))
    return root, s.fma(s.mul(root, z), polynomial(s, z, form.asin), correction), z


def asin(s: Scalars, x: Scalar) -> Scalar:
    """The inverse sine, from -pi/2 to pi/2; NaN outside of [-1, 1]."""
    form = format_of(x)
    size = s.abs(x)
    root, low, _ = _half_angle(s, size, form)
    half, half_low = (s.const(part / 2, form.dtype) for part in form.pi)
    high, error = fast_two_sum(s, half, s.neg(s.add(root, root)))
    outer = s.add(high, s.add(error, s.sub(half_low, s.add(low, low))))
    z = s.mul(size, size)
    inner = s.fma(s.mul(size, z), polynomial(s, z, form.asin), size)
    result = copy_sign(s, s.select(is_below(s, x, 0.5), inner, outer), x, form)
    return s.select(is_below(s, x, form.tiny), x, _nan_outside(s, x, result, form))


def acos(s: Scalars, x: Scalar) -> Scalar:
    """The inverse cosine, from 0 to pi; NaN outside of [-1, 1]."""
    form = format_of(x)
    size = s.abs(x)
    root, low, _ = _half_angle(s, size, form)
    half, half_low, pi, pi_low = (
        s.const(value, form.dtype) for value in (form.pi[0] / 2, form.pi[1] / 2, form.pi[0], form.pi[1])
    )
    near_one = s.add(s.add(root, root), s.add(low, low))
    high, error = fast_two_sum(s, pi, s.neg(s.add(root, root)))
    near_minus_one = s.add(high, s.add(error, s.sub(pi_low, s.add(low, low))))
    outer = s.select(s.cmp("lt", x, s.const(0.0, form.dtype)), near_minus_one, near_one)
    z = s.mul(x, x)
    high, error = fast_two_sum(s, half, s.neg(x))
    inner = s.add(high, s.add(error, s.sub(half_low, s.mul(s.mul(x, z), polynomial(s, z, form.asin)))))
    return _nan_outside(s, x, s.select(is_below(s, x, 0.5), inner, outer), form)


def _nan_outside(s: Scalars, x: Scalar, result: Scalar, form: Format) -> Scalar:
    inside = s.cmp("le", s.abs(x), s.const(1.0, form.dtype))
    return s.select(inside, result, s.const(float("nan"), form.dtype))
