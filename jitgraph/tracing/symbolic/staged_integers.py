"""Exact arithmetic of Python ints that are int64 values of a graph, their quotients, and checks for what raises."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import Any, Final, NoReturn

from jitgraph import dtypes, ops
from jitgraph.errors import ScriptError, UnsupportedOp
from jitgraph.ir.op import Op
from jitgraph.location import Location, text_at, user_location
from jitgraph.records import NamedTuple
from jitgraph.runtime.loader import CHECK_KINDS
from jitgraph.tensor import element_numbers, lifting, weak_ints
from jitgraph.tensor.weak_ints import GREATEST, LEAST, between

# ----------------------------------------------------------------------
# What a number that is staged raises: checks of the graph with Python's errors, and refusals while recording.

LEAVES_INT64: Final = "a Python int of this loop or branch leaves the range of int64"
_ELEMENT_HINTS: Final = {
    "AssertionError": "leave the assert out, or return NaN where it does not hold",
    "UnboundLocalError": "give the variable a value before the branch or loop",
    "IndexError": "choose with if, or look it up before and give it as an argument",
    "KeyError": "choose with if, or look it up before and give it as an argument",
}
"""Errors of the program, not of its arithmetic: a function of one element has no number to give in their place."""
WAY: Final = "loop over a Python range of at most 1024 steps, which is unrolled, or compute with tensors"


def require(holds: Any, kind: str, message: str) -> None:
    """A check of the graph that raises ``kind`` where ``holds``, a 0-d bool value, is false.

    Nothing raises in a function of one element: arithmetic wraps or is NaN, UnsupportedOp for what has no such result.
    """
    for attempt in _attempts.get():
        attempt.require_unhandled(kind)
    if message == LEAVES_INT64 and (text := text_at(user_location())):
        message = f"{message}: {text}"
    for condition in _conditions.get():
        holds = ops.logical_or(ops.logical_not(condition()), holds)
    if not element_numbers.are_total():
        ops.check(holds, kind=kind, message=message)
    elif kind in _ELEMENT_HINTS:
        raise UnsupportedOp(
            f"a function of one element raises {kind}{f' ({message})' if message else ''} for some elements",
            location=Location.of_user(),
            hint=_ELEMENT_HINTS[kind],
        )


@contextmanager
def only_where(condition: Callable[[], Any] | None) -> Iterator[None]:
    """The checks that are recorded here hold only where a condition (a function of a 0-d bool value) does; None for
    everywhere."""
    if condition is None:
        yield
        return
    token = _conditions.set((*_conditions.get(), condition))
    try:
        yield
    finally:
        _conditions.reset(token)


_conditions: Final[ContextVar[tuple[Callable[[], Any], ...]]] = ContextVar("jitgraph_conditions", default=())


class Attempt:
    """The body of a ``try`` statement while it is recorded: no graph enters its handlers."""

    def __init__(self, kinds: Callable[[], Any], line: int) -> None:
        self._kinds = kinds
        self._line = line
        self._token: Token[tuple[Attempt, ...]] | None = None

    def __enter__(self) -> None:
        self._token = _attempts.set((*_attempts.get(), self))

    def __exit__(self, *error: object) -> None:
        assert self._token is not None
        _attempts.reset(self._token)

    def require_unhandled(self, kind: str) -> None:
        """ScriptError where a handler takes the error of a check."""
        if issubclass(CHECK_KINDS[kind], self._kinds()):
            raise ScriptError(
                f"{kind} may be raised here when the graph runs, which the try statement at line {self._line} handles",
                hint="ask before (if k == 0: ...), or move the statement out of the try",
            )


_attempts: Final[ContextVar[tuple[Attempt, ...]]] = ContextVar("jitgraph_attempts", default=())


def refuse(what: str, hint: str = WAY) -> NoReturn:
    """ScriptError: ``what`` needs the number itself."""
    raise ScriptError(
        f"{what} needs a Python number that a loop or if on a tensor computes; it is known only when the graph runs",
        hint=hint,
    )


def unsupported(what: str, hint: str = WAY) -> ScriptError:
    """The error for an operation that no graph computes exactly."""
    return ScriptError(f"{what} of a number that is known only when the graph runs", hint=hint)


# ----------------------------------------------------------------------
# Exact arithmetic of Python ints that are int64 values of a graph.
#
# A result is Python's, or a check of the graph raises OverflowError where int64 does not hold it. Between which ends an
# int lies is followed where that is cheap, so that nothing is checked that cannot happen.

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


# ----------------------------------------------------------------------
# The double nearest to the quotient of two int64 values, as ``a / b`` of Python's ints, which rounds once.

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
