"""sin, cos, tan and their inverses, and the reduction of any finite angle to a quadrant and a rest of at most pi/4."""

from __future__ import annotations

from functools import cache

from jitgraph import dtypes
from jitgraph.ir.scalar import Scalar, Scalars
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
# Reduction of any finite angle to a quadrant and a rest of at most pi/4, exact enough for the worst arguments.
#
# The angle is multiplied by 1/(2 pi) piece by piece; whole turns are dropped from each exact product, and what is left
# is added from the largest term down, after the nearest quarter turn was taken off the largest. A sum that rounds is
# then never followed by cancellation. (M. H. Payne and R. N. Hanek, "Radian reduction for trigonometric functions",
# 1983, in floating point.)

_NARROW = 29  # bits of a piece that a float32 times fits float64 exactly
_WIDE = 53


@cache
def _pieces(width: int, count: int) -> tuple[float, ...]:
    """The bits of 1/(2 pi), ``width`` at a time, each piece as a fraction below 1."""
    bits = width * count + 64
    turns = (1 << 2 * bits) // (2 * _pi(bits)) >> (bits - width * count)
    return tuple((turns >> width * (count - 1 - i)) % (1 << width) / (1 << width) for i in range(count))


def _pi(bits: int) -> int:
    """floor(pi * 2**bits), or a few units less, by Machin's formula."""
    one = 1 << bits + 32

    def arctangent_of_inverse(n: int) -> int:
        power, total, divisor, sign = one // n, 0, 1, 1
        while power:
            total += sign * (power // divisor)
            power, divisor, sign = power // (n * n), divisor + 2, -sign
        return total

    return 16 * arctangent_of_inverse(5) - 4 * arctangent_of_inverse(239) >> 32


def reduce_angle(s: Scalars, x: Scalar, form: Format) -> tuple[Scalar, Scalar, Scalar]:
    """``x = quadrant * pi/2 + r + low``: an integer scalar (meant modulo 4), and a rest of at most pi/4."""
    single = form.dtype == dtypes.float32
    quarter, r, low = _rest_of_float32(s, x) if single else _rest_of_float64(s, x, form)
    zero = s.const(0.0, form.dtype)
    inside = is_below(s, x, 0.78)  # there the quadrant is 0, and x itself keeps its sign and its last bit
    magic = s.const(form.magic, form.dtype)
    return s.bitcast(s.add(quarter, magic), form.integer), s.select(inside, x, r), s.select(inside, zero, low)


def _fraction(s: Scalars, x: Scalar) -> Scalar:
    return s.sub(x, s.rint(x))


def _quarter(s: Scalars, turns: Scalar) -> Pair:
    """The nearest number of quarter turns, and as turns."""
    number = s.rint(s.mul(turns, s.const(4.0, turns.dtype)))
    return number, s.mul(number, s.const(0.25, turns.dtype))


def _rest_of_float32(s: Scalars, x: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    double = dtypes.float64
    wide = s.cast(x, double)
    terms = []
    for i, piece in enumerate(_pieces(_NARROW, 7)):
        product = s.mul(wide, s.const(piece * 2.0 ** (-_NARROW * i), double))
        terms.append(_fraction(s, product) if i < 5 else product)  # below 2**128 the last two are below half a turn
    total = terms[-1]
    for term in reversed(terms[:-1]):
        total = s.add(total, term)
    number, quarter = _quarter(s, total)
    turns = s.sub(terms[0], quarter)
    for term in terms[1:]:
        turns = s.add(turns, term)
    rest = s.mul(turns, s.const(6.283185307179586, double))
    r = s.cast(rest, dtypes.float32)
    low = s.cast(s.sub(rest, s.cast(r, double)), dtypes.float32)
    return s.cast(number, dtypes.float32), r, low


def _rest_of_float64(s: Scalars, x: Scalar, form: Format) -> tuple[Scalar, Scalar, Scalar]:
    def const(value: float) -> Scalar:
        return s.const(value, form.dtype)

    # Skip the pieces whose products are whole turns: 16, 8, 4, 2 and 1 of them, and divide x by their weight.
    pieces = [const(piece) for piece in _pieces(_WIDE, 23)]
    angle = x
    for skip in (16, 8, 4, 2, 1):
        large = s.cmp("ge", s.abs(angle), const(2.0 ** (52 + _WIDE * skip)))
        angle = s.select(large, s.mul(angle, const(2.0 ** (-_WIDE * skip))), angle)
        count = min(len(pieces), skip + 4)  # what the smaller skips and the window of five can still reach
        pieces = [
            s.select(large, pieces[i + skip], pieces[i]) if i + skip < len(pieces) else pieces[i] for i in range(count)
        ]
    terms = []
    for i, piece in enumerate(pieces):
        product, error = two_product(s, s.mul(angle, const(2.0 ** (-_WIDE * i))), piece)
        terms.append(_fraction(s, product) if i < 3 else product)  # below 2**105 the later ones are below half a turn
        if i < 4:
            terms.append(_fraction(s, error) if i < 2 else error)
    total = terms[-1]
    for term in reversed(terms[:-1]):
        total = s.add(total, term)
    number, quarter = _quarter(s, total)
    high, low = s.sub(terms[0], quarter), const(0.0)
    for term in terms[1:7]:
        high, error = two_sum(s, high, term)
        high, low = fast_two_sum(s, high, s.add(low, error))
    high, low = fast_two_sum(s, high, s.add(low, s.add(terms[7], terms[8])))
    r, error = two_product(s, high, const(2 * form.pi[0]))
    error = s.fma(high, const(2 * form.pi[1]), s.fma(low, const(2 * form.pi[0]), error))
    return (number, *fast_two_sum(s, r, error))


# ----------------------------------------------------------------------
# sin, cos, tan and their inverses.
#
# Polynomials on [-pi/4, pi/4] in the arrangement of FreeBSD's msun, which keeps the leading terms exact. The inverses
# reduce by 1/x, by (1 - x)/2 and by swapping the sides of the triangle.


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
