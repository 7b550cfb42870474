"""Exact arithmetic of Python ints that are int64 values of a graph.

A result is Python's, or a check of the graph raises OverflowError where int64 does not hold it. Between which ends an
int lies is followed where that is cheap, so that nothing is checked that cannot happen.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.ir.op import Op
from jitgraph.records import NamedTuple
from jitgraph.tensor import lifting, weak_ints
from jitgraph.tensor.weak_ints import GREATEST, LEAST, between
from jitgraph.tracing.staged.checks import LEAVES_INT64, require, unsupported

_APART: Final = 2.0**62  # what wraps differs by 2**64 from the true result, which float64 gives within 2**12
_BITS: Final = 64


class Int(NamedTuple):
    """An int64 value, and the ends between which it lies."""

    value: Any
    least: int
    greatest: int

    @property
    def known(self) -> int | None:
        """The int itself, where it is a constant."""
        return self.least if self.least == self.greatest else None

    def may_be(self, number: int) -> bool:
        """Whether its ends leave room for ``number``."""
        return self.least <= number <= self.greatest


def of_constant(number: int) -> Int:
    """A Python int; ScriptError for one that int64 does not hold."""
    if not LEAST <= number <= GREATEST:
        raise unsupported(f"an operation with {number}, which int64 does not hold,")
    return Int(lifting.constant(number, dtypes.int64), number, number)


def of_value(value: Any) -> Int:
    """An int64 value of the trace, with its ends where they are known."""
    ends = weak_ints.ends_of(value)
    return Int(value, *(ends or (LEAST, GREATEST)))


def bounded(value: Any, least: int, greatest: int) -> Int:
    """An int64 value that lies between these ends."""
    least, greatest = max(least, LEAST), min(greatest, GREATEST)
    if least > LEAST or greatest < GREATEST:
        weak_ints.note_ends(value, least, greatest)
    return Int(value, least, greatest)


def _constant(number: int) -> Any:
    return lifting.constant(number, dtypes.int64)


# --- sums and products ----------------------------------------------------------------------------------------------


def add(a: Int, b: Int) -> Int:
    if b.known is not None or a.known is not None:
        other, constant = (a, b.least) if b.known is not None else (b, a.least)
        return _checked(ops.add, operator.add, a, b, between(other.value, LEAST - constant, GREATEST - constant))
    return _checked(ops.add, operator.add, a, b)


def sub(a: Int, b: Int) -> Int:
    if b.known is not None:
        return _checked(ops.sub, operator.sub, a, b, between(a.value, LEAST + b.known, GREATEST + b.known))
    if a.known is not None:
        return _checked(ops.sub, operator.sub, a, b, between(b.value, a.known - GREATEST, a.known - LEAST))
    return _checked(ops.sub, operator.sub, a, b)


def mul(a: Int, b: Int) -> Int:
    return _checked(ops.mul, operator.mul, a, b)


def _checked(op: Op, python: Callable[[int, int], int], a: Int, b: Int, stays: Any = None) -> Int:
    """A sum, difference or product, with a check that it has not left int64 where its ends may lie outside: ``stays``,
    or that it is near the result of doubles."""
    value = op(a.value, b.value)
    corners = [python(x, y) for x in (a.least, a.greatest) for y in (b.least, b.greatest)]
    least, greatest = min(corners), max(corners)
    if least < LEAST or greatest > GREATEST:
        require(_is_near(op, a, b, value) if stays is None else stays, "OverflowError", LEAVES_INT64)
    return bounded(value, least, greatest)


def _is_near(op: Op, a: Int, b: Int, value: Any) -> Any:
    """Whether the result ``value`` of an op on int64 did not wrap."""
    wide = [ops.cast(x, dtype=dtypes.float64) for x in (a.value, b.value, value)]
    difference = ops.abs(ops.sub(op(*wide[:2]), wide[2]))
    return ops.lt(difference, lifting.constant(_APART, dtypes.float64))


def neg(a: Int) -> Int:
    _require_not_least(a)
    return bounded(ops.neg(a.value), -a.greatest, -a.least)


def absolute(a: Int) -> Int:
    _require_not_least(a)
    ends = abs(a.least), abs(a.greatest)
    return bounded(ops.abs(a.value), 0 if a.may_be(0) else min(ends), max(ends))


def _require_not_least(a: Int) -> None:
    if a.least == LEAST:
        require(ops.ne(a.value, _constant(LEAST)), "OverflowError", LEAVES_INT64)


# --- division -------------------------------------------------------------------------------------------------------


def require_divisor(b: Int, message: str) -> None:
    """A check that ``b`` is not 0."""
    if b.may_be(0):
        require(ops.ne(b.value, _constant(0)), "ZeroDivisionError", message)


def floordiv(a: Int, b: Int) -> Int:
    """``a // b``, rounded down."""
    require_divisor(b, "integer division or modulo by zero")
    if a.least == LEAST and b.may_be(-1):
        wraps = ops.logical_and(ops.eq(a.value, _constant(LEAST)), ops.eq(b.value, _constant(-1)))
        require(ops.logical_not(wraps), "OverflowError", LEAVES_INT64)
    value = ops.floor_divide(a.value, b.value)
    if b.may_be(0):
        size = max(-a.least, a.greatest)
        return bounded(value, -size, size)
    corners = [x // y for x in (a.least, a.greatest) for y in (b.least, b.greatest)]
    return bounded(value, min(corners), max(corners))


def mod(a: Int, b: Int) -> Int:
    """``a % b``, which has the sign of b."""
    require_divisor(b, "integer modulo by zero")
    value = ops.remainder(a.value, b.value)
    if a.least >= 0 and a.greatest < b.least:
        return bounded(value, a.least, a.greatest)
    return bounded(value, min(0, b.least + 1), max(0, b.greatest - 1))


# --- powers and shifts ----------------------------------------------------------------------------------------------


def power(a: Int, b: Int) -> Int:
    """``a ** b`` of an exponent that is not negative, which a check makes sure of."""
    if b.known is not None:
        return _power_of_constant(a, b.known)
    if b.least < 0:
        message = "a Python int of this loop or branch is raised to a negative power, which is a float in Python"
        require(ops.ge(b.value, _constant(0)), "TypeError", message)
    exponent = ops.maximum(b.value, _constant(0)) if b.least < 0 else b.value
    if b.greatest >= _BITS:  # -1, 0 and 1 stay; of other ints these powers leave int64
        even = ops.remainder(exponent, _constant(2))
        exponent = ops.select(ops.lt(exponent, _constant(_BITS)), exponent, ops.add(even, _constant(_BITS)))
    most, top = max(abs(a.least), abs(a.greatest)), b.greatest
    value = _wrapped_power(a.value, exponent, min(top, _BITS).bit_length())
    if top < _BITS and most**top <= GREATEST:
        return bounded(value, -(most**top) if a.least < 0 else 0, max(most**top, 1))
    wide = ops.pow(ops.cast(a.value, dtype=dtypes.float64), ops.cast(exponent, dtype=dtypes.float64))
    difference = ops.abs(ops.sub(wide, ops.cast(value, dtype=dtypes.float64)))
    require(ops.lt(difference, lifting.constant(_APART, dtypes.float64)), "OverflowError", LEAVES_INT64)
    return bounded(value, 0 if a.least >= 0 else LEAST, GREATEST)


def _power_of_constant(a: Int, exponent: int) -> Int:
    """The power by squaring: no factor is greater than the result."""
    power, square = of_constant(1), a
    while exponent:
        if exponent & 1:
            power = square if power.known == 1 else mul(power, square)
        exponent >>= 1
        square = mul(square, square) if exponent else square
    return power


def _wrapped_power(value: Any, exponent: Any, bits: int) -> Any:
    """The power modulo 2**64 for an exponent of so many bits."""
    power = _constant(1)
    for bit in range(bits):
        odd = ops.ne(ops.bitwise_and(exponent, _constant(1 << bit)), _constant(0))
        power = ops.select(odd, ops.mul(power, value), power)
        value = ops.mul(value, value)
    return power


def shift_left(a: Int, b: Int) -> Int:
    """``a << b``."""
    _require_count(b)
    count = ops.minimum(b.value, _constant(_BITS - 1)) if b.greatest >= _BITS else b.value
    value = ops.shift_left(a.value, count)
    if b.greatest < _BITS:
        corners = [x << y for x in (a.least, a.greatest) for y in (max(b.least, 0), max(b.greatest, 0))]
        if min(corners) >= LEAST and max(corners) <= GREATEST:
            return bounded(value, min(corners), max(corners))
    fits = ops.eq(ops.shift_right(value, count), a.value)
    if b.greatest >= _BITS - 1:
        fits = ops.logical_and(fits, ops.lt(b.value, _constant(_BITS)))
    require(ops.logical_or(fits, ops.eq(a.value, _constant(0))), "OverflowError", LEAVES_INT64)
    return bounded(value, 0 if a.least >= 0 else LEAST, GREATEST if a.greatest > 0 else 0)


def shift_right(a: Int, b: Int) -> Int:
    """``a >> b``."""
    _require_count(b)
    count = ops.minimum(b.value, _constant(_BITS - 1)) if b.greatest >= _BITS else b.value
    low, high = (min(max(end, 0), _BITS) for end in (b.least, b.greatest))
    corners = [x >> y for x in (a.least, a.greatest) for y in (low, high)]
    return bounded(ops.shift_right(a.value, count), min(corners), max(corners))


def _require_count(b: Int) -> None:
    if b.least < 0:
        require(ops.ge(b.value, _constant(0)), "ValueError", "negative shift count")


# --- bits -----------------------------------------------------------------------------------------------------------


def bit_and(a: Int, b: Int) -> Int:
    value = ops.bitwise_and(a.value, b.value)
    tops = [x.greatest for x in (a, b) if x.least >= 0]
    return bounded(value, 0 if tops else LEAST, min(tops) if tops else GREATEST)


def bit_or(a: Int, b: Int) -> Int:
    return _mixed(ops.bitwise_or(a.value, b.value), a, b)


def bit_xor(a: Int, b: Int) -> Int:
    return _mixed(ops.bitwise_xor(a.value, b.value), a, b)


def _mixed(value: Any, a: Int, b: Int) -> Int:
    """A result with no more bits than its operands."""
    bits = max(x.bit_length() for x in (a.least, a.greatest, b.least, b.greatest))
    least = 0 if a.least >= 0 and b.least >= 0 else -(1 << bits)
    return bounded(value, least, (1 << bits) - 1)


def invert(a: Int) -> Int:
    return bounded(ops.bitwise_not(a.value), ~a.greatest, ~a.least)


def bit_length(a: Int) -> Int:
    """How many bits ``abs(a)`` has."""
    least = ops.eq(a.value, _constant(LEAST))
    rest = ops.abs(ops.select(least, _constant(GREATEST), a.value))
    count = _constant(0)
    for step in (32, 16, 8, 4, 2, 1):
        large = ops.ge(rest, _constant(1 << step))
        count = ops.add(count, ops.select(large, _constant(step), _constant(0)))
        rest = ops.select(large, ops.shift_right(rest, _constant(step)), rest)
    count = ops.add(count, ops.minimum(rest, _constant(1)))
    return bounded(ops.select(least, _constant(_BITS), count), 0, _BITS)


def bit_count(a: Int) -> Int:
    """How many bits of ``abs(a)`` are set."""
    rest = ops.abs(a.value)  # of the least int that is itself, of one bit
    total = _constant(0)
    for shift in range(0, _BITS, 16):
        part = ops.bitwise_and(ops.shift_right(rest, _constant(shift)), _constant(0xFFFF))
        for step, mask in ((1, 0x5555), (2, 0x3333), (4, 0x0F0F), (8, 0x00FF)):
            high = ops.bitwise_and(ops.shift_right(part, _constant(step)), _constant(mask))
            part = ops.add(ops.bitwise_and(part, _constant(mask)), high)
        total = ops.add(total, part)
    return bounded(total, 0, _BITS)


# --- comparisons ----------------------------------------------------------------------------------------------------


def compare(op: Op, a: Int, b: Int) -> Any:
    """The 0-d bool of a comparison."""
    return op(a.value, b.value)


def round_to(a: Int, digits: int) -> Int:
    """``round(a, digits)``: to a multiple of a power of ten, of two that are as near to the even one."""
    if digits >= 0:
        return a
    if -digits > len(str(GREATEST)):  # nearer to 0 than to any multiple
        return bounded(ops.mul(a.value, _constant(0)), 0, 0)
    step = 10**-digits
    if step > GREATEST:  # the int reaches half of it at most
        half = step // 2
        large = ops.gt(ops.abs(a.value), _constant(half)) if half < GREATEST else None
        if large is not None:
            least = ops.eq(a.value, _constant(LEAST))
            require(ops.logical_not(ops.logical_or(large, least)), "OverflowError", LEAVES_INT64)
        return bounded(ops.mul(a.value, _constant(0)), 0, 0)
    by = of_constant(step)
    quotient, rest = floordiv(a, by), mod(a, by)
    half = _constant(step // 2)
    odd = ops.eq(ops.bitwise_and(quotient.value, _constant(1)), _constant(1))
    up = ops.logical_or(ops.gt(rest.value, half), ops.logical_and(ops.eq(rest.value, half), odd))
    return mul(add(quotient, bounded(ops.cast(up, dtype=dtypes.int64), 0, 1)), by)


def of_bool(value: Any) -> Int:
    """A bool value as an int."""
    return bounded(ops.cast(value, dtype=dtypes.int64), 0, 1)
