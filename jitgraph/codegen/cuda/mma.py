"""Contractions of 16-bit floats on tensor cores, where sums may go in any order.

A block of eight warps has a tile of 128 x 128, a warp 64 x 32 of it as 4 x 4 products of 16 x 8 x 16. Both operands are
staged with k innermost, 32 steps at a time, so that two neighbours are one register of a fragment; rows lie 80 bytes
apart, which puts the 32 registers of a fragment into different banks.

Source of the fragments: PTX ISA 8.7, "Matrix Fragments for mma.m16n8k16 with floating point type".
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cuda.contract import Tiles, emit_result, runs_along
from jitgraph.codegen.cuda.memory import SharedMemory
from jitgraph.codegen.cuda.unravel import ceil_div
from jitgraph.codegen.cuda.warp import special_register, wait_for_block
from jitgraph.codegen.kernels.kernel import Contract, Let, Operand, Var
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.access import element_address, to_memory
from jitgraph.codegen.llvm.builder import LlvmValue
from jitgraph.codegen.llvm.environment import Environment, integer
from jitgraph.codegen.llvm.index import add, index_value, multiply
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import bfloat16, float16, float32, int64
from jitgraph.ir.dims import DimLike
from jitgraph.ir.target import Target

_SIDE: Final = 128
_DEPTH: Final = 32
_PITCH: Final = _DEPTH + 8
_WARP_ROWS, _WARP_COLUMNS = 64, 32
_ROWS, _COLUMNS, _STEPS = 16, 8, 16  # of one product
_LEAST_SM: Final = 80


def suits(contract: Contract, target: Target) -> bool:
    """Whether tensor cores take the contraction: 16-bit floats, any order, and sides that fill most of a tile."""
    m, n, _ = contract.extents
    left, right = _source(contract.left), _source(contract.right)
    small = any(isinstance(extent, int) and extent <= _SIDE // 2 for extent in (m, n))
    if not target.free_order or target.sm is None or target.sm < _LEAST_SM or small:
        return False
    return contract.acc.dtype == float32 and left is not None and right is not None and left.dtype == right.dtype


def _source(operand: Operand) -> Var | None:
    """The 16-bit float that an operand is a cast of."""
    for statement in operand.body:
        if isinstance(statement, Let) and statement.var == operand.value and statement.op == "cast":
            return statement.args[0] if statement.args[0].dtype in (bfloat16, float16) else None
    return None


def tiles_of(contract: Contract, batch: DimLike) -> Tiles:
    """The tiles of a contraction on tensor cores; eight warps are (128 / 8)**2 threads."""
    m, n, _ = contract.extents
    return Tiles(_SIDE, _SIDE, 8, (batch, ceil_div(m, _SIDE), ceil_div(n, _SIDE)))


def emit_tiles(
    contract: Contract, env: Environment, tiles: Tiles, place: tuple[LlvmScalar, LlvmScalar], shared: SharedMemory
) -> None:
    """Emit the tile at ``place``, down and across, its epilogue included."""
    _MmaWriter(contract, env, tiles, place, shared).emit()


class _MmaWriter:
    def __init__(
        self,
        contract: Contract,
        env: Environment,
        tiles: Tiles,
        place: tuple[LlvmScalar, LlvmScalar],
        shared: SharedMemory,
    ) -> None:
        self.contract, self.env, self.tiles = contract, env, tiles
        left, right = _source(contract.left), _source(contract.right)
        assert left is not None and right is not None
        self.sources, self.dtype = (left, right), left.dtype
        self.thread = special_register(env.function, "tid.x")
        lane, warp = self._bits(self.thread, 0, 5), self._bits(self.thread, 5, 3)
        self.group, self.pair = self._bits(lane, 2, 3), multiply(env, self._bits(lane, 0, 2), integer(2))
        self.row = multiply(env, self._bits(warp, 2, 1), integer(_WARP_ROWS))  # of the warp, in the tile
        self.column = multiply(env, self._bits(warp, 0, 2), integer(_WARP_COLUMNS))
        self.first = [multiply(env, index, integer(_SIDE)) for index in place]
        self.extents = [index_value(env, extent) for extent in contract.extents]
        self.memory = [shared.take(env, self.dtype, _SIDE * _PITCH, integer(0)) for _ in range(2)]

    def _bits(self, x: LlvmScalar, first: int, count: int) -> LlvmScalar:
        s = self.env.ops
        high = s.make(f"lshr {x}, {first}", int64, 1) if first else x
        return s.make(f"and {high}, {(1 << count) - 1}", int64, 1)

    def emit(self) -> None:
        env, contract, s = self.env, self.contract, self.env.ops
        starts = [self._start(memory, side) for memory, side in zip(self.memory, (self.row, self.column), strict=True)]
        count = 4 * (_WARP_ROWS // _ROWS) * (_WARP_COLUMNS // _COLUMNS)
        zeros = [s.const(0, float32)] * count

        def panel(k: LlvmScalar, sums: list[LlvmScalar]) -> list[LlvmScalar]:
            self._stage(contract.left, contract.m, 0, k)
            self._stage(contract.right, contract.n, 1, k)
            wait_for_block(env.function)
            for step in range(0, _DEPTH, _STEPS):
                sums = self._products(starts, step, sums)
            wait_for_block(env.function)
            return sums

        totals = loops.counted(env, integer(0), self.extents[2], _DEPTH, zeros, panel)
        for number, total in enumerate(totals):
            tile, element = divmod(number, 4)
            down, across = divmod(tile, _WARP_COLUMNS // _COLUMNS)
            row = add(env, add(env, self.row, self.group), integer(_ROWS * down + 8 * (element // 2)))
            column = add(env, add(env, self.column, self.pair), integer(_COLUMNS * across + element % 2))
            m, n = add(env, self.first[0], row), add(env, self.first[1], column)
            emit_result(contract, env, self.extents, (m, n), total)

    def _start(self, memory: LlvmScalar, side: LlvmScalar) -> str:
        """Where a lane's first register of a fragment lies."""
        env = self.env
        row = multiply(env, add(env, side, self.group), integer(_PITCH))
        return element_address(env, memory, add(env, row, self.pair))

    def _stage(self, operand: Operand, axis: str, side: int, k: LlvmScalar) -> None:
        """An operand's part of a panel, [row, k]; zero where there are no such steps."""
        env, s = self.env, self.env.ops
        along_k = runs_along(operand, self.contract.k, axis)
        by = _DEPTH if along_k else _SIDE

        def element(place: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            high, low = (s.make(f"{name} {place}, {by}", int64, 1) for name in ("udiv", "urem"))
            step, row = (low, high) if along_k else (high, low)
            here = env.at({axis: add(env, self.first[side], row), self.contract.k: add(env, k, step)})
            stays = s.cmp("lt", here[self.contract.k], self.extents[2])
            inside = s.and_(s.cmp("lt", here[axis], self.extents[side]), stays)
            at = element_address(env, self.memory[side], add(env, multiply(env, row, integer(_PITCH)), step))
            env.function.do(f"store i16 0, ptr {at}, align 2")
            with loops.only_if(env, inside):
                here.emit(operand.body)
                value = to_memory(env, here[self.sources[side].name], self.dtype)
                env.function.do(f"store {value}, ptr {at}, align 2")
            return []

        loops.counted(env, self.thread, integer(_SIDE * _DEPTH), self.tiles.threads, [], element)

    def _products(self, starts: list[str], step: int, sums: list[LlvmScalar]) -> list[LlvmScalar]:
        """Sixteen steps of k: the fragments of a warp's part of the tile, and their products."""
        rows = [
            [self._register(starts[0], _ROWS * down + 8 * (i % 2), step + 8 * (i // 2)) for i in range(4)]
            for down in range(_WARP_ROWS // _ROWS)
        ]
        columns = [
            [self._register(starts[1], _COLUMNS * across, step + 8 * i) for i in range(2)]
            for across in range(_WARP_COLUMNS // _COLUMNS)
        ]
        found: list[LlvmScalar] = []
        for number, (left, right) in enumerate((left, right) for left in rows for right in columns):
            found += self._product(left, right, sums[4 * number : 4 * number + 4])
        return found

    def _register(self, start: str, row: int, step: int) -> LlvmValue:
        """Two neighbours along k, as one register."""
        function = self.env.function
        place = function.emit("ptr", f"getelementptr i16, ptr {start}, i64 {_PITCH * row + step}")
        raw = function.emit("i32", f"load i32, {place}, align 4")
        return raw if self.dtype == bfloat16 else function.emit("<2 x half>", f"bitcast {raw} to <2 x half>")

    def _product(self, left: list[LlvmValue], right: list[LlvmValue], sums: list[LlvmScalar]) -> list[LlvmScalar]:
        function, four = self.env.function, "{ float, float, float, float }"
        name = "bf16" if self.dtype == bfloat16 else "f32.f32"
        arguments = ", ".join(map(str, (*left, *right, *sums)))
        made = function.emit(four, f"call {four} @llvm.nvvm.mma.m16n8k16.row.col.{name}({arguments})")
        return [self.env.ops.make(f"extractvalue {made}, {place}", float32, 1) for place in range(4)]
