"""Reduction of any finite angle to a quadrant and a rest of at most pi/4, exact enough for the worst arguments.

The angle is multiplied by 1/(2 pi) piece by piece; whole turns are dropped from each exact product, and what is left
is added from the largest term down, after the nearest quarter turn was taken off the largest. A sum that rounds is
then never followed by cancellation. (M. H. Payne and R. N. Hanek, "Radian reduction for trigonometric functions",
1983, in floating point.)
"""

from __future__ import annotations

from functools import cache

from jitgraph import dtypes
from jitgraph.ir.scalar import Scalar, Scalars
from jitgraph.ops.math_functions.format import Format, Pair, fast_two_sum, is_below, two_product, two_sum

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
