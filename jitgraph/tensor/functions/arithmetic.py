"""Arithmetic beyond the Array API's: interpolation, sums of products, remainders, powers and roots, parts of floats.

All are written over the array functions, so they are differentiated, fused and compiled as what they are made of.
"""

from __future__ import annotations

import math

from jitgraph import dtypes, ops
from jitgraph.errors import DTypeError
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.elementwise import (
    abs,
    astype,
    copysign,
    exp2,
    floor_divide,
    isfinite,
    isinf,
    isnan,
    log1p,
    logical_and,
    maximum,
    minimum,
    pow,
    remainder,
    signbit,
    trunc,
    where,
)
from jitgraph.tensor.functions.method import method
from jitgraph.tensor.functions.operands import float_tensors, in_float64, promoted
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


@method
def lerp(x: TensorLike, end: TensorLike, weight: TensorLike) -> Tensor:
    """x + weight * (end - x), taken from the nearer end, so that a weight of 1 gives ``end`` itself."""
    start, stop, part = float_tensors(x, end, weight)
    span = stop - start
    return where(abs(part) < 0.5, start + part * span, stop - (1 - part) * span)


@method
def addcmul(x: TensorLike, tensor1: TensorLike, tensor2: TensorLike, *, value: TensorLike = 1) -> Tensor:
    """x + value * tensor1 * tensor2; integers wrap."""
    a, b, c = promoted(x, tensor1, tensor2)
    return a + value * b * c


@method
def addcdiv(x: TensorLike, tensor1: TensorLike, tensor2: TensorLike, *, value: TensorLike = 1) -> Tensor:
    """x + value * tensor1 / tensor2; integers are computed in float32."""
    a, b, c = float_tensors(x, tensor1, tensor2)
    return a + value * b / c


@method
def fmod(x1: TensorLike, x2: TensorLike) -> Tensor:
    """The exact remainder of x1 / x2 with the sign of x1, as in C; 0 for an integer modulo 0."""
    a, b = promoted(x1, x2)
    if dtypes.is_float(a.dtype):
        size = abs(b)
        return where(signbit(a), -remainder(-a, size), remainder(a, size))
    left = remainder(a, b)  # with the sign of b
    if not dtypes.is_signed(a.dtype):
        return left
    return where(logical_and(left != 0, (a < 0) != (b < 0)), left - b, left)


@method
def divmod(x1: TensorLike, x2: TensorLike) -> tuple[Tensor, Tensor]:
    """x1 // x2 and x1 % x2."""
    return floor_divide(x1, x2), remainder(x1, x2)


@method
def float_power(x1: TensorLike, x2: TensorLike) -> Tensor:
    """x1 to the power x2, computed in float64 whatever the dtypes."""
    base, exponent = (wrap(value) for value in lifting.together(*lifting.operands(x1, x2, dtype=dtypes.float64)))
    return pow(base, exponent)


@method
def cbrt(x: TensorLike) -> Tensor:
    """The real cube root, which keeps the sign, that of zeros as well. Integers and bools in float32.

    DTypeError for complex numbers, which have three.
    """
    if dtypes.is_complex(lifting.dtype_of(x)):
        raise DTypeError("cbrt of complex numbers", hint="x ** (1 / 3) is the principal root")
    return in_float64(_cbrt, x)


def _cbrt(x: Tensor) -> Tensor:
    below = signbit(x)
    size = where(below, -x, x)
    root = pow(size, 1 / 3)
    rough, goal = (wrap(ops.stop_gradient(each.value)) for each in (root, size))
    step = (rough * rough * rough - goal) / (3 * rough * rough)  # one of Newton's, which rounds to the last place
    root = root - where(isfinite(step), step, 0.0)
    return where(below, -root, root)


@method
def logaddexp2(x1: TensorLike, x2: TensorLike) -> Tensor:
    """log2(2**x1 + 2**x2), without overflow. Integers and bools are computed in float32."""
    a, b = float_tensors(x1, x2)
    same = a == b  # infinities of one sign among them
    u, v = where(same, 0.0, a), where(same, 0.0, b)
    return where(same, (a * 0.5 + b * 0.5) + 1, maximum(u, v) + log1p(exp2(-abs(u - v))) / math.log(2))


@method
def deg2rad(x: TensorLike) -> Tensor:
    """Converts degrees to radians."""
    return float_tensors(x)[0] * (math.pi / 180)


@method
def rad2deg(x: TensorLike) -> Tensor:
    """Converts radians to degrees."""
    return float_tensors(x)[0] * (180 / math.pi)


# --- parts of floats ------------------------------------------------------------------------------------------------


@method
def frac(x: TensorLike) -> Tensor:
    """x - trunc(x), of which 0 is positive; NaN for infinities."""
    (a,) = float_tensors(x)
    integral: Tensor = trunc(a)
    return a - integral


@method
def modf(x: TensorLike) -> tuple[Tensor, Tensor]:
    """The fractional and the integral part, both with the sign of x, as in NumPy."""
    (a,) = float_tensors(x)
    integral = trunc(a)
    return copysign(where(isinf(a), 0.0, a - integral), a), integral


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
