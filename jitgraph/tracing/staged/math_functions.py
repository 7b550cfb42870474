"""The functions of Python's ``math`` for numbers that a graph computes.

What is exactly determined (roots, rounding, remainders, sums of ints) is Python's to the bit; transcendental functions
are the graph's own, within the bounds of docs/accuracy.md. What raises in Python raises when the graph runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.ir.op import Op
from jitgraph.tracing.staged import floats, integers, number_theory
from jitgraph.tracing.staged.checks import refuse, require
from jitgraph.tracing.staged.floats import constant, in_range, is_special
from jitgraph.tracing.staged.integers import Int
from jitgraph.tracing.staged.number import (
    StagedNumber,
    float_of,
    int_of,
    is_number,
    of_bool,
    of_float,
    of_int,
)

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
    return of_float(floats.truediv(of_x.value, of_base.value))


def _pow(x: Any, y: Any) -> StagedNumber:
    base, exponent = float_of(x), float_of(y)
    zero = constant(0.0)
    pole = ops.logical_and(ops.eq(base, zero), ops.logical_and(ops.lt(exponent, zero), ops.isfinite(exponent)))
    is_integral = ops.logical_or(ops.eq(ops.floor(exponent), exponent), is_special(exponent))
    real = ops.logical_or(ops.logical_or(ops.ge(base, zero), is_integral), is_special(base))
    require(ops.logical_and(ops.logical_not(pole), real), "ValueError", _DOMAIN)
    return of_float(in_range(floats.raised(base, exponent), (base, exponent)))


def _fmod(x: Any, y: Any) -> StagedNumber:
    """The remainder with the sign of x."""
    a, b = float_of(x), float_of(y)
    invalid = ops.logical_or(ops.isinf(a), ops.eq(b, constant(0.0)))
    invalid = ops.logical_and(invalid, ops.logical_not(ops.logical_or(ops.isnan(a), ops.isnan(b))))
    require(ops.logical_not(invalid), "ValueError", _DOMAIN)
    rest = ops.remainder(ops.abs(a), ops.abs(b))
    return of_float(floats.with_sign_of(ops.select(ops.isinf(b), ops.abs(a), rest), a))


def _copysign(x: Any, y: Any) -> StagedNumber:
    return of_float(floats.with_sign_of(float_of(x), float_of(y)))


def _modf(x: Any) -> tuple[StagedNumber, StagedNumber]:
    value = float_of(x)
    integral = ops.trunc(value)
    fraction = ops.select(ops.isinf(value), constant(0.0), ops.sub(value, integral))
    return of_float(floats.with_sign_of(fraction, value)), of_float(floats.with_sign_of(integral, value))


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
    exponent = ops.maximum(ops.minimum(exponent, _int(limit)), _int(-limit))
    scaled = value
    for _ in range(3):
        step = ops.maximum(ops.minimum(exponent, _int(1000)), _int(-1000))
        bits = ops.shift_left(ops.add(step, _int(1023)), _int(52))
        scaled = ops.mul(scaled, ops.bitcast(bits, dtype=dtypes.float64))
        exponent = ops.sub(exponent, step)
    return of_float(in_range(scaled, (value,)))


def _int(number: int) -> Any:
    return integers.of_constant(number).value


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
    return _of_ints(number_theory.factorial)(n) if k is None else _of_ints(number_theory.perm)(n, k)


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
    "comb": _of_ints(number_theory.comb),
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
    "factorial": _of_ints(number_theory.factorial),
    "floor": _whole("floor"),
    "fmod": _fmod,
    "gcd": _of_ints(number_theory.gcd),
    "hypot": _hypot,
    "isclose": _isclose,
    "isfinite": _test(ops.isfinite),
    "isinf": _test(ops.isinf),
    "isnan": _test(ops.isnan),
    "isqrt": _of_ints(number_theory.isqrt),
    "lcm": _of_ints(number_theory.lcm),
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
