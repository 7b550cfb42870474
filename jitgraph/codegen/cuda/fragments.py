"""Products of tensor cores: the instructions, and their operands as they are read from panels in shared memory.

A tile is 16 rows of an operand. A step is 32 bytes of k, so that a panel has two. Lane 4 g + t of a warp has row g of
an accumulator and its columns 2 t and 2 t + 1.

Source of the fragments: PTX ISA 9.0, "Matrix Fragments for mma.m16n8k16" and its neighbours, and "ldmatrix".
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cuda.int32_arithmetic import Int32Writer
from jitgraph.codegen.cuda.panel_layout import CHUNK, DEPTH_BYTES, PanelLayout
from jitgraph.codegen.cuda.warp import call
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmValue
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import DType, bfloat16, float16, float32, float64, int8, int32, uint8
from jitgraph.records import dataclass

TILE: Final = 16
"""Rows of an operand that are read at once."""

STEPS: Final = 2
"""Of a panel."""

_STEP_BYTES: Final = DEPTH_BYTES // STEPS
_FOUR: Final = "{ i32, i32, i32, i32 }"


@dataclass(frozen=True)
class Mma:
    """An instruction: the name of its intrinsic, the dtype of its sums, and the rows of its left operand."""

    name: str
    total: DType
    rows: int = 16

    def products(
        self, function: LlvmFunction, left: list[LlvmValue], right: list[LlvmValue], sums: list[LlvmScalar]
    ) -> list[LlvmScalar]:
        """The eight sums of a lane for a tile of 16 x 16, as ``positions`` has them, with one more step of k."""
        results: list[LlvmScalar] = []
        size, each = self.rows // 4, len(left) * self.rows // TILE
        for down in range(TILE // self.rows):
            for across in range(2):
                a = left[each * down : each * (down + 1)]
                b = right[len(right) // 2 * across : len(right) // 2 * (across + 1)]
                c = sums[len(results) : len(results) + size]
                results += self._product(function, a, b, c)
        return results

    def positions(self) -> list[tuple[int, int]]:
        """Rows and columns of a lane's eight sums in a tile, beside those of the lane."""
        return [
            (down + row, across + column)
            for down in range(0, TILE, self.rows)
            for across in (0, 8)
            for row in range(0, self.rows, 8)
            for column in (0, 1)
        ]

    def _product(
        self, function: LlvmFunction, left: list[LlvmValue], right: list[LlvmValue], sums: list[LlvmScalar]
    ) -> list[LlvmScalar]:
        result = "{ " + ", ".join([sums[0].type] * len(sums)) + " }"
        product = call(function, result, f"mma.{self.name}", *map(str, (*left, *right, *sums)))
        values = [function.emit(sums[0].type, f"extractvalue {product}, {index}") for index in range(len(sums))]
        return [total._replace(name=value.name) for total, value in zip(sums, values, strict=True)]


_MMA: Final = {
    (bfloat16, bfloat16): Mma("m16n8k16.row.col.bf16", float32),
    (float16, float16): Mma("m16n8k16.row.col.f32.f32", float32),
    (float32, float32): Mma("m16n8k8.row.col.tf32", float32),
    (float64, float64): Mma("m8n8k4.row.col.f64", float64, rows=8),
    (int8, int8): Mma("m16n8k32.row.col.s8", int32),
    (int8, uint8): Mma("m16n8k32.row.col.s8.u8", int32),
    (uint8, int8): Mma("m16n8k32.row.col.u8.s8", int32),
    (uint8, uint8): Mma("m16n8k32.row.col.u8", int32),
}

INTRINSICS: Final = (
    *(f"nvvm.mma.{mma.name}" for mma in _MMA.values()),
    *(f"nvvm.ldmatrix.sync.aligned.m8n8.x4{turned}.b16.p3" for turned in ("", ".trans")),
    "nvvm.f2tf32.rna",
)


def mma_of(left: DType, right: DType) -> Mma | None:
    """The instruction that multiplies elements of these dtypes; None where there is none."""
    return _MMA.get((left, right))


def layout_of(dtype: DType, side: int, *, along_k: bool) -> PanelLayout:
    """The layout of a panel in which fragments are read without conflicts; bytes lie along k in any case."""
    if dtype.itemsize == 1:
        along_k = True
    matrices = dtype.itemsize < 8 and (along_k or dtype.itemsize == 2)
    return PanelLayout(side, dtype.itemsize, along_k, matrices)


class FragmentReader:
    """Reads the tiles of a warp, whose rows begin with ``first``, from the panels of one operand."""

    def __init__(
        self, function: LlvmFunction, layout: PanelLayout, dtype: DType, first: LlvmScalar, lane: LlvmScalar, left: bool
    ) -> None:
        self.function, self.layout, self.dtype, self.left = function, layout, dtype, left
        self.words = Int32Writer(function)
        self.first, self.lane = first, lane

    def prepare(self, memory: str, tiles: int) -> None:
        """Compute what is the same in each panel, for so many tiles in the panels of ``memory``."""
        self.memory = memory
        self._places = {(tile, step): self._places_of(tile, step) for tile in range(tiles) for step in range(STEPS)}

    def read(self, stage: LlvmScalar, tile: int, step: int) -> list[LlvmValue]:
        """A lane's registers of a tile at a step, from the panel that begins ``stage`` bytes behind the first."""
        addresses = [self._address(stage, *offset) for offset in self._places[tile, step]]
        if self.layout.matrices:
            turned = "" if self.layout.along_k else ".trans"
            name = f"ldmatrix.sync.aligned.m8n8.x4{turned}.b16.p3"
            four = call(self.function, _FOUR, name, f"ptr addrspace(3) {addresses[0]}")
            raw = [self.function.emit("i32", f"extractvalue {four}, {i}") for i in range(4)]
        else:
            type = "double" if self.dtype == float64 else "i32"
            size = self.dtype.itemsize
            raw = [self.function.emit(type, f"load {type}, ptr addrspace(3) {at}, align {size}") for at in addresses]
        if self.dtype == float32:
            floats = [self.function.emit("float", f"bitcast {each} to float") for each in raw]
            return [call(self.function, "i32", "f2tf32.rna", str(each)) for each in floats]
        if self.dtype == float16:
            return [self.function.emit("<2 x half>", f"bitcast {each} to <2 x half>") for each in raw]
        return raw

    def _address(self, stage: LlvmScalar, register: LlvmScalar, more: int) -> str:
        function = self.function
        offset = self.words.add(register, stage)
        pointer = function.emit("ptr addrspace(3)", f"getelementptr i8, ptr addrspace(3) {self.memory}, {offset}")
        if not more:
            return pointer.name
        return function.emit("ptr addrspace(3)", f"getelementptr i8, {pointer}, i32 {more}").name

    def _places_of(self, tile: int, step: int) -> list[tuple[LlvmScalar, int]]:
        """Where a lane begins to read: its line of a matrix, or each element, as a register and what is added to it."""
        return [self._of_matrix(tile, step)] if self.layout.matrices else self._of_elements(tile, step)

    def _of_matrix(self, tile: int, step: int) -> tuple[LlvmScalar, int]:
        words, layout, lane = self.words, self.layout, self.lane
        if self.left == layout.along_k:
            line, chunk = words.bits(lane, 0, 15), words.bits(lane, 4, 1)
        else:
            upper = words.times(words.bits(lane, 4, 1), 8)
            line, chunk = words.add(words.bits(lane, 0, 7), upper), words.bits(lane, 3, 1)
        if layout.along_k:
            chunk = words.add(chunk, _STEP_BYTES // CHUNK * step)
            return layout.offset(words, words.add(self.first, line), TILE * tile, chunk)
        chunk = words.add(words.divided(self.first, layout.of_chunk), chunk)
        return layout.offset(words, line, _STEP_BYTES // layout.itemsize * step, chunk, TILE * tile // layout.of_chunk)

    def _of_elements(self, tile: int, step: int) -> list[tuple[LlvmScalar, int]]:
        """Four steps of k, t, of eight rows, g, at a time: rows 0 to 7, those below, and so on along k."""
        words, layout = self.words, self.layout
        g, t = words.bits(self.lane, 2, 7), words.bits(self.lane, 0, 3)
        depth = _STEP_BYTES // layout.itemsize
        offsets = {
            (half, k): self._of_element(words.add(self.first, g), TILE * tile + 8 * half, t, depth * step + k)
            for half in (0, 1)
            for k in range(0, depth, 4)
        }
        order = sorted(offsets, key=lambda key: key[::-1]) if self.left else sorted(offsets)
        return [offsets[key] for key in order]

    def _of_element(self, row: LlvmScalar, rows: int, k: LlvmScalar, steps: int) -> tuple[LlvmScalar, int]:
        words, layout = self.words, self.layout
        line, more, along, further = (row, rows, k, steps) if layout.along_k else (k, steps, row, rows)
        position = words.add(along, further)
        start, offset = layout.offset(words, line, more, words.divided(position, layout.of_chunk))
        inside = words.times(words.rest(position, layout.of_chunk), layout.itemsize)
        return words.add(start, inside), offset
