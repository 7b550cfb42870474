"""Bitwise operations on integers and bool, and shifts, which are total."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph.ir.op import Op
from jitgraph.ops import rules
from jitgraph.ops.define import elementwise
from jitgraph.ops.numeric import Array

bitwise_not: Op = elementwise(
    "bitwise_not",
    np.invert,
    accepts=rules.BITS,
    scalar=lambda s, x: s.not_(x),
    onnx="BitwiseNot",
    doc="Logical not for bool.",
)
bitwise_and: Op = elementwise(
    "bitwise_and",
    np.bitwise_and,
    arity=2,
    accepts=rules.BITS,
    scalar=lambda s, x, y: s.and_(x, y),
    traits=["commutative"],
    onnx="BitwiseAnd",
    doc="Bits that are set in both.",
)
bitwise_or: Op = elementwise(
    "bitwise_or",
    np.bitwise_or,
    arity=2,
    accepts=rules.BITS,
    scalar=lambda s, x, y: s.or_(x, y),
    traits=["commutative"],
    onnx="BitwiseOr",
    doc="Bits that are set in either.",
)
bitwise_xor: Op = elementwise(
    "bitwise_xor",
    np.bitwise_xor,
    arity=2,
    accepts=rules.BITS,
    scalar=lambda s, x, y: s.xor(x, y),
    traits=["commutative"],
    onnx="BitwiseXor",
    doc="Bits that are set in one alone.",
)


def _in_range(x: Array, count: Array) -> tuple[Any, Array]:
    """Where the shift count lies within the width, and the count with the others replaced by 0."""
    inside = (count >= 0) & (count < x.dtype.itemsize * 8)
    return inside, np.where(inside, count, count.dtype.type(0))


def _shift_left(x: Array, count: Array) -> Any:
    inside, safe = _in_range(x, count)
    return np.where(inside, np.left_shift(x, safe), x.dtype.type(0))


def _shift_right(x: Array, count: Array) -> Any:
    inside, safe = _in_range(x, count)
    past = np.where(x < 0, ~x.dtype.type(0), x.dtype.type(0))
    return np.where(inside, np.right_shift(x, safe), past)


shift_left: Op = elementwise(
    "shift_left",
    _shift_left,
    arity=2,
    accepts=rules.INTEGERS,
    scalar=lambda s, x, y: s.shl(x, y),
    doc="x * 2**y, wrapping; 0 for a count that is negative or not below the width.",
)
shift_right: Op = elementwise(
    "shift_right",
    _shift_right,
    arity=2,
    accepts=rules.INTEGERS,
    scalar=lambda s, x, y: s.shr(x, y),
    doc="floor(x / 2**y); for a count that is negative or not below the width 0, or -1 for a negative x.",
)
