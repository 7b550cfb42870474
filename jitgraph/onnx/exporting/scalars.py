"""The scalar vocabulary (``ir/scalar.py``) in ONNX nodes: how ops without an operator there are written.

Math functions that ONNX lacks become functions of the model, by jitgraph's own definitions in float64. Where those
have one rounding for a product and a sum there are two.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ir.scalar import Comparison
from jitgraph.onnx.exporting.emitting import NodeEmitter
from jitgraph.onnx.exporting.values import ELEMENT_TYPES, OnnxValue
from jitgraph.ops.math_functions.functions import FUNCTIONS

_OPERATORS: Final = {
    "exp": "Exp",
    "log": "Log",
    "pow": "Pow",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "tanh": "Tanh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "erf": "Erf",
}
_COMPARISONS: Final = {
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
}


class OnnxScalars:
    """The scalar ops over values of an ONNX graph."""

    def __init__(self, e: NodeEmitter, dtype: DType) -> None:
        self.e = e
        self.dtype = dtype

    def const(self, value: float | int | bool, dtype: DType | None = None) -> OnnxValue:
        return self.e.number(value, dtype or self.dtype)

    def add(self, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        return self.e.elementwise("Add", x, y)

    def sub(self, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        return self.e.elementwise("Sub", x, y)

    def mul(self, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        return self.e.elementwise("Mul", x, y)

    def fma(self, x: OnnxValue, y: OnnxValue, z: OnnxValue) -> OnnxValue:
        return self.add(self.mul(x, y), z)

    def div(self, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        """ONNX divides integers toward zero, and leaves open what a division by zero is."""
        if dtypes.is_float(x.dtype):
            return self.e.elementwise("Div", x, y)
        divisor, special = self._divisor(y)
        quotient = self.e.elementwise("Div", x, divisor)
        if dtypes.is_signed(x.dtype):
            zero, one = self.const(0, x.dtype), self.const(1, x.dtype)
            rest = self.sub(x, self.mul(quotient, divisor))
            opposite = self.xor(self.cmp("lt", rest, zero), self.cmp("lt", divisor, zero))
            above = self.and_(opposite, self.cmp("ne", rest, zero))
            quotient = self.select(above, self.sub(quotient, one), quotient)
        if special:
            if dtypes.is_signed(y.dtype):
                quotient = self.select(self.cmp("eq", y, self.const(-1, y.dtype)), self.neg(x), quotient)
            quotient = self.select(self.cmp("eq", y, self.const(0, y.dtype)), self.const(0, y.dtype), quotient)
        return quotient

    def rem(self, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        """The sign is the divisor's, as in ONNX for integers alone."""
        if dtypes.is_float(x.dtype):
            rest = self.e.elementwise("Mod", x, y, fmod=1)
            zero = self.const(0.0, x.dtype)
            differs = self.xor(self.cmp("lt", rest, zero), self.cmp("lt", y, zero))
            moved = self.and_(differs, self.cmp("ne", rest, zero))
            signed_zero = self.select(self.cmp("lt", y, zero), self.const(-0.0, x.dtype), zero)
            rest = self.select(self.cmp("eq", rest, zero), signed_zero, rest)
            return self.select(moved, self.add(rest, y), rest)
        return self.e.elementwise("Mod", x, self._divisor(y)[0])  # the rest of 0 and -1 is that of 1, which is 0

    def _divisor(self, y: OnnxValue) -> tuple[OnnxValue, bool]:
        """``y`` with 1 for 0 and -1, and whether these may be there."""
        if y.fill is not None and int(y.fill) not in (0, -1):
            return y, False
        odd = self.cmp("eq", y, self.const(0, y.dtype))
        if dtypes.is_signed(y.dtype):
            odd = self.or_(odd, self.cmp("eq", y, self.const(-1, y.dtype)))
        return self.select(odd, self.const(1, y.dtype), y), True

    def neg(self, x: OnnxValue) -> OnnxValue:
        if self.e.model.accepts("Neg", x.dtype):
            return self.e.elementwise("Neg", x)
        return self.sub(self.const(0, x.dtype), x)

    def abs(self, x: OnnxValue) -> OnnxValue:
        return self.e.elementwise("Abs", x)

    def min(self, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        return self.e.elementwise("Min", x, y)

    def max(self, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        return self.e.elementwise("Max", x, y)

    def sqrt(self, x: OnnxValue) -> OnnxValue:
        return self.e.elementwise("Sqrt", x)

    def floor(self, x: OnnxValue) -> OnnxValue:
        return self.e.elementwise("Floor", x)

    def ceil(self, x: OnnxValue) -> OnnxValue:
        return self.e.elementwise("Ceil", x)

    def rint(self, x: OnnxValue) -> OnnxValue:
        return self.e.elementwise("Round", x)

    def trunc(self, x: OnnxValue) -> OnnxValue:
        return self.select(self.cmp("lt", x, self.const(0.0, x.dtype)), self.ceil(x), self.floor(x))

    def cmp(self, relation: Comparison, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        if relation == "ne":
            return self.not_(self.cmp("eq", x, y))
        operator = _COMPARISONS[relation]
        if not self.e.model.accepts(operator, x.dtype):  # of bool
            x, y = self.e.cast(x, dtypes.uint8), self.e.cast(y, dtypes.uint8)
        return self.e.elementwise(operator, x, y, dtype=dtypes.bool_)

    def select(self, condition: OnnxValue, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        return self.e.where(condition, x, y)

    def cast(self, x: OnnxValue, dtype: DType) -> OnnxValue:
        return self.e.cast(x, dtype)

    def bitcast(self, x: OnnxValue, dtype: DType) -> OnnxValue:
        if x.dtype == dtype:
            return x
        return self.e.elementwise("BitCast", x, dtype=dtype, to=ELEMENT_TYPES[dtype])

    def and_(self, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        return self.e.elementwise("And" if dtypes.is_bool(x.dtype) else "BitwiseAnd", x, y)

    def or_(self, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        return self.e.elementwise("Or" if dtypes.is_bool(x.dtype) else "BitwiseOr", x, y)

    def xor(self, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        return self.e.elementwise("Xor" if dtypes.is_bool(x.dtype) else "BitwiseXor", x, y)

    def not_(self, x: OnnxValue) -> OnnxValue:
        return self.e.elementwise("Not" if dtypes.is_bool(x.dtype) else "BitwiseNot", x)

    def shl(self, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        return self._shift(x, y, "LEFT", self.const(0, x.dtype))

    def shr(self, x: OnnxValue, y: OnnxValue) -> OnnxValue:
        zero = self.const(0, x.dtype)
        if not dtypes.is_signed(x.dtype):
            return self._shift(x, y, "RIGHT", zero)
        negative = self.cmp("lt", x, zero)  # shifted as a number that is not negative, and turned back
        size = self.select(negative, self.not_(x), x)
        shifted = self._shift(size, y, "RIGHT", zero)
        return self.select(negative, self.not_(shifted), shifted)

    def _shift(self, x: OnnxValue, y: OnnxValue, direction: str, past: OnnxValue) -> OnnxValue:
        """ONNX shifts numbers without a sign, by less than their width."""
        width = 8 * x.dtype.itemsize
        bits = np.dtype(f"u{x.dtype.itemsize}")
        inside = None
        if y.fill is None or not 0 <= int(y.fill) < width:
            inside = self.cmp("lt", y, self.const(width, y.dtype))
            if dtypes.is_signed(y.dtype):
                inside = self.and_(inside, self.cmp("ge", y, self.const(0, y.dtype)))
            y = self.select(inside, y, self.const(0, y.dtype))
        shifted = self.e.elementwise("BitShift", self.bitcast(x, bits), self.e.cast(y, bits), direction=direction)
        shifted = self.bitcast(shifted, x.dtype)
        return shifted if inside is None else self.select(inside, shifted, past)

    def call(self, function: str, *args: OnnxValue) -> OnnxValue:
        """A math function: ONNX's operator, or a function of the model that computes it in float64."""
        operator = _OPERATORS.get(function)
        if operator is not None and (function, args[0].dtype) != ("erf", dtypes.float64):
            return self.e.elementwise(operator, *args)

        def body(e: NodeEmitter, *operands: OnnxValue) -> OnnxValue:
            wide = OnnxScalars(e, dtypes.float64)
            widened = [
                e.elementwise("Cast", x, dtype=dtypes.float64, to=ELEMENT_TYPES[dtypes.float64]) for x in operands
            ]
            result: Any = FUNCTIONS[function](wide, *widened)
            return e.elementwise("CastLike", result, operands[0], dtype=operands[0].dtype)

        return self.e.call(function, args, body, args[0].dtype)
