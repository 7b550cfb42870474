"""Arithmetic, mathematical functions and activations."""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np

from jitgraph import dtypes, ops
from jitgraph.errors import UnsupportedOp
from jitgraph.nn import functional as F
from jitgraph.onnx import values
from jitgraph.onnx.ops import on_host
from jitgraph.onnx.registry import define
from jitgraph.tensor import Tensor, wrap
from jitgraph.tensor import functions as fn

# ----------------------------------------------------------------------
# Functions of one operand that jitgraph has as they are.

for _name, _function in {
    "Abs": fn.abs,
    "Acos": fn.acos,
    "Acosh": fn.acosh,
    "Asin": fn.asin,
    "Asinh": fn.asinh,
    "Atan": fn.atan,
    "Atanh": fn.atanh,
    "Cos": fn.cos,
    "Cosh": fn.cosh,
    "Erf": fn.erf,
    "Exp": fn.exp,
    "HardSwish": F.hardswish,
    "Log": fn.log,
    "Mish": F.mish,
    "Neg": fn.negative,
    "Reciprocal": fn.reciprocal,
    "Relu": fn.relu,
    "Round": fn.round,
    "Sigmoid": fn.sigmoid,
    "Sign": fn.sign,
    "Sin": fn.sin,
    "Sinh": fn.sinh,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
    "Tan": fn.tan,
    "Tanh": fn.tanh,
}.items():
    _host = {
        "Abs": on_host.exactly(abs),
        "Neg": on_host.exactly(operator.neg),
        "Sign": on_host.exactly(lambda x: np.sign(x) if isinstance(x, np.ndarray) else (x > 0) - (x < 0)),
    }.get(_name)

    def _unary(x: Any, _own: Any = _function, **old: Any) -> Any:  # consumed_inputs of the first versions is ignored
        return _own(x)

    define(_name, on_host=_host)(_unary)

define("Ceil", on_host=lambda x: np.ceil(x))(lambda x, **old: fn.ceil(x))
define("Floor", on_host=lambda x: np.floor(x))(lambda x, **old: fn.floor(x))
define("Sqrt", on_host=lambda x: np.sqrt(x))(lambda x, **old: fn.sqrt(x))


# ----------------------------------------------------------------------
# Arithmetic of two operands; before version 7 they broadcast where an attribute says so.


def _aligned(x: Any, y: Any, broadcast: int, axis: int | None) -> Any:
    """The second operand as the first versions broadcast it: its axes lie at ``axis`` of the first one's."""
    if not broadcast or axis is None or y.ndim == 0:
        return y
    axis += x.ndim if axis < 0 else 0
    return fn.reshape(y, (*y.shape, *[1] * (x.ndim - axis - y.ndim)))


def _quotient(x: Any, y: Any) -> Any:
    if not dtypes.is_integer(x.dtype):
        return fn.divide(x, y)
    return fn.floor_divide(fn.subtract(x, fn.fmod(x, y)), y)  # towards zero


def _power(x: Any, y: Any) -> Any:
    if x.dtype == y.dtype:
        return fn.pow(x, y)
    if dtypes.is_integer(x.dtype) and dtypes.is_integer(y.dtype):
        return fn.pow(x, fn.astype(y, x.dtype))
    return fn.astype(fn.pow(x, y), x.dtype)


_ARITHMETIC: dict[str, tuple[Any, Any]] = {
    "Add": (fn.add, operator.add),
    "Sub": (fn.subtract, operator.sub),
    "Mul": (fn.multiply, operator.mul),
    "Div": (_quotient, on_host.quotient),
    "Pow": (_power, on_host.power),
}
for _name, (_function, _exact) in _ARITHMETIC.items():

    def _binary(x: Any, y: Any, _own: Any = _function) -> Any:
        return _own(x, y)

    def _old_binary(
        x: Any, y: Any, broadcast: int = 0, axis: int | None = None, _own: Any = _function, **old: Any
    ) -> Any:
        return _own(x, _aligned(x, y, broadcast, axis))

    define(_name, since=7, on_host=on_host.exactly(_exact))(_binary)
    define(_name)(_old_binary)


@define("PRelu")
def prelu(x: Any, slope: Any, **old: Any) -> Any:
    if slope.ndim == 1 and x.ndim > 1 and slope.shape[0] == x.shape[1] and slope.shape[0] != x.shape[-1]:
        slope = fn.reshape(slope, (-1, *[1] * (x.ndim - 2)))  # of the first versions, one for each channel
    return fn.where(fn.less(x, 0), fn.multiply(x, slope), x)


define("PRelu", since=7)(lambda x, slope: fn.where(fn.less(x, 0), fn.multiply(x, slope), x))


@define("Mod", on_host=lambda x, y, fmod: on_host.exactly(on_host.rest if fmod else on_host.modulo)(x, y))
def mod(x: Any, y: Any, fmod: int) -> Any:
    return fn.fmod(x, y) if fmod else fn.remainder(x, y)


def _of_all(function: Any) -> Any:
    return lambda *operands, **old: reduce(function, operands)


define("Sum")(_of_all(fn.add))
define("Mean")(lambda *operands, **old: fn.divide(reduce(fn.add, operands), len(operands)))
define("Max", on_host=lambda *operands, **old: reduce(on_host.exactly(_greater), operands))(_of_all(fn.maximum))
define("Min", on_host=lambda *operands, **old: reduce(on_host.exactly(_smaller), operands))(_of_all(fn.minimum))


def _greater(x: Any, y: Any) -> Any:
    return np.maximum(x, y) if isinstance(x, np.ndarray) else max(x, y)


def _smaller(x: Any, y: Any) -> Any:
    return np.minimum(x, y) if isinstance(x, np.ndarray) else min(x, y)


# ----------------------------------------------------------------------
# Limits.


@define("Clip", since=11)
def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None:
        x = fn.maximum(x, low)
    return x if high is None else fn.minimum(x, high)  # the lower bound does not win where it is the greater one


@define("Clip")
def clip_by_attributes(
    x: Any, min: float = -3.4028234663852886e38, max: float = 3.4028234663852886e38, **old: Any
) -> Any:
    return fn.clip(x, min, max)


# ----------------------------------------------------------------------
# Activations with attributes.

define("LeakyRelu")(lambda x, alpha, **old: F.leaky_relu(x, alpha))
define("Elu")(lambda x, alpha, **old: F.elu(x, alpha))
define("Celu")(lambda x, alpha: F.celu(x, alpha))
define("ThresholdedRelu")(lambda x, alpha: fn.where(fn.greater(x, alpha), x, fn.zeros_like(x)))
define("HardSigmoid")(lambda x, alpha, beta, **old: fn.clip(fn.add(fn.multiply(x, alpha), beta), 0, 1))
define("Gelu")(lambda x, approximate: F.gelu(x, approximate=approximate))
define("Swish")(lambda x, alpha: fn.multiply(x, fn.sigmoid(fn.multiply(x, alpha))))


@define("Selu")
def selu(x: Any, alpha: float, gamma: float, **old: Any) -> Any:
    negative = fn.multiply(fn.expm1(fn.minimum(x, 0)), gamma * alpha)
    return fn.where(fn.greater(x, 0), fn.multiply(x, gamma), negative)


@define("Shrink")
def shrink(x: Any, bias: float, lambd: float) -> Any:
    low = fn.where(fn.less(x, -lambd), fn.astype(fn.add(x, bias), x.dtype), fn.zeros_like(x))
    return fn.where(fn.greater(x, lambd), fn.astype(fn.subtract(x, bias), x.dtype), low)


def _along(x: Any, axis: int, function: Any) -> Any:
    """Of x as a matrix, as the first versions see it: the axes before ``axis``, and the rest."""
    shape = x.shape
    axis += x.ndim if axis < 0 else 0
    rows = fn.reshape(x, (*shape[:axis], -1)) if axis < x.ndim else fn.reshape(x, (*shape, 1))
    return fn.reshape(function(rows, -1), shape)


def _hardmax(x: Any, axis: int) -> Any:
    index = fn.argmax(x, axis=axis, keepdims=True)
    axis += x.ndim if axis < 0 else 0
    numbers = fn.reshape(fn.arange(x.shape[axis]), (-1, *[1] * (x.ndim - axis - 1)))
    return fn.astype(fn.equal(numbers, index), x.dtype)


for _name, _function in {"Softmax": F.softmax, "LogSoftmax": F.log_softmax, "Hardmax": _hardmax}.items():

    def _new_softmax(x: Any, axis: int, _own: Any = _function) -> Any:
        return _own(x, axis)

    def _old_softmax(x: Any, axis: int, _own: Any = _function) -> Any:
        return _along(x, axis, _own)

    define(_name, since=13)(_new_softmax)
    define(_name)(_old_softmax)


# ----------------------------------------------------------------------
# Other dtypes.


def cast_to(value: Any, dtype: np.dtype[Any], saturate: int = 1, round_mode: str = "up", is_shape: bool = False) -> Any:
    """A value in another dtype; dtypes that tensors lack are computed on the host."""
    own = values.dtype_of(value)
    if values.is_text(value) or dtype.kind == "O" or own in values.STORED or dtype in values.STORED:
        return _cast_on_host(values.host(value, "a cast to a dtype that tensors lack"), dtype, saturate, round_mode)
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "O":
            return value if dtype.kind in "iu" else _sizes_as(value, dtype, is_shape)
        if dtype.kind in "iu" and (value.dtype.kind == "f" or value.dtype.name == "bfloat16"):
            return _whole(value, np.iinfo(dtype)).astype(dtype)
        with np.errstate(all="ignore"):
            return value.astype(dtype)
    return fn.astype(value, dtype)


def _whole(value: Any, limits: Any) -> Any:
    """Floats towards zero and within limits, NaN as 0, exactly: what ``astype`` of tensors gives."""
    numbers = [0 if x != x else x if abs(x) == math.inf else int(x) for x in map(float, value.flat)]
    own = [int(max(limits.min, min(limits.max, number))) for number in numbers]
    return np.array(own, object).reshape(value.shape)


def _sizes_as(value: Any, dtype: np.dtype[Any], is_shape: bool) -> Any:
    """Symbolic sizes as floats: a tensor, so that they stay free; their values where shapes are computed of them."""
    if not is_shape and any(values.is_free(size) for size in value.flat):
        return fn.astype(values.tensor(value), dtype)
    return np.array([float(size) for size in value.flat], np.float64).reshape(value.shape).astype(dtype)


def _cast_on_host(array: Any, dtype: np.dtype[Any], saturate: int, round_mode: str) -> Any:
    own = array.dtype
    if values.is_text(array):
        if dtype.kind == "O":
            return array
        numbers = [float(text) if dtype.kind not in "iu" else int(float(text)) for text in array.flat]
        return np.array(numbers, np.float64 if dtype.kind not in "iu" else np.int64).reshape(array.shape).astype(dtype)
    if dtype.kind == "O":
        texts = np.empty(array.shape, object)
        for i, number in enumerate(array.flat):
            texts.flat[i] = _text(number)
        return texts
    if own in values.STORED and dtype not in values.STORED:
        return array.astype(np.float32).astype(dtype)
    return stored(array, dtype, saturate, round_mode)


def _text(number: Any) -> str:
    if isinstance(number, np.floating):
        if np.isnan(number):
            return "NaN"
        if np.isinf(number):
            return "INF" if number > 0 else "-INF"
        return np.format_float_positional(number, trim="0") if number == int(number) else str(number)
    return str(number)


def stored(array: Any, dtype: np.dtype[Any], saturate: int = 1, round_mode: str = "up") -> Any:
    """An array in a dtype for storage: float8 saturates where it is asked to, and narrow integers wrap."""
    name = dtype.name
    with np.errstate(all="ignore"):
        if name in ("int4", "uint4", "int2", "uint2"):
            bits = int(name[-1])
            numbers = np.trunc(array.astype(np.float64)) if array.dtype.kind == "f" else array.astype(np.int64)
            wrapped = np.asarray(numbers).astype(np.int64) & ((1 << bits) - 1)
            if name[0] == "i":
                wrapped = np.where(wrapped >= 1 << (bits - 1), wrapped - (1 << bits), wrapped)
            return wrapped.astype(np.int8).astype(dtype)
        wide = array.astype(np.float32)
        if name == "float4_e2m1fn":
            return wide.astype(dtype)
        if name == "float8_e8m0fnu":
            return _exponents(wide, dtype, saturate, round_mode)
        result = wide.astype(dtype)
        if not saturate:
            return result
        greatest = float(ml_dtypes.finfo(dtype).max)
        beyond = np.abs(wide) > greatest
        limited = np.clip(wide, -greatest, greatest).astype(dtype)
        return np.where(beyond & ~np.isnan(wide), limited, result).astype(dtype)


def _exponents(wide: Any, dtype: np.dtype[Any], saturate: int, round_mode: str) -> Any:
    """Powers of two: the exponents of floats, rounded as asked."""
    bits = np.abs(wide).astype(np.float32).view(np.uint32)
    exponents, rest = (bits >> 23).astype(np.int64), bits & 0x7FFFFF
    if round_mode == "up":
        raised = exponents + (rest > 0)
    elif round_mode == "nearest":
        raised = exponents + (rest >= 0x400000)
    else:
        raised = exponents
    finite = np.isfinite(wide)
    limited = np.clip(raised, 0, 254) if saturate else np.where(raised > 254, 255, raised)
    special = np.where(np.isnan(wide), 255, 254 if saturate else 255)
    return np.where(finite, limited, special).astype(np.uint8).view(dtype)


@define("Cast", raw=True)
def cast(x: Any, to: Any, saturate: int = 1, round_mode: str = "up", is_shape: bool = False) -> Any:
    number = values.dtype_of_number(to) if isinstance(to, int) else values.dtype_of_number(_NAMES[to.upper()])
    return cast_to(x, number, saturate, round_mode, is_shape)


_NAMES = {
    "FLOAT": 1,
    "UINT8": 2,
    "INT8": 3,
    "UINT16": 4,
    "INT16": 5,
    "INT32": 6,
    "INT64": 7,
    "STRING": 8,
    "BOOL": 9,
} | {
    "FLOAT16": 10,
    "DOUBLE": 11,
    "UINT32": 12,
    "UINT64": 13,
}
"""The dtypes as the first version of Cast names them."""


@define("CastLike", raw=True)
def cast_like(x: Any, like: Any, saturate: int = 1, round_mode: str = "up") -> Any:
    return cast_to(x, values.TEXT if values.is_text(like) else values.dtype_of(like), saturate, round_mode)


@define("BitCast", raw=True)
def bit_cast(x: Any, to: int) -> Any:
    dtype = values.dtype_of_number(to)
    own = values.dtype_of(x)
    if own.itemsize != dtype.itemsize or "O" in (own.kind, dtype.kind):
        raise UnsupportedOp(f"BitCast of {own} to {dtype}")
    if own.kind == "b" and isinstance(x, Tensor):
        x, own = fn.astype(x, np.uint8), np.dtype(np.uint8)
    if isinstance(x, Tensor) and dtype not in values.STORED and not {own.kind, dtype.kind} & {"b", "c"}:
        return wrap(ops.bitcast(x.value, dtype=dtypes.canonical(dtype)))
    array = values.host(x, "a cast of bits")
    return np.ascontiguousarray(array).view(dtype).reshape(array.shape)
