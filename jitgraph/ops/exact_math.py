"""-log(x) on (0, 1] and the cosine of turns, from ops that NumPy and native code round alike: the same bits everywhere.

``log`` and ``cos`` are NumPy's where NumPy evaluates, and differ from compiled code in the last place. What has to be
one stream on every target is made of + - * /, bits and choices alone. Both are within 2 ulp, and take floats of 32 or
64 bits on the grid that uniform numbers lie on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ops.arithmetic import abs, add, div, mul, neg, sub
from jitgraph.ops.bits import bitwise_and, shift_left, shift_right
from jitgraph.ops.comparison import lt, ne, select
from jitgraph.ops.conversion import bitcast, cast
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.transcendental import rint

_INTEGER: Final = {dtypes.float32: dtypes.int32, dtypes.float64: dtypes.int64}
_MANTISSA: Final = {dtypes.float32: 23, dtypes.float64: 52}
_ROOT_HALF: Final = {dtypes.float32: 0x3F3504F3, dtypes.float64: 0x3FE6A09E667F3BCD}  # the bits of sqrt(1/2)
_LN2: Final = {  # a head whose product with an exponent is exact, and the rest
    dtypes.float32: (0.693359375, -2.1219444005469057e-4),
    dtypes.float64: (0.6931471803691238, 1.9082149292705877e-10),
}
_LOG_TERMS: Final = {dtypes.float32: 5, dtypes.float64: 11}
_TURN_TERMS: Final = {dtypes.float32: 6, dtypes.float64: 10}


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """The sum of ``coefficients[i] * x**i``, by Horner's rule."""
    result = full_like(coefficients[-1], x)
    for coefficient in coefficients[-2::-1]:
        result = add(mul(result, x), full_like(coefficient, x))
    return result


def minus_log(x: Any) -> Any:
    """-log(x) for x > 0, x normal and finite.

    With x = 2^k m, m from sqrt(1/2) to sqrt(2), f = m - 1 and s = f / (2 + f), log(m) is 2 artanh(s), whose series is
    added to the exact f as f - (f^2/2 - s (f^2/2 + R)), the arrangement of FreeBSD's msun.
    """
    dtype: DType = x.dtype
    bits = bitcast(x, dtype=_INTEGER[dtype])
    width = full_like(_MANTISSA[dtype], bits)
    exponent = shift_right(sub(bits, full_like(_ROOT_HALF[dtype], bits)), width)
    f = sub(bitcast(sub(bits, shift_left(exponent, width)), dtype=dtype), full_like(1.0, x))
    k = cast(exponent, dtype=dtype)
    s = div(f, add(full_like(2.0, f), f))
    z = mul(s, s)
    rest = mul(z, _polynomial(z, [2.0 / (2 * i + 3) for i in range(_LOG_TERMS[dtype])]))
    half = mul(full_like(0.5, f), mul(f, f))
    head, tail = (mul(k, full_like(part, k)) for part in _LN2[dtype])
    small = sub(half, add(mul(s, add(half, rest)), tail))
    return sub(sub(small, f), head)


def log1p_less(x: Any) -> Any:
    """log(1 + x) - x for x > -1: accurate where the two nearly agree.

    With s = x / (2 + x), log(1 + x) is 2 artanh(s), and 2 s - x is -x s, so that nothing cancels near zero.
    """
    dtype: DType = x.dtype
    s = div(x, add(full_like(2.0, x), x))
    z = mul(s, s)
    rest = mul(mul(z, s), _polynomial(z, [2.0 / (2 * i + 3) for i in range(_LOG_TERMS[dtype])]))
    near = sub(rest, mul(x, s))
    far = sub(neg(minus_log(add(full_like(1.0, x), x))), x)
    return select(lt(abs(x), full_like(0.25, x)), near, far)


def cos_turns(x: Any) -> Any:
    """cos(2 pi x) for 0 <= x <= 1; 4 x must not round.

    The nearest quarter turn is taken off, which is exact, and the series of cosine or sine taken of what is left.
    """
    dtype: DType = x.dtype
    quarters = mul(x, full_like(4.0, x))
    nearest = rint(quarters)
    t = sub(quarters, nearest)
    z = mul(t, t)
    count, quarter = _TURN_TERMS[dtype], math.pi / 2
    terms = [(-1) ** (i // 2) * quarter**i / math.factorial(i) for i in range(2 * count)]
    turn = cast(nearest, dtype=dtypes.int32)
    one, two = (full_like(number, turn) for number in (1, 2))
    odd = ne(bitwise_and(turn, one), zeros_like(turn))
    value = select(odd, mul(t, _polynomial(z, terms[1::2])), _polynomial(z, terms[::2]))
    negative = ne(bitwise_and(add(turn, one), two), zeros_like(turn))
    return select(negative, neg(value), value)
