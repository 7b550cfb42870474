"""The double nearest to the quotient of two int64 values, as ``a / b`` of Python's ints, which rounds once."""

from __future__ import annotations

from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.tensor import lifting
from jitgraph.tensor.weak_ints import LEAST
from jitgraph.tracing.staged.integers import Int

_EXACT: Final = 1 << 53
_SPLIT: Final = 134217729.0  # 2**27 + 1, which halves the bits of a double
_MANTISSA: Final = 52
_BIAS: Final = 1023


def quotient(a: Int, b: Int) -> Any:
    """``a / b`` of a b that is not 0."""
    if all(x.least >= -_EXACT and x.greatest <= _EXACT for x in (a, b)):
        return ops.div(_double(a.value), _double(b.value))
    (numerator, by), (divisor, of) = _with_a_negative(a), _with_a_negative(b)
    negative = ops.lt(divisor, _int(0))
    numerator, divisor = (ops.select(negative, ops.neg(x), x) for x in (numerator, divisor))
    rounded = _corrected(_approximate(numerator, divisor), numerator, divisor)
    scaled = ops.div(ops.mul(rounded, by), of)
    return ops.select(ops.eq(numerator, _int(0)), _float(0.0), scaled)


def _with_a_negative(a: Int) -> tuple[Any, Any]:
    """The int, of the least int64 half of it, and by what that is to be multiplied."""
    if a.least > LEAST:
        return a.value, _float(1.0)
    least = ops.eq(a.value, _int(LEAST))
    return ops.select(least, _int(LEAST // 2), a.value), ops.select(least, _float(2.0), _float(1.0))


def _approximate(a: Any, b: Any) -> Any:
    """The quotient within a little more than half a unit in the last place."""
    high_a, high_b = _double(a), _double(b)
    low_a, low_b = (_double(ops.sub(x, ops.cast(high, dtype=dtypes.int64))) for x, high in ((a, high_a), (b, high_b)))
    first = ops.div(high_a, high_b)
    product, lost = product_of(first, high_b)
    rest = ops.sub(ops.sub(high_a, product), lost)
    rest = ops.add(rest, ops.sub(low_a, ops.mul(first, low_b)))
    return ops.add(first, ops.div(rest, high_b))


def _corrected(near: Any, a: Any, b: Any) -> Any:
    """The double nearest to ``a / b``, which is ``near`` or one beside it, by the exact rest modulo 2**64."""
    bits = ops.bitcast(near, dtype=dtypes.int64)
    exponent = ops.sub(ops.bitwise_and(ops.shift_right(bits, _int(_MANTISSA)), _int(0x7FF)), _int(_BIAS + _MANTISSA))
    digits = ops.bitwise_or(ops.bitwise_and(bits, _int((1 << _MANTISSA) - 1)), _int(1 << _MANTISSA))
    digits = ops.select(ops.lt(bits, _int(0)), ops.neg(digits), digits)
    zero = _int(0)
    unit = ops.shift_left(b, ops.maximum(exponent, zero))
    rest = ops.sub(ops.shift_left(a, ops.maximum(ops.neg(exponent), zero)), ops.mul(digits, unit))
    odd = ops.eq(ops.bitwise_and(digits, _int(1)), _int(1))
    up = _is_past_half(rest, unit, odd)
    down = _is_past_half(ops.neg(rest), unit, odd)
    step = ops.sub(ops.cast(up, dtype=dtypes.int64), ops.cast(down, dtype=dtypes.int64))
    scale = ops.bitcast(ops.shift_left(ops.add(exponent, _int(_BIAS)), _int(_MANTISSA)), dtype=dtypes.float64)
    return ops.mul(_double(ops.add(digits, step)), scale)


def _is_past_half(rest: Any, unit: Any, odd: Any) -> Any:
    """Whether the next number is nearer, or as near and even: ``rest`` is positive and at least half of ``unit``."""
    other = ops.sub(unit, rest)
    past = ops.logical_or(ops.gt(rest, other), ops.logical_and(odd, ops.eq(rest, other)))
    return ops.logical_and(ops.gt(rest, _int(0)), past)


def product_of(x: Any, y: Any) -> tuple[Any, Any]:
    """``x * y`` as a double and what it lacks of the exact product, by Dekker's splitting (Numer. Math. 18, 1971)."""
    (high_x, low_x), (high_y, low_y) = _halves(x), _halves(y)
    product = ops.mul(x, y)
    rest = ops.sub(ops.mul(high_x, high_y), product)
    rest = ops.add(rest, ops.mul(high_x, low_y))
    rest = ops.add(rest, ops.mul(low_x, high_y))
    return product, ops.add(rest, ops.mul(low_x, low_y))


def _halves(x: Any) -> tuple[Any, Any]:
    scaled = ops.mul(x, _float(_SPLIT))
    high = ops.sub(scaled, ops.sub(scaled, x))
    return high, ops.sub(x, high)


def _double(value: Any) -> Any:
    return ops.cast(value, dtype=dtypes.float64)


def _int(number: int) -> Any:
    return lifting.constant(number, dtypes.int64)


def _float(number: float) -> Any:
    return lifting.constant(number, dtypes.float64)
