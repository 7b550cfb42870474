"""The scalar ops (``ir.scalar``) over LLVM scalars and fixed-width vectors. Every op is total.

A ``LlvmScalar`` of one lane is uniform; of more lanes a vector. Ops take a mix: a uniform operand is splat beside a
vector. Bool is ``i1``, float16 ``half``, bfloat16 its bits as ``i16``; ops on 16-bit floats compute in float32 and
round at once, but under ``fastmath`` values of 16-bit floats are kept as ``float`` until they are stored.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from jitgraph.codegen.llvm import folding
from jitgraph.codegen.llvm.builder import LlvmFunction
from jitgraph.dtypes import (
    SHORT_NAMES,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    is_bool,
    is_float,
    is_signed,
)
from jitgraph.ir.scalar import Comparison

_FAST = "reassoc nsz arcp contract afn "
_INT_NAMES = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge"}


class LlvmScalar(NamedTuple):
    """An operand of kernel code: name or literal, its LLVM type, dtype and number of lanes (1: uniform)."""

    name: str
    type: str
    dtype: DType
    lanes: int

    def __str__(self) -> str:
        return f"{self.type} {self.name}"

    @property
    def is_literal(self) -> bool:
        return self.name[0] != "%"


def lanes_of(type: str, lanes: int) -> str:
    """The type of ``lanes`` elements of ``type``; the type itself for one lane."""
    return type if lanes == 1 else f"<{lanes} x {type}>"


_TYPES: dict[DType, str] = {
    dtype: {float16: "half", bfloat16: "i16", float32: "float", float64: "double", bool_: "i1"}.get(
        dtype, f"i{8 * dtype.itemsize}"
    )
    for dtype in SHORT_NAMES
}


def element_type(dtype: DType, fastmath: bool = False) -> str:
    """The LLVM type of one value of ``dtype`` in a register."""
    return "float" if fastmath and dtype.itemsize == 2 and is_float(dtype) else _TYPES[dtype]


def overload(type: str) -> str:
    """``type`` as intrinsics have it in their names: f32, v16f32, i64."""
    if type[0] == "<":
        count, _, element = type[1:-1].split()
        return f"v{count}{overload(element)}"
    return {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(type, type)


def literal(value: float | int | bool, dtype: DType, fastmath: bool = False) -> str:
    """The literal of ``value`` rounded (floats) or wrapped (integers) to ``dtype``."""
    if is_bool(dtype):
        return "true" if value else "false"
    if not is_float(dtype):
        bits = 8 * dtype.itemsize
        wrapped = int(value) & ((1 << bits) - 1)
        return str(wrapped - (1 << bits) if is_signed(dtype) and wrapped >> (bits - 1) else wrapped)
    with np.errstate(all="ignore"):
        rounded = np.asarray(value).astype(dtype)
    if dtype.itemsize == 2 and not fastmath:
        (bits,) = struct.unpack("<H", rounded.tobytes())
        return f"0xH{bits:04X}" if dtype == float16 else str(bits)
    (bits,) = struct.unpack("<Q", rounded.astype(np.float64).tobytes())
    return f"0x{bits:016X}"


class LlvmScalarOps:
    """The scalar ops, writing into ``function``. ``dtype`` is the default of ``const``."""

    def __init__(self, function: LlvmFunction, dtype: DType = float32, fastmath: bool = False) -> None:
        self.function = function
        self.dtype = dtype
        self.fastmath = fastmath
        self._flags = _FAST if fastmath else ""

    # --- shape of operands ---

    def type(self, dtype: DType, lanes: int = 1) -> str:
        """The LLVM type of ``lanes`` values of ``dtype``."""
        return lanes_of(element_type(dtype, self.fastmath), lanes)

    def make(self, instruction: str, dtype: DType, lanes: int, type: str | None = None) -> LlvmScalar:
        """``instruction`` as a scalar; its LLVM type follows from dtype and lanes where not given."""
        type = type or self.type(dtype, lanes)
        return LlvmScalar(self.function.emit(type, instruction).name, type, dtype, lanes)

    def splat(self, x: LlvmScalar, lanes: int) -> LlvmScalar:
        """``x`` in ``lanes`` lanes."""
        if x.lanes == lanes:
            return x
        assert x.lanes == 1, (x, lanes)
        type = f"<{lanes} x {x.type}>"
        if x.is_literal:
            return LlvmScalar(f"splat ({x.type} {x.name})", type, x.dtype, lanes)
        one = self.function.emit(type, f"insertelement {type} poison, {x}, i64 0")
        return self.make(
            f"shufflevector {one}, {type} poison, <{lanes} x i32> zeroinitializer", x.dtype, lanes, type=type
        )

    def align(self, *xs: LlvmScalar) -> list[LlvmScalar]:
        """``xs`` with the same number of lanes."""
        lanes = max(x.lanes for x in xs)
        return [self.splat(x, lanes) for x in xs]

    def intrinsic(self, name: str, *xs: LlvmScalar, flags: str = "") -> LlvmScalar:
        """``llvm.name`` of operands of one type, overloaded on it."""
        x = xs[0]
        return self.make(
            f"call {flags}{x.type} @llvm.{name}.{overload(x.type)}({', '.join(map(str, xs))})", x.dtype, x.lanes, x.type
        )

    def _same(self, instruction: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        """A binary instruction on operands of one type."""
        if x.is_literal and y.is_literal and (folded := folding.binary(instruction, x, y)) is not None:
            return folded
        return self.make(f"{instruction} {x}, {y.name}", x.dtype, x.lanes, x.type)

    def _convert(self, instruction: str, x: LlvmScalar, element: str, dtype: DType) -> LlvmScalar:
        type = lanes_of(element, x.lanes)
        if instruction == "bitcast" and x.is_literal and (bits := folding.float_bits(x, element)) is not None:
            return folding.like(bits, LlvmScalar("", type, dtype, x.lanes))
        return self.make(f"{instruction} {x} to {type}", dtype, x.lanes, type)

    def raw(self, value: int | float, x: LlvmScalar) -> LlvmScalar:
        """A literal with the LLVM type and lanes of ``x``."""
        element = folding.element_of(x.type)
        text = (
            literal(value, {"float": float32, "double": float64}[element]) if isinstance(value, float) else str(value)
        )
        name = text if x.lanes == 1 else f"splat ({element} {text})"
        return LlvmScalar(name, x.type, x.dtype, x.lanes)

    # --- 16-bit floats ---

    def widen(self, x: LlvmScalar) -> LlvmScalar:
        """A 16-bit float as float32; others unchanged."""
        if x.dtype.itemsize != 2 or not is_float(x.dtype) or x.type.endswith(("float", "float>")):
            return LlvmScalar(x.name, x.type, float32, x.lanes) if x.dtype in (float16, bfloat16) else x
        if x.dtype == float16:
            return self._convert("fpext", x, "float", float32)
        bits = self._convert("zext", x, "i32", int32)
        return self._convert("bitcast", self._same("shl", bits, self.raw(16, bits)), "float", float32)

    def narrow(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        """A float32 rounded to the 16-bit float ``dtype``; under fastmath it stays a float. Others unchanged."""
        if dtype == x.dtype:
            return x
        if self.fastmath:
            return LlvmScalar(x.name, x.type, dtype, x.lanes)
        return self.round16(x, dtype)

    def round16(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        """A float32 rounded half to even to float16 or bfloat16, as stored."""
        if dtype == float16:
            return self._convert("fptrunc", x, "half", dtype)
        # The bits above 16 are the result; adding 0x7FFF, and 1 where it is odd, carries where rounding goes up.
        bits = self._convert("bitcast", x, "i32", int32)
        high = self._same("lshr", bits, self.raw(16, bits))
        odd = self._same("and", high, self.raw(1, bits))
        rounded = self._same("add", self._same("add", bits, self.raw(0x7FFF, bits)), odd)
        rounded = self._same("lshr", rounded, self.raw(16, bits))
        nan = self._same("or", high, self.raw(0x40, bits))
        ordered = self._fcmp("ord", x, x)
        return self._convert("trunc", self._pick(ordered, rounded, nan), "i16", dtype)

    def _to_odd(self, x: LlvmScalar) -> LlvmScalar:
        """A float64 as float32 rounded to odd, from which rounding to 16 bits is right (Boldo and Melquiond, 2008)."""
        near = self._convert("fptrunc", x, "float", float32)
        back = self._convert("fpext", near, "double", float64)
        bits = self._convert("bitcast", near, "i32", int32)
        above = self._fcmp("ogt", self.intrinsic("fabs", back), self.intrinsic("fabs", x))
        toward_zero = self._same("sub", bits, self._convert("zext", above, "i32", int32))
        inexact = self._convert("zext", self._fcmp("one", back, x), "i32", int32)
        return self._convert("bitcast", self._same("or", toward_zero, inexact), "float", float32)

    # --- comparison and choice ---

    def _fcmp(self, relation: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self.make(f"fcmp {relation} {x}, {y.name}", bool_, x.lanes)

    def _icmp(self, relation: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        if x.is_literal and y.is_literal and (known := folding.compare(relation, x, y)) is not None:
            return folding.like("true" if known else "false", LlvmScalar("", self.type(bool_, x.lanes), bool_, x.lanes))
        return self.make(f"icmp {relation} {x}, {y.name}", bool_, x.lanes)

    def _pick(self, condition: LlvmScalar, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        if condition.is_literal and (known := folding.truth_of(condition)) is not None:
            return x if known else y
        return self.make(f"select {condition}, {x}, {y}", x.dtype, x.lanes, x.type)

    def cmp(self, relation: Comparison, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        if is_float(x.dtype):
            x, y = self.widen(x), self.widen(y)
            return self._fcmp("une" if relation == "ne" else f"o{relation}", x, y)
        name = _INT_NAMES[relation]
        if relation in ("eq", "ne"):
            return self._icmp(name, x, y)
        return self._icmp(f"{'s' if is_signed(x.dtype) else 'u'}{name}", x, y)

    def select(self, condition: LlvmScalar, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        if condition.lanes == 1 and (x.lanes > 1 or y.lanes > 1):
            x, y = self.align(x, y)  # one i1 chooses between vectors
        else:
            condition, x, y = self.align(condition, x, y)
        return self._pick(condition, x, y)

    def min(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self._extremum("lt", x, y)

    def max(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self._extremum("gt", x, y)

    def _extremum(self, relation: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        if not is_float(x.dtype):
            return self._pick(self._icmp(f"{'s' if is_signed(x.dtype) else 'u'}{relation}", y, x), y, x)
        wide_x, wide_y = self.widen(x), self.widen(y)
        if x.is_literal and folding.is_ordinary(wide_x):  # a NaN can be the other operand alone
            return self._pick(self._fcmp(f"u{relation}", wide_y, wide_x), y, x)
        if y.is_literal and folding.is_ordinary(wide_y):
            return self._pick(self._fcmp(f"o{relation}", wide_y, wide_x), y, x)
        better = self._pick(self._fcmp(f"o{relation}", wide_y, wide_x), y, x)
        return self._pick(self._fcmp("uno", wide_y, wide_y), y, better)

    # --- arithmetic ---

    def const(self, value: float | int | bool, dtype: DType | None = None) -> LlvmScalar:
        dtype = dtype or self.dtype
        return LlvmScalar(literal(value, dtype, self.fastmath), self.type(dtype), dtype, 1)

    def _binary(self, float_instruction: str, int_instruction: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        if is_float(x.dtype):
            return self.narrow(self._same(f"{float_instruction} {self._flags}", self.widen(x), self.widen(y)), x.dtype)
        return self._same(int_instruction, x, y)

    def add(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        return self._fenced(self._binary("fadd", "add", x, y), merges=self._are_ands(x, y) == 2)

    def sub(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self._binary("fsub", "sub", x, y)

    def mul(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self._binary("fmul", "mul", x, y)

    def div(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        if is_float(x.dtype):
            return self._binary("fdiv", "", x, y)
        from jitgraph.codegen.llvm.division import floor_divide

        return floor_divide(self, *self.align(x, y))[0]

    def rem(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        from jitgraph.codegen.llvm.division import float_remainder, floor_divide

        if is_float(x.dtype):
            return float_remainder(self, *self.align(x, y))
        return floor_divide(self, *self.align(x, y))[1]

    def neg(self, x: LlvmScalar) -> LlvmScalar:
        if not is_float(x.dtype):
            return self._same("sub", self.raw(0, x), x)
        if x.type.endswith(("i16", "i16>")):
            return self._same("xor", x, self.raw(0x8000, x))
        if x.is_literal and (negative := folding.negated(x)) is not None:
            return negative
        return self.make(f"fneg {x}", x.dtype, x.lanes, x.type)

    def abs(self, x: LlvmScalar) -> LlvmScalar:
        if is_float(x.dtype):
            if x.type.endswith(("i16", "i16>")):
                return self._same("and", x, self.raw(0x7FFF, x))
            return self.intrinsic("fabs", x)
        if not is_signed(x.dtype):
            return x
        return self._pick(self._icmp("slt", x, self.raw(0, x)), self.neg(x), x)

    def _rounded(self, name: str, x: LlvmScalar) -> LlvmScalar:
        return self.narrow(self.intrinsic(name, self.widen(x)), x.dtype) if is_float(x.dtype) else x

    def sqrt(self, x: LlvmScalar) -> LlvmScalar:
        return self._rounded("sqrt", x)

    def floor(self, x: LlvmScalar) -> LlvmScalar:
        return self._rounded("floor", x)

    def ceil(self, x: LlvmScalar) -> LlvmScalar:
        return self._rounded("ceil", x)

    def rint(self, x: LlvmScalar) -> LlvmScalar:
        return self._rounded("roundeven", x)

    def trunc(self, x: LlvmScalar) -> LlvmScalar:
        return self._rounded("trunc", x)

    def fma(self, x: LlvmScalar, y: LlvmScalar, z: LlvmScalar) -> LlvmScalar:
        x, y, z = self.align(x, y, z)
        if not is_float(x.dtype):
            return self.add(self.mul(x, y), z)
        return self.narrow(self.intrinsic("fma", self.widen(x), self.widen(y), self.widen(z)), x.dtype)

    # --- bits ---

    def and_(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        result = self._same("and", *self.align(x, y))
        self.function.ands.add(result.name)
        return result

    def or_(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        return self._fenced(self._same("or", x, y), merges=self._are_ands(x, y) == 2)

    def xor(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        return self._fenced(self._same("xor", x, y), merges=self._are_ands(x, y) > 0)

    def _are_ands(self, x: LlvmScalar, y: LlvmScalar) -> int:
        return len({x.name, y.name} & self.function.ands)

    def _fenced(self, x: LlvmScalar, merges: bool) -> LlvmScalar:
        """``x``, hidden from the selection of instructions where it may be two values merged by the bits of a mask.

        For AVX-512, LLVM 20 folds a merge by constant bits and a select of it and one of the two into one masked
        vpternlog whose table is that of other operands (llvm-project issue 157929).
        """
        if not merges or x.lanes == 1 or x.dtype.itemsize not in (4, 8) or is_bool(x.dtype):
            return x
        element = "float" if x.dtype.itemsize == 4 else "double"
        floats = self._convert("bitcast", x, element, float32 if element == "float" else float64)
        back = self.intrinsic("arithmetic.fence", floats)
        return self.make(f"bitcast {back} to {x.type}", x.dtype, x.lanes, x.type)

    def not_(self, x: LlvmScalar) -> LlvmScalar:
        ones = self.raw(-1, x) if not is_bool(x.dtype) else self.splat(LlvmScalar("true", "i1", bool_, 1), x.lanes)
        return self._same("xor", x, ones)

    def shl(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        inside, count = self._count(x, y)
        return self._pick(inside, self._same("shl", x, count), self.raw(0, x))

    def shr(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        inside, count = self._count(x, y)
        if is_signed(x.dtype):
            return self._same("ashr", x, self._pick(inside, y, self.raw(8 * x.dtype.itemsize - 1, y)))
        return self._pick(inside, self._same("lshr", x, count), self.raw(0, x))

    def _count(self, x: LlvmScalar, y: LlvmScalar) -> tuple[LlvmScalar, LlvmScalar]:
        """Whether the count is below the width (negative ones are not), and a count that always is."""
        width = 8 * x.dtype.itemsize
        return self._icmp("ult", y, self.raw(width, y)), self._same("and", y, self.raw(width - 1, y))

    # --- conversions ---

    def bitcast(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        if self.fastmath and x.dtype.itemsize == 2:
            x = self.stored(x)
        if is_bool(x.dtype):
            return self._convert("zext", x, "i8", dtype) if not is_bool(dtype) else x
        if is_bool(dtype):
            return self._icmp("ne", x, self.raw(0, x))
        plain = element_type(dtype)
        source = folding.element_of(x.type)
        y = self._convert("bitcast", x, plain, dtype) if plain != source else LlvmScalar(x.name, x.type, dtype, x.lanes)
        return self.loaded(y)

    def stored(self, x: LlvmScalar) -> LlvmScalar:
        """``x`` as it lies in memory: 16-bit floats rounded."""
        if self.fastmath and x.dtype in (float16, bfloat16):
            return self.round16(LlvmScalar(x.name, x.type, float32, x.lanes), x.dtype)
        return x

    def loaded(self, x: LlvmScalar) -> LlvmScalar:
        """``x`` from memory as these ops keep it: 16-bit floats widened under fastmath."""
        if self.fastmath and x.dtype in (float16, bfloat16):
            wide = self.widen(x)
            return LlvmScalar(wide.name, wide.type, x.dtype, x.lanes)
        return x

    def cast(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        if x.dtype == dtype:
            return x
        if is_bool(dtype):
            return self.cmp("ne", x, self.zero_like(x))
        if is_float(x.dtype):
            return self._float_to_float(x, dtype) if is_float(dtype) else self._float_to_int(self.widen(x), dtype)
        if is_float(dtype):
            wide = float64 if dtype == float64 else float32
            instruction = "sitofp" if is_signed(x.dtype) else "uitofp"
            return self.narrow(self._convert(instruction, x, element_type(wide), wide), dtype)
        return self._resize(x, dtype)

    def zero_like(self, x: LlvmScalar) -> LlvmScalar:
        """Zero of the dtype, type and lanes of ``x``."""
        return LlvmScalar("false" if x.type == "i1" else "0.0" if x.type in ("float", "double", "half") else "0"
                      if x.lanes == 1 else "zeroinitializer", x.type, x.dtype, x.lanes)  # fmt: skip

    def _resize(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        source, target = (1 if is_bool(x.dtype) else 8 * x.dtype.itemsize), 8 * dtype.itemsize
        if source == target:
            return LlvmScalar(x.name, x.type, dtype, x.lanes)
        instruction = "trunc" if source > target else "sext" if is_signed(x.dtype) else "zext"
        return self._convert(instruction, x, f"i{target}", dtype)

    def _float_to_float(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        if x.dtype == float64:  # to bfloat16 by way of float32, as ml_dtypes; to float16 in one rounding, as NumPy
            near = self._to_odd(x) if dtype == float16 else self._convert("fptrunc", x, "float", float32)
            return self.narrow(near, dtype)
        x = self.widen(x)
        return self._convert("fpext", x, "double", float64) if dtype == float64 else self.narrow(x, dtype)

    def _float_to_int(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        # llvm.fptosi.sat means the same, but its vectors are taken apart lane by lane on x86.
        signed, bits = is_signed(dtype), 8 * dtype.itemsize
        limit = self.raw(2.0 ** (bits - signed), x)
        lowest = self.raw(-(2.0 ** (bits - 1)) if signed else 0.0, x)
        inside = self._pick(self._fcmp("olt", x, limit), x, self.raw(0.0, x))
        inside = self._pick(self._fcmp("ogt", inside, lowest), inside, lowest)
        through = max(32, bits)
        instruction = "fptosi" if signed or bits < 32 else "fptoui"
        value = self._convert(instruction, inside, f"i{through}", dtype)
        if through != bits:
            value = self._convert("trunc", value, f"i{bits}", dtype)
        return self._pick(self._fcmp("oge", x, limit), self.raw((1 << (bits - signed)) - 1, value), value)

    # --- functions ---

    def call(self, function: str, *args: LlvmScalar) -> LlvmScalar:
        """A math function: an LLVM function for each (name, dtype, lanes), made on first use."""
        from jitgraph.codegen.llvm.math_functions import math_function

        wide = [self.widen(x) for x in self.align(*args)]  # 16-bit floats are rounded once, after the function
        x = wide[0]
        name = math_function(self.function.module, function, tuple(y.dtype for y in wide), x.lanes)
        value = self.make(self.function.call_of(x.type, name, *wide), x.dtype, x.lanes, x.type)
        return self.narrow(value, args[0].dtype)
