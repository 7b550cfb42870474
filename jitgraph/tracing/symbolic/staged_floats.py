"""Arithmetic of Python floats that are float64 values of a graph, with checks for what raises in Python."""

from __future__ import annotations

from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.ir.op import Op
from jitgraph.tensor import lifting
from jitgraph.tensor.weak_ints import GREATEST, LEAST
from jitgraph.tracing.symbolic.staged_integers import LEAVES_INT64, Int, product_of, require, unsupported

_EXACT: Final = 1 << 53
_INT_LIMIT: Final = 2.0**63
_MOST_DIGITS: Final = 22  # 10**22 is the greatest power of ten that a double holds


def constant(number: float) -> Any:
    return lifting.constant(number, dtypes.float64)


def of_int(a: Int) -> Any:
    """An int as a double, rounded to the nearest as Python does."""
    return constant(float(a.known)) if a.known is not None else ops.cast(a.value, dtype=dtypes.float64)


def require_divisor(y: Any, message: str) -> None:
    """A check that ``y`` is not 0."""
    require(ops.ne(y, constant(0.0)), "ZeroDivisionError", message)


def truediv(x: Any, y: Any) -> Any:
    require_divisor(y, "float division by zero")
    return ops.div(x, y)


def floordiv(x: Any, y: Any) -> Any:
    require_divisor(y, "float floor division by zero")
    return ops.floor_divide(x, y)


def mod(x: Any, y: Any) -> Any:
    """``x % y``: zero with the sign of y."""
    require_divisor(y, "float modulo")
    rest = ops.remainder(x, y)
    return ops.select(ops.eq(rest, constant(0.0)), with_sign_of(rest, y), rest)


def with_sign_of(x: Any, y: Any) -> Any:
    """The size of x with the sign of y, that of a zero too."""
    size = ops.abs(x)
    return ops.select(is_negative(y), ops.neg(size), size)


def is_negative(x: Any) -> Any:
    """Whether the sign bit is set."""
    return ops.lt(ops.bitcast(x, dtype=dtypes.int64), lifting.constant(0, dtypes.int64))


def power(x: Any, y: Any) -> Any:
    """``x ** y``; what is complex in Python is a TypeError."""
    zero = constant(0.0)
    negative = ops.lt(y, zero)
    of_zero = ops.logical_and(ops.eq(x, zero), ops.logical_and(negative, ops.isfinite(y)))
    require(ops.logical_not(of_zero), "ZeroDivisionError", "0.0 cannot be raised to a negative power")
    is_integral = ops.eq(ops.floor(y), y)
    real = ops.logical_or(ops.logical_or(ops.ge(x, zero), is_integral), is_special(x))
    real = ops.logical_or(real, ops.isnan(y))
    require(real, "TypeError", "a negative float is raised to a fractional power, which is complex in Python")
    return in_range(raised(x, y), (x, y), "Numerical result out of range")


def raised(x: Any, y: Any) -> Any:
    """``x`` to the y, where zeros and infinities have the sign that C gives them: NumPy takes a root for 0.5."""
    size = ops.abs(x)
    odd = ops.eq(ops.remainder(ops.abs(y), constant(2.0)), constant(1.0))
    value = ops.pow(size, y)
    value = ops.select(ops.logical_and(odd, is_negative(x)), ops.neg(value), value)
    edge = ops.logical_or(ops.eq(x, constant(0.0)), ops.isinf(x))
    return ops.select(edge, value, ops.pow(x, y))


def is_special(x: Any) -> Any:
    """Whether x is infinite or no number."""
    return ops.logical_not(ops.isfinite(x))


def in_range(value: Any, operands: tuple[Any, ...], message: str = "math range error") -> Any:
    """``value``, with a check that it is not infinite where the operands are finite."""
    fits = ops.logical_not(ops.isinf(value))
    for x in operands:
        fits = ops.logical_or(fits, is_special(x))
    require(fits, "OverflowError", message)
    return value


# --- ints of floats -------------------------------------------------------------------------------------------------


def as_int(x: Any) -> Int:
    """A float without a fraction as an int."""
    require(ops.logical_not(ops.isnan(x)), "ValueError", "cannot convert float NaN to integer")
    require(ops.logical_not(ops.isinf(x)), "OverflowError", "cannot convert float infinity to integer")
    fits = ops.logical_and(ops.ge(x, constant(-_INT_LIMIT)), ops.lt(x, constant(_INT_LIMIT)))
    require(fits, "OverflowError", LEAVES_INT64)
    return Int(ops.cast(x, dtype=dtypes.int64), LEAST, GREATEST)


def equals_int(x: Any, a: Int) -> Any:
    """``x == a`` exactly: an int that a double does not hold is not rounded."""
    same, known, near = _beside_int(x, a)
    return ops.eq(x, near) if same is None else ops.logical_and(same, ops.eq(known, a.value))


def order_with_int(op: Op, x: Any, a: Int) -> Any:
    """``x < a`` or another order, exactly."""
    same, known, near = _beside_int(x, a)
    return op(x, near) if same is None else ops.select(same, op(known, a.value), op(x, near))


def _beside_int(x: Any, a: Int) -> tuple[Any, Any, Any]:
    """Whether x is the double to which an int is rounded (None where that is the int itself), then as an int; and a
    double that lies to x as the int does elsewhere."""
    near = of_int(a)
    if a.least >= -_EXACT and a.greatest <= _EXACT:
        return None, None, near
    beyond = ops.ge(x, constant(_INT_LIMIT))  # as the greatest ints are rounded to, which are less
    same = ops.logical_and(ops.eq(x, near), ops.logical_not(beyond))
    return same, ops.cast(x, dtype=dtypes.int64), ops.select(beyond, constant(0.0), near)


# --- rounding -------------------------------------------------------------------------------------------------------


def round_to(x: Any, digits: int) -> Any:
    """``round(x, digits)``: the double nearest to the decimal number that is nearest to x, the even one of two."""
    if not -_MOST_DIGITS <= digits <= _MOST_DIGITS:
        raise unsupported(f"round() to {digits} digits", f"-{_MOST_DIGITS} to {_MOST_DIGITS} digits")
    size = ops.abs(x)
    rounded = _to_fraction(size, 10.0**digits) if digits >= 0 else _to_multiple(size, 10.0**-digits)
    rounded = ops.select(is_special(x), size, rounded)
    return with_sign_of(in_range(rounded, (x,), "rounded value too large to represent"), x)


def _to_fraction(x: Any, power: float) -> Any:
    """A positive x to a multiple of ``1 / power``, by the exact product of both."""
    high, low = product_of(ops.minimum(x, constant(2.0**53)), constant(power))
    nearest = ops.rint(high)
    rest = ops.sub(high, nearest)
    up = ops.logical_and(ops.eq(rest, constant(0.5)), ops.gt(low, constant(0.0)))
    down = ops.logical_and(ops.eq(rest, constant(-0.5)), ops.lt(low, constant(0.0)))
    # from 2**52 on the product has no fraction in its high part, but for what the low part says
    half = ops.eq(ops.abs(low), constant(0.5))
    odd = ops.ne(ops.remainder(nearest, constant(2.0)), constant(0.0))
    tie = ops.logical_and(ops.logical_and(half, odd), ops.eq(rest, constant(0.0)))
    up = ops.logical_or(up, ops.logical_and(tie, ops.gt(low, constant(0.0))))
    down = ops.logical_or(down, ops.logical_and(tie, ops.lt(low, constant(0.0))))
    one = constant(1.0)
    nearest = ops.select(up, ops.add(nearest, one), ops.select(down, ops.sub(nearest, one), nearest))
    return ops.select(ops.ge(high, constant(2.0**53)), x, ops.div(nearest, constant(power)))


def _to_multiple(x: Any, power: float) -> Any:
    """A positive x to a multiple of ``power``, by the exact rest."""
    by, large = constant(power), ops.ge(x, constant(power * 2.0**53))  # where doubles lie further apart than multiples
    original, x = x, ops.select(large, constant(0.0), x)
    nearest = ops.rint(ops.div(x, by))
    high, low = product_of(nearest, by)
    rest = ops.sub(ops.sub(x, high), low)
    half = constant(power / 2)
    odd = ops.ne(ops.remainder(nearest, constant(2.0)), constant(0.0))
    up = ops.logical_or(ops.gt(rest, half), ops.logical_and(ops.eq(rest, half), odd))
    down = ops.logical_or(ops.lt(rest, ops.neg(half)), ops.logical_and(ops.eq(rest, ops.neg(half)), odd))
    one = constant(1.0)
    nearest = ops.select(up, ops.add(nearest, one), ops.select(down, ops.sub(nearest, one), nearest))
    return ops.select(large, original, ops.mul(nearest, by))
