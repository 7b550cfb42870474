"""Numbers of sums by weights: exponentials and extremes of the hardware, and what the four lanes of a row exchange.

They are written without the flags of fast math, since scores of -inf are what a mask makes.
"""

from __future__ import annotations

import math
from typing import Final

from jitgraph.codegen.cuda.warp import call
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmValue
from jitgraph.codegen.llvm.operand import LlvmScalar, literal
from jitgraph.dtypes import bool_, float32, int32

_LOG2_E: Final = literal(math.log2(math.e), float32)
LOWEST: Final = LlvmScalar(literal(-math.inf, float32), "float", float32, 1)
ZERO: Final = LlvmScalar(literal(0.0, float32), "float", float32, 1)


def number(function: LlvmFunction, instruction: str) -> LlvmScalar:
    """The float32 that an instruction gives."""
    return LlvmScalar(function.emit("float", instruction).name, "float", float32, 1)


def plus(function: LlvmFunction, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    return number(function, f"fadd {x}, {y.name}")


def times(function: LlvmFunction, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    return number(function, f"fmul {x}, {y.name}")


def multiplied(function: LlvmFunction, x: LlvmScalar, y: LlvmScalar, total: LlvmScalar) -> LlvmScalar:
    """``x * y + total``, rounded once."""
    function.module.declare("declare float @llvm.fma.f32(float, float, float)")
    return number(function, f"call float @llvm.fma.f32({x}, {y}, {total})")


def exponential(function: LlvmFunction, x: LlvmScalar, less: LlvmScalar) -> LlvmScalar:
    """exp(x - less) by the hardware's power of two: within 2**-22 of it, and as much more as |x - less| exceeds 1."""
    left = number(function, f"fsub {x}, {less.name}")
    scaled = number(function, f"fmul {left}, {_LOG2_E}")
    return LlvmScalar(call(function, "float", "ex2.approx.ftz.f", str(scaled)).name, "float", float32, 1)


def greater(function: LlvmFunction, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    """The greater number; the other one of a NaN."""
    function.module.declare("declare float @llvm.maxnum.f32(float, float)")
    return number(function, f"call float @llvm.maxnum.f32({x}, {y})")


def zero_for_lowest(function: LlvmFunction, x: LlvmScalar) -> LlvmScalar:
    """``x``, and 0 for -inf, which would make NaN of what it is taken from."""
    lowest = function.emit("i1", f"fcmp oeq {x}, {LOWEST.name}")
    return number(function, f"select {lowest}, {ZERO}, {x}")


def picked(function: LlvmFunction, condition: LlvmScalar | None, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    """``x`` where the condition holds or there is none, else ``y``."""
    return x if condition is None else number(function, f"select {condition}, {x}, {y}")


def below(function: LlvmFunction, x: int, bound: LlvmScalar) -> LlvmScalar:
    """Whether a literal int32 is less than ``bound``."""
    return LlvmScalar(function.emit("i1", f"icmp sgt {bound}, {x}").name, "i1", bool_, 1)


def at_least(function: LlvmFunction, x: int, bound: LlvmScalar) -> LlvmScalar:
    """Whether a literal int32 is no less than ``bound``."""
    return LlvmScalar(function.emit("i1", f"icmp sle {bound}, {x}").name, "i1", bool_, 1)


def both(function: LlvmFunction, x: LlvmScalar | None, y: LlvmScalar | None) -> LlvmScalar | None:
    """Whether both conditions hold; None is one that always does."""
    if x is None or y is None:
        return x if y is None else y
    return LlvmScalar(function.emit("i1", f"and {x}, {y.name}").name, "i1", bool_, 1)


def narrowed(function: LlvmFunction, x: LlvmScalar) -> LlvmScalar:
    """An int64 that fits as an int32."""
    if x.is_literal:
        return LlvmScalar(x.name, "i32", int32, 1)
    return LlvmScalar(function.emit("i32", f"trunc {x} to i32").name, "i32", int32, 1)


def of_row(function: LlvmFunction, x: LlvmScalar, distance: int) -> LlvmScalar:
    """The number of the lane whose place among the row's four differs in the bit ``distance``."""
    bits = function.emit("i32", f"bitcast {x} to i32")
    moved = call(function, "i32", "shfl.sync.bfly.i32", "i32 -1", str(bits), f"i32 {distance}", "i32 31")
    return number(function, f"bitcast {moved} to float")


def pair(function: LlvmFunction, low: LlvmScalar, high: LlvmScalar, *, brain: bool) -> LlvmValue:
    """Two numbers as 16-bit floats in one register, as products take them; bfloat16 where ``brain``."""
    kind = "bfloat" if brain else "half"
    name = "ff2bf16x2.rn" if brain else "ff2f16x2.rn"
    packed = call(function, f"<2 x {kind}>", name, str(high), str(low))
    return function.emit("i32", f"bitcast {packed} to i32") if brain else packed
