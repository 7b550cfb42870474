"""Comparisons, logic, bits, and choices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from jitgraph.onnx import values
from jitgraph.onnx.ops import on_host
from jitgraph.onnx.ops.elementwise import _aligned
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn

for _name, (_function, _exact) in {
    "Equal": (fn.equal, operator.eq),
    "Greater": (fn.greater, operator.gt),
    "GreaterOrEqual": (fn.greater_equal, operator.ge),
    "Less": (fn.less, operator.lt),
    "LessOrEqual": (fn.less_equal, operator.le),
    "And": (fn.logical_and, operator.and_),
    "Or": (fn.logical_or, operator.or_),
    "Xor": (fn.logical_xor, operator.xor),
}.items():

    def _comparison(x: Any, y: Any, _own: Any = _function) -> Any:
        return _own(x, y)

    def _old_comparison(x: Any, y: Any, broadcast: int = 0, axis: int | None = None, _own: Any = _function) -> Any:
        return _own(x, _aligned(x, y, broadcast, axis))

    define(_name, since=7, on_host=on_host.as_bools(_exact))(_comparison)
    define(_name)(_old_comparison)

define("Not", on_host=lambda x: np.logical_not(x))(fn.logical_not)
define("IsNaN")(fn.isnan)
define("BitwiseAnd", on_host=lambda x, y: x & y)(fn.bitwise_and)
define("BitwiseOr", on_host=lambda x, y: x | y)(fn.bitwise_or)
define("BitwiseXor", on_host=lambda x, y: x ^ y)(fn.bitwise_xor)
define("BitwiseNot", on_host=lambda x: ~x)(fn.bitwise_invert)


@define("BitShift")
def bit_shift(x: Any, y: Any, direction: str) -> Any:
    return fn.bitwise_left_shift(x, y) if direction == "LEFT" else fn.bitwise_right_shift(x, y)


@define("IsInf")
def is_inf(x: Any, detect_negative: int, detect_positive: int) -> Any:
    if detect_negative and detect_positive:
        return fn.isinf(x)
    if detect_negative:
        return fn.isneginf(x)
    return fn.isposinf(x) if detect_positive else fn.zeros(x.shape, dtype=bool)


def _where_on_host(condition: Any, x: Any, y: Any) -> Any:
    if x.dtype.kind == "O" or y.dtype.kind == "O":
        condition, x, y = np.broadcast_arrays(condition, x.astype(object), y.astype(object))
        result = np.empty(x.shape, object)
        for i in range(result.size):
            result.flat[i] = x.flat[i] if condition.flat[i] else y.flat[i]
        return result if values.is_text(result) else on_host.narrowed(result, np.dtype(np.int64))
    return np.where(condition, x, y)


define("Where", on_host=_where_on_host)(fn.where)


@define("Identity", raw=True)
def identity(x: Any) -> Any:
    return x
