"""Elementwise functions beyond the Array API: interpolation, remainders, parts of floats, divisors, closeness.

All are written over the array functions, so they are differentiated, fused and compiled as what they are made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import ml_dtypes

from jitgraph import dtypes, ops
from jitgraph.errors import DTypeError
from jitgraph.ir.builder import build
from jitgraph.ir.types import TensorType
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.complex_numbers import complex as complex_of
from jitgraph.tensor.functions.complex_numbers import imag, real
from jitgraph.tensor.functions.elementwise import (
    abs,
    astype,
    isinf,
    isnan,
    logical_and,
    maximum,
    minimum,
    pow,
    remainder,
    sign,
    signbit,
    trunc,
    where,
)
from jitgraph.tensor.functions.method import method
from jitgraph.tensor.functions.operands import float_tensors
from jitgraph.tensor.functions.reductions import all as all_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


def _promoted(*xs: TensorLike) -> list[Tensor]:
    """The operands as tensors of one dtype and one shape."""
    return [wrap(value) for value in lifting.together(*lifting.operands(*xs))]


@method
def lerp(x: TensorLike, end: TensorLike, weight: TensorLike) -> Tensor:
    """x + weight * (end - x), taken from the nearer end, so that a weight of 1 gives ``end`` itself."""
    start, stop, part = float_tensors(x, end, weight)
    span = stop - start
    return where(abs(part) < 0.5, start + part * span, stop - (1 - part) * span)


@method
def addcmul(x: TensorLike, tensor1: TensorLike, tensor2: TensorLike, *, value: TensorLike = 1) -> Tensor:
    """x + value * tensor1 * tensor2; integers wrap."""
    a, b, c = _promoted(x, tensor1, tensor2)
    return a + value * b * c


@method
def addcdiv(x: TensorLike, tensor1: TensorLike, tensor2: TensorLike, *, value: TensorLike = 1) -> Tensor:
    """x + value * tensor1 / tensor2; integers are computed in float32."""
    a, b, c = float_tensors(x, tensor1, tensor2)
    return a + value * b / c


@method
def heaviside(x: TensorLike, values: TensorLike) -> Tensor:
    """0 below 0, 1 above and ``values`` at 0; NaN for NaN, as in NumPy."""
    a, at_zero = _promoted(x, values)
    step = (sign(a) + 1) * 0.5 if dtypes.is_float(a.dtype) else astype(a > 0, a.dtype)
    return where(a == 0, at_zero, step)


@method
def frac(x: TensorLike) -> Tensor:
    """x - trunc(x), of which 0 is positive; NaN for infinities."""
    (a,) = float_tensors(x)
    integral: Tensor = trunc(a)
    return a - integral


@method
def fmod(x1: TensorLike, x2: TensorLike) -> Tensor:
    """What x1 leaves over when divided by x2, exact and with the sign of x1, as in C; 0 for an integer modulo 0."""
    a, b = _promoted(x1, x2)
    if dtypes.is_float(a.dtype):
        size = abs(b)
        return where(signbit(a), -remainder(-a, size), remainder(a, size))
    left = remainder(a, b)  # with the sign of b
    if not dtypes.is_signed(a.dtype):
        return left
    return where(logical_and(left != 0, (a < 0) != (b < 0)), left - b, left)


def _ignoring_nan(x1: TensorLike, x2: TensorLike, choose: Callable[[Any, Any], Tensor]) -> Tensor:
    a, b = _promoted(x1, x2)
    if not dtypes.is_float(a.dtype):
        return choose(a, b)
    return where(isnan(a), b, where(isnan(b), a, choose(a, b)))


@method
def fmax(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The larger one, the other one where one of both is NaN."""
    return _ignoring_nan(x1, x2, maximum)


@method
def fmin(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The smaller one, the other one where one of both is NaN."""
    return _ignoring_nan(x1, x2, minimum)


@method
def deg2rad(x: TensorLike) -> Tensor:
    """Degrees in radians."""
    return float_tensors(x)[0] * (math.pi / 180)


@method
def rad2deg(x: TensorLike) -> Tensor:
    """Radians in degrees."""
    return float_tensors(x)[0] * (180 / math.pi)


@method
def float_power(x1: TensorLike, x2: TensorLike) -> Tensor:
    """x1 to the power x2, computed in float64 whatever the dtypes."""
    base, exponent = (wrap(value) for value in lifting.together(*lifting.operands(x1, x2, dtype=dtypes.float64)))
    return pow(base, exponent)


# --- parts of floats ------------------------------------------------------------------------------------------------

_BITS: Final = {2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}


def _power_of_two(exponent: Tensor) -> Tensor:
    """2 to each exponent (int64, those of normal numbers) as float64."""
    return wrap(ops.bitcast(((exponent + 1023) << 52).value, dtype=dtypes.float64))


def _scaled(x: Tensor, exponent: Tensor) -> Tensor:
    """x (float64) times 2 to ``exponent`` (int64), rounded once: a step that loses bits is the last one."""
    for _ in range(2):
        up, down = exponent > 1023, exponent < -1022
        step = where(up, 1023, where(down, -969, 0))  # 2^-1022 * 2^53: what stays is no subnormal number
        x, exponent = x * _power_of_two(step), exponent - step
    return x * _power_of_two(maximum(minimum(exponent, 1023), -1022))


@method
def ldexp(x1: TensorLike, x2: TensorLike) -> Tensor:
    """x1 times 2 to the power x2 (integers), rounded once where it overflows or becomes subnormal."""
    if not dtypes.is_integer(lifting.dtype_of(x2)):
        raise DTypeError("ldexp takes integers as exponents", hint="x * jg.exp2(y) takes floats")
    dtype = lifting.dtype_of(x1) if dtypes.is_float(lifting.dtype_of(x1)) else dtypes.float32
    x, exponent = lifting.together(lifting.value_of(x1, dtype), lifting.positions(lifting.value_of(x2)))
    limited = maximum(minimum(wrap(exponent), 2200), -2200)
    return astype(_scaled(wrap(lifting.cast(x, dtypes.float64)), limited), dtype)


@method
def frexp(x: TensorLike) -> tuple[Tensor, Tensor]:
    """The mantissa of x, of a size in [0.5, 1), and the exponent (int32) of 2; (x, 0) for 0, infinities and NaN."""
    (a,) = float_tensors(x)
    wide = astype(a, dtypes.float64)
    small = abs(wide) < 2.0**-1022
    bits = wrap(ops.bitcast(where(small, wide * 2.0**54, wide).value, dtype=dtypes.int64))
    exponent = ((bits >> 52) & 2047) - 1022 - where(small, 54, 0)
    plain = (wide == 0) | isinf(wide) | isnan(wide)
    exponent = where(plain, 0, exponent)
    return astype(_scaled(wide, -exponent), a.dtype), astype(exponent, dtypes.int32)


# --- integers -------------------------------------------------------------------------------------------------------


@method
def gcd(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The greatest common divisor of integers, not negative; that of 0 and 0 is 0."""
    a, b = _promoted(x1, x2)
    if not dtypes.is_integer(a.dtype):
        raise DTypeError(f"gcd takes integers, not {a.value.type}")
    type = TensorType(a.dtype, a.value.type.shape)
    axes = tuple(range(type.ndim))

    def unfinished(x: Any, y: Any) -> Any:
        return ops.reduce_max(ops.ne(y, ops.zeros_like(y)), axes=axes) if axes else ops.ne(y, ops.zeros_like(y))

    def step(x: Any, y: Any) -> tuple[Any, Any]:
        done = ops.eq(y, ops.zeros_like(y))
        return ops.select(done, x, y), ops.select(done, y, ops.remainder(x, y))

    regions = (build(unfinished, [type, type], "unfinished"), build(step, [type, type], "euclid"))
    divisor, _ = ops.while_(a.value, b.value, regions=regions, num_carries=2)
    return abs(wrap(divisor))


@method
def lcm(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The least common multiple of integers, not negative; 0 where one of both is 0; it wraps."""
    a, b = _promoted(x1, x2)
    return abs(a // gcd(a, b) * b)


# --- closeness ------------------------------------------------------------------------------------------------------


@method
def nan_to_num(x: TensorLike, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """x with NaN replaced by ``nan`` and infinities by ``posinf`` and ``neginf``, or by the greatest finite numbers."""
    a = wrap(lifting.value_of(x))
    if dtypes.is_complex(a.dtype):
        return complex_of(*(nan_to_num(part, nan, posinf, neginf) for part in (real(a), imag(a))))
    if not dtypes.is_float(a.dtype):
        return a
    greatest = float(ml_dtypes.finfo(a.dtype).max)  # type: ignore[no-untyped-call]
    high, low = greatest if posinf is None else posinf, -greatest if neginf is None else neginf
    return where(isnan(a), nan, where(a == math.inf, high, where(a == -math.inf, low, a)))


@method
def isclose(
    x1: TensorLike, x2: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Whether |x1 - x2| <= atol + rtol * |x2|; infinities are close to themselves, NaN is with ``equal_nan``."""
    a, b = _promoted(x1, x2)
    if not dtypes.is_inexact(a.dtype):
        if rtol == 0 and atol == 0:
            return a == b
        a, b = astype(a, dtypes.float64), astype(b, dtypes.float64)
    unbounded = isinf(a) | isinf(b)
    near = (abs(a - b) <= atol + rtol * abs(b)) & ~unbounded
    close: Tensor = near | (a == b)
    return close | (isnan(a) & isnan(b)) if equal_nan else close


@method
def allclose(
    x1: TensorLike, x2: TensorLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Whether ``isclose`` holds everywhere, as a tensor of rank 0, which a trace can hold and ``bool()`` reads."""
    return all_of(isclose(x1, x2, rtol, atol, equal_nan))


@method
def array_equal(x1: TensorLike, x2: TensorLike, equal_nan: bool = False) -> Tensor:
    """Whether shapes and all elements are the same, as a tensor of rank 0; PyTorch's ``equal``."""
    a, b = wrap(lifting.value_of(x1)), wrap(lifting.value_of(x2))
    if a.value.type.shape != b.value.type.shape:
        return wrap(lifting.constant(False, dtypes.bool_))
    same = a == b
    if equal_nan and dtypes.is_inexact(a.dtype) and dtypes.is_inexact(b.dtype):
        same = same | (isnan(a) & isnan(b))
    return all_of(same)
