"""The two products of sums by weights, and their numbers: exponentials and extremes, and what lanes of a row
exchange.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from jitgraph.codegen.cuda.warp import call, wait_for_warp
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmScalar, LlvmValue, literal
from jitgraph.codegen.llvm.environment import Environment, integer
from jitgraph.codegen.llvm.index import add, multiply
from jitgraph.dtypes import DType, bfloat16, bool_, float32, int32, int64
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# Numbers of sums by weights: exponentials and extremes of the hardware, and what the four lanes of a row exchange.
#
# They are written without the flags of fast math, since scores of -inf are what a mask makes.

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


# ----------------------------------------------------------------------
# The two products of sums by weights: rows by columns, and weights by columns, of a warp's sixteen rows.
#
# What a product gives lies in registers as tensor cores have it: of tile j, eight columns wide, lane 4 g + t has
# columns 8 j + 2 t and the next, in rows g and g + 8. Factors lie in shared memory row by row. 16-bit floats are
# multiplied by tensor cores, whose fragments ``ldmatrix`` reads; float32 by fused multiply-adds in the same layout, for
# which the weights pass through shared memory.
#
# Source of the fragments: PTX ISA 9.0, "Matrix Fragments for mma.m16n8k16 with floating point type" and "ldmatrix".

ROWS: Final = 16
"""Of a warp."""

TILE: Final = 8
"""Columns of a tile."""

Numbers = list[LlvmScalar]


@dataclass(frozen=True)
class Panel:
    """Rows of a factor in shared memory at ``address``, ``pitch`` elements apart; columns past its own are zero."""

    address: LlvmScalar
    columns: int
    pitch: int


@dataclass(frozen=True)
class PaddedRows:
    """How rows lie in shared memory: columns are filled with zeros up to a multiple of ``step``, ``apart`` lie between.

    So what lanes read at once lies in different banks. Of columns' factors a multiple of ``step`` rows are multiplied.
    """

    step: int
    apart: int

    def filled(self, columns: int) -> int:
        return -(-columns // self.step) * self.step

    def pitch(self, columns: int) -> int:
        """The elements from one row to the next."""
        return self.filled(columns) + self.apart


def layout_of(dtype: DType) -> PaddedRows:
    """The layout of factors of a dtype."""
    return PaddedRows(8, 4) if dtype == float32 else PaddedRows(16, 8)


def weights_pitch(inner: int) -> int:
    """That of float32 weights: half a warp stores pairs of four rows at once, eight words of each."""
    return inner if inner == TILE else inner + TILE


class Products(Protocol):
    """The products of a warp."""

    def product(self, rows: Panel, columns: Panel, inner: int) -> Numbers:
        """The warp's rows by ``inner`` rows of ``columns``: a tile for each eight of these."""

    def weighted(self, weights: Numbers, columns: Panel, inner: int, sums: Numbers) -> Numbers:
        """``sums`` plus weights, laid out as ``product`` gives them, by the columns."""


class LanePosition:
    """A thread's place: its warp's first row, and in it the lane's group g and twice its number t in that."""

    def __init__(self, env: Environment, thread: LlvmScalar) -> None:
        s = env.ops
        self.lane = s.make(f"and {thread}, 31", int64, 1)
        warp = s.make(f"lshr {thread}, 5", int64, 1)
        self.first = multiply(env, warp, integer(ROWS))
        self.group = s.make(f"lshr {self.lane}, 2", int64, 1)
        self.place = s.make(f"and {self.lane}, 3", int64, 1)
        self.column = multiply(env, self.place, integer(2))
        self.row = add(env, self.first, self.group)


class TensorCoreProducts:
    """Of 16-bit floats."""

    def __init__(self, env: Environment, position: LanePosition, dtype: DType) -> None:
        self.env, self.place, self.dtype, self.layout = env, position, dtype, layout_of(dtype)
        s = env.ops
        self._low = s.make(f"and {position.lane}, 7", int64, 1)
        self._next, self._last = (
            multiply(env, s.make(f"and {s.make(f'lshr {position.lane}, {bit}', int64, 1)}, 1", int64, 1), integer(8))
            for bit in (3, 4)
        )

    def product(self, rows: Panel, columns: Panel, inner: int) -> Numbers:
        left = self._start(rows, add(self.env, add(self.env, self.place.first, self._low), self._next), self._last)
        right = self._start(columns, add(self.env, self._low, self._last), self._next)
        sums = [ZERO] * (inner // TILE * 4)
        for k in range(0, self.layout.filled(columns.columns), self.layout.step):
            fragment = self._matrices(left, k)
            for tile in range(0, inner // TILE, 2):
                both = self._matrices(right, tile * TILE * columns.pitch + k)
                for half in range(2):
                    at = 4 * (tile + half)
                    sums[at : at + 4] = self._multiplied(fragment, both[2 * half : 2 * half + 2], sums[at : at + 4])
        return sums

    def weighted(self, weights: Numbers, columns: Panel, inner: int, sums: Numbers) -> Numbers:
        right = self._start(columns, add(self.env, self._low, self._next), self._last)
        sums, brain = list(sums), self.dtype == bfloat16
        for step in range(inner // self.layout.step):
            of_step = weights[8 * step : 8 * step + 8]
            fragment = [pair(self.env.function, *of_step[first : first + 2], brain=brain) for first in range(0, 8, 2)]
            for tile in range(0, self.layout.filled(columns.columns) // TILE, 2):
                both = self._matrices(right, step * self.layout.step * columns.pitch + tile * TILE, turned=True)
                for half in range(2):
                    at = 4 * (tile + half)
                    sums[at : at + 4] = self._multiplied(fragment, both[2 * half : 2 * half + 2], sums[at : at + 4])
        return sums

    def _start(self, panel: Panel, row: LlvmScalar, column: LlvmScalar) -> LlvmValue:
        """Where the line lies that a lane names to ``ldmatrix``, of the first four matrices."""
        function = self.env.function
        at = add(self.env, multiply(self.env, row, integer(panel.pitch)), column)
        address = function.emit("ptr", f"getelementptr i16, {panel.address}, {at}")
        return function.emit("ptr addrspace(3)", f"addrspacecast {address} to ptr addrspace(3)")

    def _matrices(self, start: LlvmValue, offset: int, *, turned: bool = False) -> list[LlvmValue]:
        function, four = self.env.function, "{ i32, i32, i32, i32 }"
        at = function.emit("ptr addrspace(3)", f"getelementptr i16, {start}, i64 {offset}") if offset else start
        name = f"ldmatrix.sync.aligned.m8n8.x4{'.trans' if turned else ''}.b16.p3"
        function.module.declare(f"declare {four} @llvm.nvvm.{name}(ptr addrspace(3))")
        loaded = function.emit(four, f"call {four} @llvm.nvvm.{name}({at})")
        words = [function.emit("i32", f"extractvalue {loaded}, {number}") for number in range(4)]
        return (
            words
            if self.dtype == bfloat16
            else [function.emit("<2 x half>", f"bitcast {x} to <2 x half>") for x in words]
        )

    def _multiplied(self, left: Sequence[LlvmValue], right: Sequence[LlvmValue], sums: Numbers) -> Numbers:
        function, four = self.env.function, "{ float, float, float, float }"
        kind = "bf16" if self.dtype == bfloat16 else "f32.f32"
        arguments = ", ".join(map(str, (*left, *right, *sums)))
        product = function.emit(four, f"call {four} @llvm.nvvm.mma.m16n8k16.row.col.{kind}({arguments})")
        return [number(function, f"extractvalue {product}, {index}") for index in range(4)]


class FloatProducts:
    """Of float32; ``weights`` is shared memory through which they go to the other lanes of their row."""

    def __init__(self, env: Environment, position: LanePosition, weights: Panel) -> None:
        self.env, self.place, self.weights, self.layout = env, position, weights, layout_of(float32)

    def product(self, rows: Panel, columns: Panel, inner: int) -> Numbers:
        env = self.env
        left = [self._at(rows, add(env, self.place.row, integer(more))) for more in (0, TILE)]
        right = self._at(columns, self.place.column)

        def steps(k: LlvmScalar, sums: Numbers) -> Numbers:
            lines = [self._four(start, k) for start in left]
            acc = list(sums)
            for tile, more in _columns(inner):
                line = self._four(right, add(env, k, integer((tile * TILE + more) * columns.pitch)))
                for half in range(2):
                    at = 4 * tile + 2 * half + more
                    for x, y in zip(lines[half], line, strict=True):
                        acc[at] = multiplied(env.function, x, y, acc[at])
            return acc

        zeros = [ZERO] * (inner // TILE * 4)
        return loops.counted(env, integer(0), integer(self.layout.filled(columns.columns)), 4, zeros, steps)

    def weighted(self, weights: Numbers, columns: Panel, inner: int, sums: Numbers) -> Numbers:
        env, function = self.env, self.env.function
        own = [self._at(self.weights, add(env, self.place.row, integer(more))) for more in (0, TILE)]
        wait_for_warp(function)
        for first in range(0, len(weights), 2):
            tile, element = divmod(first, 4)
            column = add(env, self.place.column, integer(tile * TILE))
            address = function.emit("ptr", f"getelementptr float, {own[element // 2]}, {column}")
            line = function.emit("<2 x float>", f"insertelement <2 x float> poison, {weights[first]}, i32 0")
            line = function.emit("<2 x float>", f"insertelement {line}, {weights[first + 1]}, i32 1")
            function.do(f"store {line}, {address}, align 8")
        wait_for_warp(function)
        right = self._at(columns, integer(0))
        tiles = self.layout.filled(columns.columns) // TILE

        def steps(n: LlvmScalar, carried: Numbers) -> Numbers:
            acc = list(carried)
            lines = [self._four(start, n) for start in own]
            for step in range(4):
                line = add(env, multiply(env, add(env, n, integer(step)), integer(columns.pitch)), self.place.column)
                for tile in range(tiles):
                    values = self._vector(right, add(env, line, integer(tile * TILE)), 2)
                    for element in range(4):
                        at = 4 * tile + element
                        acc[at] = multiplied(function, lines[element // 2][step], values[element % 2], acc[at])
            return acc

        return loops.counted(env, integer(0), integer(inner), 4, sums, steps)

    def _at(self, panel: Panel, row: LlvmScalar) -> LlvmValue:
        at = multiply(self.env, row, integer(panel.pitch))
        return self.env.function.emit("ptr", f"getelementptr float, {panel.address}, {at}")

    def _four(self, start: LlvmValue, offset: LlvmScalar) -> Numbers:
        return self._vector(start, offset, 4)

    def _vector(self, start: LlvmValue, offset: LlvmScalar, count: int) -> Numbers:
        function = self.env.function
        address = function.emit("ptr", f"getelementptr float, {start}, {offset}")
        type = f"<{count} x float>"
        vector = function.emit(type, f"load {type}, {address}, align {4 * count}")
        return [number(function, f"extractelement {vector}, i32 {element}") for element in range(count)]


def _columns(inner: int) -> Iterator[tuple[int, int]]:
    """The tiles of a row, and which of a lane's two columns."""
    return ((tile, more) for tile in range(inner // TILE) for more in range(2))
