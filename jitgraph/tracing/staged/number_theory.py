"""Functions of Python's ints that need a loop: powers with a modulus, common divisors, roots, factorials, choices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.weak_ints import GREATEST, between
from jitgraph.tracing.control import flow
from jitgraph.tracing.staged import integers
from jitgraph.tracing.staged.checks import LEAVES_INT64, require
from jitgraph.tracing.staged.integers import Int, of_value
from jitgraph.tree import flatten

_ROOT: Final = 3037000499  # the greatest int whose square int64 holds
_FACTORIALS: Final = [math.factorial(n) for n in range(21)]  # those that int64 holds


def _int(number: int) -> Any:
    return lifting.constant(number, dtypes.int64)


def _repeat(going: Callable[[list[Any]], Any], turn: Callable[[list[Any]], list[Any]], start: list[Any]) -> list[Any]:
    """The values at the end of ``while going(values): values = turn(values)``."""

    def values(state: Any) -> list[Any]:
        return [tensor.value for tensor in state]

    def test(state: Any) -> Tensor:
        return wrap(going(values(state)))

    def body(state: Any) -> list[Tensor]:
        return [wrap(value) for value in turn(values(state))]

    leaves, structure = flatten([wrap(value) for value in start])
    return values(flow.record_while(test, body, leaves, structure))


def power_modulo(base: Int, exponent: Int, modulus: Int) -> Int:
    """``pow(base, exponent, modulus)`` of an exponent that is not negative, by squaring."""
    require_nonzero(modulus, "ValueError", "pow() 3rd argument cannot be 0")
    if exponent.least < 0:
        message = "a Python int of this loop or branch is inverted by pow() with a modulus, which no graph does"
        require(ops.ge(exponent.value, _int(0)), "ValueError", message)
    if modulus.least < -_ROOT or modulus.greatest > _ROOT:
        require(between(modulus.value, -_ROOT, _ROOT), "OverflowError", LEAVES_INT64)
    size = ops.maximum(ops.abs(modulus.value), _int(1))
    one, two = _int(1), _int(2)

    def turn(state: list[Any]) -> list[Any]:
        result, square, rest, size = state
        odd = ops.eq(ops.remainder(rest, two), one)
        product = ops.remainder(ops.mul(result, square), size)
        square = ops.remainder(ops.mul(square, square), size)
        return [ops.select(odd, product, result), square, ops.floor_divide(rest, two), size]

    start = [ops.remainder(one, size), ops.remainder(base.value, size), ops.maximum(exponent.value, _int(0)), size]
    power = _repeat(lambda state: ops.gt(state[2], _int(0)), turn, start)[0]
    return of_value(ops.remainder(power, modulus.value))


def require_nonzero(a: Int, kind: str, message: str) -> None:
    """A check that ``a`` is not 0."""
    if a.may_be(0):
        require(ops.ne(a.value, _int(0)), kind, message)


def gcd(*numbers: Int) -> Int:
    """The greatest common divisor; 0 of none."""
    divisor = integers.of_constant(0)
    for number in numbers:
        divisor = _common(divisor, number)
    return integers.absolute(divisor)


def _common(a: Int, b: Int) -> Int:
    """A common divisor of the greatest size, by Euclid's algorithm."""
    if a.known == 0:
        return b
    final = _repeat(
        lambda state: ops.ne(state[1], _int(0)), lambda state: [state[1], ops.remainder(*state)], [a.value, b.value]
    )
    return of_value(final[0])


def lcm(*numbers: Int) -> Int:
    """The least common multiple, which is 0 where one is 0; 1 of none."""
    multiple = integers.of_constant(1)
    for number in numbers:
        divisor = integers.bounded(ops.maximum(gcd(multiple, number).value, _int(1)), 1, GREATEST)
        multiple = integers.absolute(integers.mul(integers.floordiv(multiple, divisor), number))
    return multiple


def isqrt(a: Int) -> Int:
    """The root rounded down: that of the double, which is beside it."""
    _require_not_negative(a, "isqrt() argument must be nonnegative")
    near = ops.cast(ops.sqrt(ops.cast(ops.maximum(a.value, _int(0)), dtype=dtypes.float64)), dtype=dtypes.int64)
    root = ops.minimum(near, _int(_ROOT))
    root = ops.select(ops.gt(ops.mul(root, root), a.value), ops.sub(root, _int(1)), root)
    above = ops.minimum(ops.add(root, _int(1)), _int(_ROOT))
    return integers.bounded(ops.select(ops.le(ops.mul(above, above), a.value), above, root), 0, _ROOT)


def _require_not_negative(a: Int, message: str) -> None:
    if a.least < 0:
        require(ops.ge(a.value, _int(0)), "ValueError", message)


def factorial(a: Int) -> Int:
    """The factorial, of at most 20."""
    _require_not_negative(a, "factorial() not defined for negative values")
    last = len(_FACTORIALS) - 1
    if a.greatest > last:
        require(ops.le(a.value, _int(last)), "OverflowError", LEAVES_INT64)
    value = _int(1)
    for number in range(2, min(last, max(a.greatest, 1)) + 1):
        value = ops.select(ops.ge(a.value, _int(number)), _int(_FACTORIALS[number]), value)
    return integers.bounded(value, 1, _FACTORIALS[last])


def comb(n: Int, k: Int) -> Int:
    """How many choices of k of n there are; each factor is divided before it could leave int64."""
    _require_not_negative(n, "n must be a non-negative integer")
    _require_not_negative(k, "k must be a non-negative integer")
    fewer = ops.minimum(k.value, ops.sub(n.value, k.value))

    def turn(state: list[Any]) -> list[Any]:
        number, result, fits, n, fewer = state
        number = ops.add(number, _int(1))
        factor = of_value(ops.add(ops.sub(n, fewer), number))
        shared = gcd(of_value(result), of_value(number)).value
        factor = of_value(ops.floor_divide(factor.value, ops.floor_divide(number, ops.maximum(shared, _int(1)))))
        result = ops.floor_divide(result, ops.maximum(shared, _int(1)))
        most = ops.floor_divide(_int(GREATEST), ops.maximum(factor.value, _int(1)))
        fits = ops.logical_and(fits, ops.le(result, most))
        return [number, ops.mul(result, factor.value), fits, n, fewer]

    start = [_int(0), _int(1), lifting.constant(True, dtypes.bool_), n.value, fewer]
    going = lambda state: ops.logical_and(ops.lt(state[0], state[4]), state[2])
    _, result, fits, *_ = _repeat(going, turn, start)
    require(fits, "OverflowError", LEAVES_INT64)
    return integers.bounded(ops.select(ops.gt(k.value, n.value), _int(0), result), 0, GREATEST)


def perm(n: Int, k: Int) -> Int:
    """How many arrangements of k of n there are."""
    _require_not_negative(n, "n must be a non-negative integer")
    _require_not_negative(k, "k must be a non-negative integer")

    def turn(state: list[Any]) -> list[Any]:
        number, result, fits, n, k = state
        factor = ops.maximum(ops.sub(n, number), _int(1))
        fits = ops.logical_and(fits, ops.le(result, ops.floor_divide(_int(GREATEST), factor)))
        return [ops.add(number, _int(1)), ops.mul(result, factor), fits, n, k]

    start = [_int(0), _int(1), lifting.constant(True, dtypes.bool_), n.value, ops.minimum(k.value, n.value)]
    going = lambda state: ops.logical_and(ops.lt(state[0], state[4]), state[2])
    _, result, fits, *_ = _repeat(going, turn, start)
    possible = ops.le(k.value, n.value)
    require(ops.logical_or(fits, ops.logical_not(possible)), "OverflowError", LEAVES_INT64)
    return integers.bounded(ops.select(possible, result, _int(0)), 0, GREATEST)
