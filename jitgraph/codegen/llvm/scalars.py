"""The scalar ops (``ir.scalar``) over LLVM scalars and fixed-width vectors. Every op is total."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final, cast

from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import (
    Definition,
    LlvmFunction,
    LlvmModule,
    LlvmScalar,
    LlvmValue,
    element_type,
    lanes_of,
    literal,
    overload,
)
from jitgraph.dtypes import (
    SHORT_NAMES,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    is_bool,
    is_float,
    is_signed,
)
from jitgraph.ir.target import Target
from jitgraph.runtime import imports

if TYPE_CHECKING:
    from jitgraph.ir.scalar import Comparison

# ----------------------------------------------------------------------
# Scalar ops on literals, evaluated as they are written: what needs no instruction costs LLVM no time.
#
# Literals are those of ``builder.py``: a number, or ``splat (type number)`` for all lanes alike. Integers and bools
# alone are folded, and the bits of floats; the arithmetic of floats is left to the machine, whose rounding it is.

_BINARY: Final[dict[str, Callable[[int, int], int]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def element_of(type: str) -> str:
    """The LLVM type of one lane."""
    return type[1:-1].split()[2] if type[0] == "<" else type


def number_of(x: LlvmScalar) -> str | None:
    """The literal that every lane holds, as text; None where there is none."""
    name = x.name
    if name.startswith("splat ("):
        return name[:-1].rpartition(" ")[2]
    return None if name[0] in "%<@zp" else name  # values, mixed vectors, globals, zeroinitializer, poison


def integer_of(x: LlvmScalar) -> int | None:
    """The integer that every lane holds; None where it is not a literal one."""
    text = number_of(x)
    if text is None or not (text.isdecimal() or (text[0] == "-" and text[1:].isdecimal())):
        return None
    return int(text)


def truth_of(x: LlvmScalar) -> bool | None:
    """The bool that every lane holds; None where it is not a literal one."""
    text = number_of(x)
    return text == "true" if text in ("true", "false") else None


def is_ordinary(x: LlvmScalar) -> bool:
    """Whether ``x`` is a literal float32 or float64 that is not NaN."""
    text = number_of(x)
    if text is None or element_of(x.type) not in ("float", "double") or not text.startswith("0x"):
        return False
    return int(text, 16) & 0x7FFFFFFFFFFFFFFF <= 0x7FF0000000000000


def like(text: str, x: LlvmScalar) -> LlvmScalar:
    """A literal with the type and lanes of ``x``."""
    return x._replace(name=text if x.lanes == 1 else f"splat ({element_of(x.type)} {text})")


def binary(instruction: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar | None:
    """``instruction x, y`` of two integer literals, wrapped; None where it takes an instruction."""
    function = _BINARY.get(instruction)
    if function is None:
        return None
    a, b = integer_of(x), integer_of(y)
    if a is None or b is None:
        return None
    bits = int(element_of(x.type)[1:])
    wrapped = function(a, b) & ((1 << bits) - 1)
    return like(str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped), x)


def compare(relation: str, x: LlvmScalar, y: LlvmScalar) -> bool | None:
    """``icmp relation x, y`` of two integer literals; None where it takes an instruction."""
    a, b = integer_of(x), integer_of(y)
    if a is None or b is None:
        return None
    mask = (1 << int(element_of(x.type)[1:])) - 1
    if relation[0] == "u":
        return _COMPARE[relation[1:]](a & mask, b & mask)
    sign = (mask + 1) >> 1  # a literal may be written without its sign
    a, b = (a & mask) ^ sign, (b & mask) ^ sign
    return _COMPARE[relation[1:] if relation[0] == "s" else relation](a, b)


def negated(x: LlvmScalar) -> LlvmScalar | None:
    """A literal float32 or float64 with the other sign; None for anything else."""
    text = number_of(x)
    if text is None or not text.startswith("0x") or text.startswith("0xH"):
        return None
    return like(f"0x{int(text, 16) ^ (1 << 63):016X}", x)


def float_bits(x: LlvmScalar, element: str) -> str | None:
    """The bits of a literal float32 or float64 as a literal integer of type ``element``; None for anything else."""
    text = number_of(x)
    if text is None or not text.startswith("0x") or (element_of(x.type), element) not in _FLOAT_BITS:
        return None
    bits = int(text, 16)  # float32, too, is written by the bits of the float64 that it is
    if element == "i64":
        return str(bits - (1 << 64) if bits >> 63 else bits)
    (number,) = struct.unpack("<d", struct.pack("<Q", bits))
    if number != number:
        return None  # whose payload the conversion might change
    (narrow,) = struct.unpack("<i", struct.pack("<f", number))
    return str(narrow)


_FLOAT_BITS: Final = {("float", "i32"), ("double", "i64")}


# ----------------------------------------------------------------------
# The instructions that the scalar ops are written in, folded where their operands are literals.

_FAST = "reassoc nsz arcp contract afn "


class LlvmInstructions:
    """Instructions that are written into ``function``. ``dtype`` is the default of ``const``."""

    def __init__(self, function: LlvmFunction, dtype: DType = float32, fastmath: bool = False) -> None:
        self.function = function
        self.dtype = dtype
        self.fastmath = fastmath
        self._flags = _FAST if fastmath else ""

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
        if x.is_literal and y.is_literal and (folded := binary(instruction, x, y)) is not None:
            return folded
        return self.make(f"{instruction} {x}, {y.name}", x.dtype, x.lanes, x.type)

    def _convert(self, instruction: str, x: LlvmScalar, element: str, dtype: DType) -> LlvmScalar:
        type = lanes_of(element, x.lanes)
        if instruction == "bitcast" and x.is_literal and (bits := float_bits(x, element)) is not None:
            return like(bits, LlvmScalar("", type, dtype, x.lanes))
        return self.make(f"{instruction} {x} to {type}", dtype, x.lanes, type)

    def raw(self, value: int | float, x: LlvmScalar) -> LlvmScalar:
        """A literal with the LLVM type and lanes of ``x``."""
        element = element_of(x.type)
        text = (
            literal(value, {"float": float32, "double": float64}[element]) if isinstance(value, float) else str(value)
        )
        name = text if x.lanes == 1 else f"splat ({element} {text})"
        return LlvmScalar(name, x.type, x.dtype, x.lanes)

    def _fcmp(self, relation: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self.make(f"fcmp {relation} {x}, {y.name}", bool_, x.lanes)

    def _icmp(self, relation: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        if x.is_literal and y.is_literal and (known := compare(relation, x, y)) is not None:
            return like("true" if known else "false", LlvmScalar("", self.type(bool_, x.lanes), bool_, x.lanes))
        return self.make(f"icmp {relation} {x}, {y.name}", bool_, x.lanes)

    def _pick(self, condition: LlvmScalar, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        if condition.is_literal and (known := truth_of(condition)) is not None:
            return x if known else y
        return self.make(f"select {condition}, {x}, {y}", x.dtype, x.lanes, x.type)


# ----------------------------------------------------------------------
# The scalar ops that change dtypes: ``cast``, ``bitcast``, and the rounding of 16-bit floats.


class LlvmConversions(LlvmInstructions):
    """From one dtype to another, and 16-bit floats between memory and registers."""

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

    # --- any dtype ---

    def bitcast(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        if self.fastmath and x.dtype.itemsize == 2:
            x = self.stored(x)
        if is_bool(x.dtype):
            return self._convert("zext", x, "i8", dtype) if not is_bool(dtype) else x
        if is_bool(dtype):
            return self._icmp("ne", x, self.raw(0, x))
        plain = element_type(dtype)
        source = element_of(x.type)
        y = self._convert("bitcast", x, plain, dtype) if plain != source else LlvmScalar(x.name, x.type, dtype, x.lanes)
        return self.loaded(y)

    def cast(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        if x.dtype == dtype:
            return x
        if is_bool(dtype):
            return self._is_nonzero(x)
        if is_float(x.dtype):
            return self._float_to_float(x, dtype) if is_float(dtype) else self.float_to_int(self.widen(x), dtype)
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

    def float_to_int(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        """A float32 or float64 toward zero, saturated; NaN is 0."""
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

    def _is_nonzero(self, x: LlvmScalar) -> LlvmScalar:
        zero = self.zero_like(x)
        return self._fcmp("une", self.widen(x), self.widen(zero)) if is_float(x.dtype) else self._icmp("ne", x, zero)


# ----------------------------------------------------------------------
# The scalar ops that compare, choose, and work on bits.


class LlvmLogic(LlvmConversions):
    """What compares, chooses, and works on bits."""

    def cmp(self, relation: Comparison, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        if is_float(x.dtype):
            x, y = self.widen(x), self.widen(y)
            return self._fcmp("une" if relation == "ne" else f"o{relation}", x, y)
        if relation in ("eq", "ne"):
            return self._icmp(relation, x, y)
        return self._icmp(f"{'s' if is_signed(x.dtype) else 'u'}{relation}", x, y)

    def select(self, condition: LlvmScalar, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        if condition.lanes == 1 and (x.lanes > 1 or y.lanes > 1):
            x, y = self.align(x, y)  # one i1 chooses between vectors
        else:
            condition, x, y = self.align(condition, x, y)
        return self._pick(condition, x, y)

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


# ----------------------------------------------------------------------
# The scalar ops that compute with numbers; ``division`` has those that divide integers or leave a rest.


class LlvmArithmetic(LlvmLogic):
    """Numbers: literals, arithmetic but for ``div`` and ``rem``, and extremes."""

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

    def fdiv(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        """The quotient of floats."""
        return self._binary("fdiv", "", x, y)

    def neg(self, x: LlvmScalar) -> LlvmScalar:
        if not is_float(x.dtype):
            return self._same("sub", self.raw(0, x), x)
        if x.type.endswith(("i16", "i16>")):
            return self._same("xor", x, self.raw(0x8000, x))
        if x.is_literal and (negative := negated(x)) is not None:
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

    def min(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self._extremum("lt", x, y)

    def max(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self._extremum("gt", x, y)

    def _extremum(self, relation: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        if not is_float(x.dtype):
            return self._pick(self._icmp(f"{'s' if is_signed(x.dtype) else 'u'}{relation}", y, x), y, x)
        wide_x, wide_y = self.widen(x), self.widen(y)
        if x.is_literal and is_ordinary(wide_x):  # a NaN can be the other operand alone
            return self._pick(self._fcmp(f"u{relation}", wide_y, wide_x), y, x)
        if y.is_literal and is_ordinary(wide_y):
            return self._pick(self._fcmp(f"o{relation}", wide_y, wide_x), y, x)
        better = self._pick(self._fcmp(f"o{relation}", wide_y, wide_x), y, x)
        return self._pick(self._fcmp("uno", wide_y, wide_y), y, better)

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


# ----------------------------------------------------------------------
# The scalar ops ``div`` and ``rem``, total and without library calls: integers floor; floats as NumPy.


def floor_divide(s: LlvmArithmetic, x: LlvmScalar, y: LlvmScalar) -> tuple[LlvmScalar, LlvmScalar]:
    """Quotient rounded down and remainder with the sign of ``y``; both 0 for y == 0; the minimum // -1 wraps."""
    signed = is_signed(x.dtype)
    zero, one = s.raw(0, x), s.raw(1, x)
    by_zero = s.cmp("eq", y, zero)
    unsafe = by_zero
    if signed:
        lowest = s.raw(-(1 << (8 * x.dtype.itemsize - 1)), x)
        unsafe = s.or_(by_zero, s.and_(s.cmp("eq", x, lowest), s.cmp("eq", y, s.raw(-1, y))))
    divisor = s.select(unsafe, one, y)  # dividing by one wraps as the minimum // -1 does, and has no remainder
    quotient = _quotient(s, x, divisor)
    remainder = s.sub(x, s.mul(quotient, divisor))
    if signed:
        signs_differ = s.cmp("lt", s.xor(remainder, divisor), zero)
        adjust = s.and_(s.cmp("ne", remainder, zero), signs_differ)
        quotient = s.select(adjust, s.sub(quotient, one), quotient)
        remainder = s.select(adjust, s.add(remainder, divisor), remainder)
    return s.select(by_zero, zero, quotient), remainder


def _quotient(s: LlvmArithmetic, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    """The quotient toward zero of safe operands.

    There is no vector instruction for it; where a float holds the operands exactly, its quotient lies too far from the
    next integer to round up to it: |x| < 2**p and |y| < 2**p keep them 2**-2p apart (relatively), above 2**-24 for
    p <= 8 in float32 and above 2**-53 for p <= 16 ... 26; at 32 bits n + 1 - x/y >= 1/y with n*y <= 2**32 does it.
    """
    signed = is_signed(x.dtype)
    if x.lanes == 1 or x.dtype.itemsize == 8:
        return s.make(f"{'sdiv' if signed else 'udiv'} {x}, {y.name}", x.dtype, x.lanes)
    wide = float32 if x.dtype.itemsize <= 2 else float64
    exact = s.make(
        f"fdiv {s.cast(x, wide)}, {s.cast(y, wide).name}", wide, x.lanes
    )  # no fast-math flag: it must round right
    return s.float_to_int(exact, x.dtype)


def float_remainder(s: LlvmArithmetic, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    """``x - floor(x / y) * y`` without intermediate rounding: fmod, plus y where the signs differ; as NumPy's."""
    dtype = x.dtype
    x, y = s.widen(x), s.widen(y)
    name = _fmod(s.function.module, x.lanes)
    wide_x, wide_y = s.cast(x, float64), s.cast(y, float64)
    exact = s.make(s.function.call_of(wide_x.type, name, wide_x, wide_y), float64, x.lanes)
    mod = s.cast(exact, x.dtype)
    zero = s.const(0.0, x.dtype)
    signs_differ = s.xor(s.cmp("lt", y, zero), s.cmp("lt", mod, zero))
    shifted = s.select(signs_differ, s.make(f"fadd {mod}, {y.name}", x.dtype, x.lanes, x.type), mod)
    signed_zero = s.intrinsic("copysign", s.splat(zero, x.lanes), y)
    return s.narrow(s.select(s.cmp("eq", mod, zero), signed_zero, shifted), dtype)


def _fmod(module: LlvmModule, lanes: int) -> str:
    """The name of a function that computes fmod of float64, exactly, as C has it.

    For a >= b > 0 let q be a/b rounded down to 53 bits; a - q*b is then a multiple of lsb(q)*lsb(b) and below lsb(q)*b,
    so one fma gives it without error, and a has lost about 52 bits. fl(a/b) may lie one step above: then a - q*b is
    negative (and still exact) and q steps down. Where a/b overflows, a is scaled down and b up by powers of two.
    """
    name = f"fmod_{lanes}"
    if not module.claim(name):
        return name
    type = lanes_of("double", lanes)
    function = LlvmFunction(module, name, type, attributes="nounwind noinline")
    s = LlvmArithmetic(function, float64)
    x, y = (_scalar(function.argument(type), float64, lanes) for _ in range(2))
    inf, zero = s.const(float("inf")), s.const(0.0)
    magnitude, b = s.intrinsic("fabs", x), s.intrinsic("fabs", y)
    sound = s.and_(s.cmp("lt", magnitude, inf), s.cmp("gt", b, zero))  # false for x infinite or NaN, y zero or NaN
    start = s.select(sound, magnitude, s.splat(zero, lanes))
    b = s.select(sound, b, s.splat(s.const(1.0), lanes))
    entry, loop, done = function.block, function.label("loop"), function.label("done")
    function.jump(loop)
    function.start_block(loop)
    phi = function.phi(type)
    phi.add(start.name, entry)
    a = _scalar(phi.value, float64, lanes)
    ratio = s.fdiv(a, b)
    over = s.cmp("eq", ratio, inf)
    down = s.select(over, s.const(2.0**-600), s.const(1.0))
    up = s.select(over, s.const(2.0**600), s.const(1.0))
    scaled_a, scaled_b = s.mul(a, down), s.mul(b, up)
    ratio = s.fdiv(scaled_a, scaled_b)
    q = s.select(over, ratio, s.floor(ratio))
    rest = s.fma(s.neg(q), scaled_b, scaled_a)
    bits = s.make(f"bitcast {q} to {lanes_of('i64', lanes)}", int64, lanes)
    below = s.make(f"bitcast {s.sub(bits, s.raw(1, bits))} to {type}", float64, lanes)
    is_exact = s.cmp("lt", q, s.const(2.0**53))
    below = s.select(s.and_(is_exact, s.not_(over)), s.sub(q, s.const(1.0)), below)
    rest = s.select(s.cmp("lt", rest, zero), s.fma(s.neg(below), scaled_b, scaled_a), rest)
    rest = s.select(s.cmp("ge", a, b), s.mul(rest, up), a)
    phi.add(rest.name, loop)
    more = any_lane(s, s.cmp("ge", rest, b))
    function.branch(more.name, loop, done)
    function.start_block(done)
    # An infinite y leaves x as it is; the copied sign is that of x, for zeros too.
    result = s.select(sound, s.intrinsic("copysign", rest, x), s.splat(s.const(float("nan")), lanes))
    function.ret(LlvmValue(result.name, result.type))
    function.finish()
    return name


def any_lane(s: LlvmArithmetic, x: LlvmScalar) -> LlvmScalar:
    """Whether a bool is true in any lane, as a uniform bool."""
    if x.lanes == 1:
        return x
    return s.make(f"call i1 @llvm.vector.reduce.or.v{x.lanes}i1({x})", bool_, 1)


def _scalar(value: LlvmValue, dtype: DType, lanes: int) -> LlvmScalar:
    return LlvmScalar(value.name, value.type, dtype, lanes)


# ----------------------------------------------------------------------
# The scalar ops (``ir.scalar``) over LLVM scalars and fixed-width vectors. Every op is total.
#
# A ``LlvmScalar`` of one lane is uniform; of more lanes a vector. Ops take a mix: a uniform operand is splat beside a
# vector. Bool is ``i1``, float16 ``half``, bfloat16 its bits as ``i16``; ops on 16-bit floats compute in float32 and
# round at once, but under ``fastmath`` values of 16-bit floats are kept as ``float`` until they are stored.
#
# They stand in layers, each written in those below it: ``operand``, ``instructions``, ``conversions``, ``logic``,
# ``arithmetic``, ``division``; here is the whole, with ``call``. Math functions are themselves written in these ops:
# their text is written once a process, and long scalar ones are compiled once.

LIBRARY_LINES: Final = 100
"""Length from which on a math function of single numbers is compiled once a process, and called."""


class LlvmScalarOps(LlvmArithmetic):
    """The scalar ops, writing into ``function``. ``dtype`` is the default of ``const``."""

    def div(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self.fdiv(x, y) if is_float(x.dtype) else floor_divide(self, *self.align(x, y))[0]

    def rem(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        return float_remainder(self, x, y) if is_float(x.dtype) else floor_divide(self, x, y)[1]

    def call(self, function: str, *args: LlvmScalar) -> LlvmScalar:
        """A math function: an LLVM function for each (name, dtype, lanes), made on first use."""
        wide = [self.widen(x) for x in self.align(*args)]  # 16-bit floats are rounded once, after the function
        x = wide[0]
        name = math_function(self.function.module, function, tuple(y.dtype for y in wide), x.lanes)
        value = self.make(self.function.call_of(x.type, name, *wide), x.dtype, x.lanes, x.type)
        return self.narrow(value, args[0].dtype)


def math_function(module: LlvmModule, function: str, dtypes: tuple[DType, ...], lanes: int) -> str:
    """The name of the LLVM function for a math function of ``ops.math_functions.functions``, for float32 and float64.

    It is inlined where it is called; a long one of single numbers is declared alone, and has to be linked.
    Fast math does not apply inside it: reassociation would undo the error terms of its arithmetic.
    """
    name = f"m_{function}_{'_'.join(SHORT_NAMES[dtype] for dtype in dtypes)}_{lanes}"
    if module.claim(name):
        module.math.add(name)
        inlined = _defined(name, function, dtypes, lanes, inlined=True)
        if lanes > 1 or not module.links or inlined.lines < LIBRARY_LINES:
            module.functions.append(inlined)
        else:
            module.require("math", name, function, dtypes)
            types = [element_type(dtype) for dtype in dtypes]
            module.declare(f"declare hidden {types[0]} @{name}({', '.join(types)}) nounwind memory(none)")
    return name


@cache
def _defined(name: str, function: str, dtypes: tuple[DType, ...], lanes: int, *, inlined: bool) -> Definition:
    module = LlvmModule("")
    types = [lanes_of(element_type(dtype), lanes) for dtype in dtypes]
    linkage = "internal" if inlined else "hidden"
    writer = LlvmFunction(module, name, types[0], linkage=linkage, attributes="nounwind", inlined=inlined or None)
    ops = LlvmScalarOps(writer, dtypes[0])
    args = [
        LlvmScalar(writer.argument(type).name, type, dtype, lanes) for type, dtype in zip(types, dtypes, strict=True)
    ]
    functions = imports.module("jitgraph.ops.math_functions.functions").FUNCTIONS  # here: most kernels call none
    value = ops.splat(cast("LlvmScalar", functions[function](ops, *args)), lanes)
    assert value.type == types[0], (function, value)
    writer.ret(LlvmValue(value.name, value.type))
    writer.finish()
    (definition,) = module.functions
    return definition


def math_module(target: Target, name: str, function: str, dtypes: tuple[DType, ...]) -> LlvmModule:
    """A module that defines a math function of single numbers."""
    module = LlvmModule(machine.TRIPLE)
    module.functions.append(_defined(name, function, dtypes, 1, inlined=False))
    return module
