"""The scalar ops over NumPy arrays: the meaning of each, bit for bit, that targets are held to.

A scalar is an array of any shape (one element a lane); arrays broadcast. 16-bit floats compute in float32 and round to
their dtype after every op. NaN payloads and signs have no meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ir.scalar import Comparison, Scalar
from jitgraph.ops.math_functions.functions import FUNCTIONS
from jitgraph.ops.ordered_product import fma32, fma64

Array = NDArray[Any]


_RELATIONS: dict[str, np.ufunc] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def is_half(dtype: DType) -> bool:
    """True for the floats that compute in float32."""
    return dtype in (dtypes.float16, dtypes.bfloat16)


def _wide(x: Array) -> Array:
    return x.astype(np.float32) if is_half(x.dtype) else x


def _array(x: Scalar) -> Array:
    return cast(Array, x)


class NumpyScalars:
    """``ir.scalar.Scalars`` over arrays. Use it under ``np.errstate(all="ignore")``: no op traps."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def _float(self, function: Callable[..., Any], *args: Scalar) -> Array:
        arrays = [_array(arg) for arg in args]
        return np.asarray(function(*map(_wide, arrays))).astype(arrays[0].dtype, copy=False)

    def const(self, value: float | int | bool, dtype: DType | None = None) -> Array:
        return np.asarray(value).astype(self.dtype if dtype is None else dtype)

    def add(self, x: Scalar, y: Scalar) -> Array:
        return self._float(np.add, x, y)

    def sub(self, x: Scalar, y: Scalar) -> Array:
        return self._float(np.subtract, x, y)

    def mul(self, x: Scalar, y: Scalar) -> Array:
        return self._float(np.multiply, x, y)

    def div(self, x: Scalar, y: Scalar) -> Array:
        if dtypes.is_float(x.dtype):
            return self._float(np.divide, x, y)
        return self._integer_division(_array(x), _array(y))[0]

    def rem(self, x: Scalar, y: Scalar) -> Array:
        if dtypes.is_float(x.dtype):
            return self._float(np.remainder, x, y)
        return self._integer_division(_array(x), _array(y))[1]

    def _integer_division(self, x: Array, y: Array) -> tuple[Array, Array]:
        zero = y == 0
        divisor = np.where(zero, y.dtype.type(1), y)
        quotient, remainder = np.floor_divide(x, divisor), np.remainder(x, divisor)
        if dtypes.is_signed(x.dtype):  # the minimum by -1 wraps: the same as negating
            minus = divisor == -1
            quotient, remainder = np.where(minus, 0 - x, quotient), np.where(minus, 0, remainder)
        nothing = x.dtype.type(0)
        return (
            np.where(zero, nothing, quotient).astype(x.dtype, copy=False),
            np.where(zero, nothing, remainder).astype(x.dtype, copy=False),
        )

    def neg(self, x: Scalar) -> Array:
        return np.asarray(np.negative(_array(x)))

    def abs(self, x: Scalar) -> Array:
        return np.asarray(np.abs(_array(x)))

    def min(self, x: Scalar, y: Scalar) -> Array:
        a, b = _array(x), _array(y)
        return np.where((a <= b) | (a != a), a, b)

    def max(self, x: Scalar, y: Scalar) -> Array:
        a, b = _array(x), _array(y)
        return np.where((a >= b) | (a != a), a, b)

    def sqrt(self, x: Scalar) -> Array:
        return self._float(np.sqrt, x)

    def floor(self, x: Scalar) -> Array:
        return self._float(np.floor, x)

    def ceil(self, x: Scalar) -> Array:
        return self._float(np.ceil, x)

    def rint(self, x: Scalar) -> Array:
        return self._float(np.rint, x)

    def trunc(self, x: Scalar) -> Array:
        return self._float(np.trunc, x)

    def fma(self, x: Scalar, y: Scalar, z: Scalar) -> Array:
        if not dtypes.is_float(x.dtype):
            return self.add(self.mul(x, y), z)
        return self._float(fma64 if x.dtype == dtypes.float64 else fma32, x, y, z)

    def cmp(self, relation: Comparison, x: Scalar, y: Scalar) -> Array:
        return np.asarray(_RELATIONS[relation](_array(x), _array(y)))

    def select(self, condition: Scalar, x: Scalar, y: Scalar) -> Array:
        return np.where(_array(condition), _array(x), _array(y))

    def cast(self, x: Scalar, dtype: DType) -> Array:
        a = _array(x)
        if dtypes.is_bool(dtype):
            return np.asarray(a != 0)
        if dtypes.is_float(a.dtype) and dtypes.is_integer(dtype):
            return _saturate(_wide(a), dtype)
        return a.astype(dtype, copy=False)  # to bfloat16 from wider than float32: by way of float32

    def bitcast(self, x: Scalar, dtype: DType) -> Array:
        return _array(x).view(dtype)

    def and_(self, x: Scalar, y: Scalar) -> Array:
        return np.asarray(np.bitwise_and(_array(x), _array(y)))

    def or_(self, x: Scalar, y: Scalar) -> Array:
        return np.asarray(np.bitwise_or(_array(x), _array(y)))

    def xor(self, x: Scalar, y: Scalar) -> Array:
        return np.asarray(np.bitwise_xor(_array(x), _array(y)))

    def not_(self, x: Scalar) -> Array:
        return np.asarray(np.invert(_array(x)))

    def shl(self, x: Scalar, y: Scalar) -> Array:
        count, inside = _shift_count(_array(x), _array(y))
        return np.where(inside, np.left_shift(_array(x), count), x.dtype.type(0)).astype(x.dtype, copy=False)

    def shr(self, x: Scalar, y: Scalar) -> Array:
        """A negative count shifts past the width, as NumPy's does."""
        a = _array(x)
        count, inside = _shift_count(a, _array(y))
        gone = np.where(a < 0, a.dtype.type(-1), a.dtype.type(0)) if dtypes.is_signed(a.dtype) else a.dtype.type(0)
        return np.where(inside, np.right_shift(a, count), gone).astype(a.dtype, copy=False)

    def call(self, function: str, *args: Scalar) -> Array:
        dtype = args[0].dtype
        wide = [_wide(_array(arg)) for arg in args]
        return _array(FUNCTIONS[function](NumpyScalars(wide[0].dtype), *wide)).astype(dtype, copy=False)


def _shift_count(x: Array, y: Array) -> tuple[Array, Array]:
    width = x.dtype.itemsize * 8
    inside = (y >= 0) & (y < width)
    return np.where(inside, y, y.dtype.type(0)).astype(x.dtype, copy=False), inside


def _saturate(x: Array, dtype: DType) -> Array:
    limits = np.iinfo(dtype)
    low, high = x.dtype.type(limits.min), x.dtype.type(limits.max)  # high may round up to a power of two
    above = x >= high if int(high) > limits.max else x > high
    safe = np.where((x >= low) & ~above, x, x.dtype.type(0))
    result = safe.astype(dtype)
    result = np.where(above, dtype.type(limits.max), result)
    return np.where(x < low, dtype.type(limits.min), result).astype(dtype, copy=False)
