"""The functions of Python's ``math`` for numbers that a graph computes, and those of ints that need a loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.ir.op import Op
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.weak_ints import GREATEST, between
from jitgraph.tracing.record import control_flow
from jitgraph.tracing.symbolic import staged_floats, staged_integers
from jitgraph.tracing.symbolic.staged_floats import constant, in_range, is_special
from jitgraph.tracing.symbolic.staged_integers import LEAVES_INT64, Int, of_value, refuse, require
from jitgraph.tracing.symbolic.staged_number import StagedNumber, float_of, int_of, is_number, of_bool, of_float, of_int
from jitgraph.tree import flatten

# ----------------------------------------------------------------------
# Functions of Python's ints that need a loop: powers with a modulus, common divisors, roots, factorials, choices.

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
    return values(control_flow.record_while(test, body, leaves, structure))


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
    divisor = staged_integers.of_constant(0)
    for number in numbers:
        divisor = _common(divisor, number)
    return staged_integers.absolute(divisor)


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
    multiple = staged_integers.of_constant(1)
    for number in numbers:
        divisor = staged_integers.bounded(ops.maximum(gcd(multiple, number).value, _int(1)), 1, GREATEST)
        multiple = staged_integers.absolute(staged_integers.mul(staged_integers.floordiv(multiple, divisor), number))
    return multiple


def isqrt(a: Int) -> Int:
    """The root rounded down: that of the double, which is beside it."""
    _require_not_negative(a, "isqrt() argument must be nonnegative")
    near = ops.cast(ops.sqrt(ops.cast(ops.maximum(a.value, _int(0)), dtype=dtypes.float64)), dtype=dtypes.int64)
    root = ops.minimum(near, _int(_ROOT))
    root = ops.select(ops.gt(ops.mul(root, root), a.value), ops.sub(root, _int(1)), root)
    above = ops.minimum(ops.add(root, _int(1)), _int(_ROOT))
    return staged_integers.bounded(ops.select(ops.le(ops.mul(above, above), a.value), above, root), 0, _ROOT)


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
    return staged_integers.bounded(value, 1, _FACTORIALS[last])


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
    return staged_integers.bounded(ops.select(ops.gt(k.value, n.value), _int(0), result), 0, GREATEST)


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
    return staged_integers.bounded(ops.select(possible, result, _int(0)), 0, GREATEST)


# ----------------------------------------------------------------------
# The functions of Python's ``math`` for numbers that a graph computes.
#
# What is exactly determined (roots, rounding, remainders, sums of ints) is Python's to the bit; transcendental
# functions are the graph's own, within the bounds of docs/accuracy.md. What raises in Python raises when the graph
# runs.

_DOMAIN: Final = "math domain error"


def has_staged(*values: Any) -> bool:
    """Whether one of the values is a staged number, or a sequence that holds one."""
    return any(
        type(x) is StagedNumber or (isinstance(x, list | tuple) and any(type(y) is StagedNumber for y in x))
        for x in values
    )


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of ``math``, of which an argument may be staged."""
    if not has_staged(*args, *kwargs.values()):
        return function(*args, **kwargs)
    staged = _FUNCTIONS.get(function.__name__)
    if staged is None:
        return refuse(f"math.{function.__name__}()")
    for x in args:
        if not is_number(x) and not isinstance(x, list | tuple):
            raise TypeError(f"must be real number, not {type(x).__name__}")
    return staged(*args, **kwargs)


# --- functions of floats --------------------------------------------------------------------------------------------


def _plain(op: Op, *, ranged: bool = False) -> Callable[[Any], StagedNumber]:
    """A function that is defined everywhere; ``ranged`` where a finite number may give too great a one."""

    def apply(x: Any) -> StagedNumber:
        value = float_of(x)
        return of_float(in_range(op(value), (value,)) if ranged else op(value))

    return apply


def _of_domain(op: Op, inside: Callable[[Any], Any], *, ranged: bool = False) -> Callable[[Any], StagedNumber]:
    """A function that raises ValueError of numbers outside its domain."""

    def apply(x: Any) -> StagedNumber:
        value = float_of(x)
        require(ops.logical_or(inside(value), ops.isnan(value)), "ValueError", _DOMAIN)
        return of_float(in_range(op(value), (value,)) if ranged else op(value))

    return apply


def _between(least: float, greatest: float) -> Callable[[Any], Any]:
    return lambda x: ops.logical_and(ops.ge(x, constant(least)), ops.le(x, constant(greatest)))


def _above(limit: float) -> Callable[[Any], Any]:
    return lambda x: ops.gt(x, constant(limit))


def _from(limit: float) -> Callable[[Any], Any]:
    return lambda x: ops.ge(x, constant(limit))


def _finite(x: Any) -> Any:
    return ops.isfinite(x)


def _inside_one(x: Any) -> Any:
    return ops.lt(ops.abs(x), constant(1.0))


def _log(x: Any, base: Any = None) -> StagedNumber:
    """``math.log``, to a base by a division."""
    of_x = _of_domain(ops.log, _above(0.0))(x)
    if base is None:
        return of_x
    of_base = _of_domain(ops.log, _above(0.0))(base)
    return of_float(staged_floats.truediv(of_x.value, of_base.value))


def _pow(x: Any, y: Any) -> StagedNumber:
    base, exponent = float_of(x), float_of(y)
    zero = constant(0.0)
    pole = ops.logical_and(ops.eq(base, zero), ops.logical_and(ops.lt(exponent, zero), ops.isfinite(exponent)))
    is_integral = ops.logical_or(ops.eq(ops.floor(exponent), exponent), is_special(exponent))
    real = ops.logical_or(ops.logical_or(ops.ge(base, zero), is_integral), is_special(base))
    require(ops.logical_and(ops.logical_not(pole), real), "ValueError", _DOMAIN)
    return of_float(in_range(staged_floats.raised(base, exponent), (base, exponent)))


def _fmod(x: Any, y: Any) -> StagedNumber:
    """The remainder with the sign of x."""
    a, b = float_of(x), float_of(y)
    invalid = ops.logical_or(ops.isinf(a), ops.eq(b, constant(0.0)))
    invalid = ops.logical_and(invalid, ops.logical_not(ops.logical_or(ops.isnan(a), ops.isnan(b))))
    require(ops.logical_not(invalid), "ValueError", _DOMAIN)
    rest = ops.remainder(ops.abs(a), ops.abs(b))
    return of_float(staged_floats.with_sign_of(ops.select(ops.isinf(b), ops.abs(a), rest), a))


def _copysign(x: Any, y: Any) -> StagedNumber:
    return of_float(staged_floats.with_sign_of(float_of(x), float_of(y)))


def _modf(x: Any) -> tuple[StagedNumber, StagedNumber]:
    value = float_of(x)
    integral = ops.trunc(value)
    fraction = ops.select(ops.isinf(value), constant(0.0), ops.sub(value, integral))
    return of_float(staged_floats.with_sign_of(fraction, value)), of_float(staged_floats.with_sign_of(integral, value))


def _hypot(*coordinates: Any) -> StagedNumber:
    values = [float_of(x) for x in coordinates]
    if len(values) == 1:
        return of_float(ops.abs(values[0]))
    total = values[0]
    for value in values[1:]:
        total = ops.hypot(total, value)
    return of_float(total)


def _isclose(a: Any, b: Any, *, rel_tol: Any = 1e-09, abs_tol: Any = 0.0) -> StagedNumber:
    x, y, relative, absolute = map(float_of, (a, b, rel_tol, abs_tol))
    zero = constant(0.0)
    sound = ops.logical_and(ops.ge(relative, zero), ops.ge(absolute, zero))
    require(sound, "ValueError", "tolerances must be non-negative")
    distance = ops.abs(ops.sub(x, y))
    near = ops.le(distance, ops.abs(ops.mul(relative, y)))
    near = ops.logical_or(near, ops.le(distance, ops.abs(ops.mul(relative, x))))
    near = ops.logical_or(near, ops.le(distance, absolute))
    infinite = ops.logical_or(ops.isinf(x), ops.isinf(y))
    return of_bool(ops.logical_or(ops.eq(x, y), ops.logical_and(near, ops.logical_not(infinite))))


def _test(op: Op) -> Callable[[Any], StagedNumber]:
    return lambda x: of_bool(op(float_of(x)))


def _ldexp(x: Any, power: Any) -> StagedNumber:
    """``x * 2**power``, by three exact powers of two."""
    value, exponent = float_of(x), int_of(power).value
    limit = 2200
    exponent = ops.maximum(ops.minimum(exponent, _as_int(limit)), _as_int(-limit))
    scaled = value
    for _ in range(3):
        step = ops.maximum(ops.minimum(exponent, _as_int(1000)), _as_int(-1000))
        bits = ops.shift_left(ops.add(step, _as_int(1023)), _as_int(52))
        scaled = ops.mul(scaled, ops.bitcast(bits, dtype=dtypes.float64))
        exponent = ops.sub(exponent, step)
    return of_float(in_range(scaled, (value,)))


def _as_int(number: int) -> Any:
    return staged_integers.of_constant(number).value


# --- functions of ints ----------------------------------------------------------------------------------------------


def _whole(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(x, f"__{name}__")()


def _of_ints(function: Callable[..., Int]) -> Callable[..., StagedNumber]:
    def apply(*numbers: Any) -> StagedNumber:
        for x in numbers:
            if isinstance(x, float):
                raise TypeError("'float' object cannot be interpreted as an integer")
        return of_int(function(*map(int_of, numbers)))

    return apply


def _perm(n: Any, k: Any = None) -> StagedNumber:
    return _of_ints(factorial)(n) if k is None else _of_ints(perm)(n, k)


def _prod(iterable: Any, *, start: Any = 1) -> Any:
    product = start
    for x in iterable:
        product = product * x
    return product


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "acos": _of_domain(ops.acos, _between(-1.0, 1.0)),
    "acosh": _of_domain(ops.acosh, _from(1.0)),
    "asin": _of_domain(ops.asin, _between(-1.0, 1.0)),
    "asinh": _plain(ops.asinh),
    "atan": _plain(ops.atan),
    "atan2": lambda y, x: of_float(ops.atan2(float_of(y), float_of(x))),
    "atanh": _of_domain(ops.atanh, _inside_one),
    "ceil": _whole("ceil"),
    "comb": _of_ints(comb),
    "copysign": _copysign,
    "cos": _of_domain(ops.cos, _finite),
    "cosh": _plain(ops.cosh, ranged=True),
    "degrees": lambda x: of_float(ops.mul(float_of(x), constant(180.0 / math.pi))),
    "erf": _plain(ops.erf),
    "erfc": _plain(ops.erfc),
    "exp": _plain(ops.exp, ranged=True),
    "exp2": _plain(ops.exp2, ranged=True),
    "expm1": _plain(ops.expm1, ranged=True),
    "fabs": _plain(ops.abs),
    "factorial": _of_ints(factorial),
    "floor": _whole("floor"),
    "fmod": _fmod,
    "gcd": _of_ints(gcd),
    "hypot": _hypot,
    "isclose": _isclose,
    "isfinite": _test(ops.isfinite),
    "isinf": _test(ops.isinf),
    "isnan": _test(ops.isnan),
    "isqrt": _of_ints(isqrt),
    "lcm": _of_ints(lcm),
    "ldexp": _ldexp,
    "log": _log,
    "log10": _of_domain(ops.log10, _above(0.0)),
    "log1p": _of_domain(ops.log1p, _above(-1.0)),
    "log2": _of_domain(ops.log2, _above(0.0)),
    "modf": _modf,
    "perm": _perm,
    "pow": _pow,
    "prod": _prod,
    "radians": lambda x: of_float(ops.mul(float_of(x), constant(math.pi / 180.0))),
    "sin": _of_domain(ops.sin, _finite),
    "sinh": _plain(ops.sinh, ranged=True),
    "sqrt": _of_domain(ops.sqrt, _from(0.0)),
    "tan": _of_domain(ops.tan, _finite),
    "tanh": _plain(ops.tanh),
    "trunc": _whole("trunc"),
}
"""Those that a graph computes; others (``frexp``, ``nextafter``, ``gamma``, ...) are refused."""
