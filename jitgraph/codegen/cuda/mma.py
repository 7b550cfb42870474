"""Contractions on tensor cores: of 16-bit floats, tf32 and float64 where sums may go in any order, and of bytes.

A block has a tile of the result, each warp a part of it in registers. Panels of both operands (``panels.py``) go round
through some stages of shared memory: while one is multiplied (``fragments.py``), those after it are on their way.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cuda import panels
from jitgraph.codegen.cuda.contract import steps_of
from jitgraph.codegen.cuda.fragments import STEPS, TILE, FragmentReader, Mma, layout_of, mma_of
from jitgraph.codegen.cuda.indices import AxisPosition
from jitgraph.codegen.cuda.int32_arithmetic import Int32Writer
from jitgraph.codegen.cuda.memory import SharedMemory
from jitgraph.codegen.cuda.panel_layout import PanelLayout
from jitgraph.codegen.cuda.panels import Side, wide
from jitgraph.codegen.cuda.pipeline import Pipeline
from jitgraph.codegen.cuda.results import TileResults
from jitgraph.codegen.cuda.thread import ThreadStatements
from jitgraph.codegen.cuda.unravel import ceil_div
from jitgraph.codegen.cuda.warp import PROCESSORS, WARP, special_register
from jitgraph.codegen.kernels.kernel import Contract, Let, Operand, Var
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.environment import Environment, integer
from jitgraph.codegen.llvm.index import add, index_value, multiply
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import bfloat16, float16, float32, int8, is_float, uint8
from jitgraph.ir.dims import DimLike
from jitgraph.ir.target import Target
from jitgraph.records import dataclass

_LEAST_SM: Final = 80
_MOST_STAGES: Final = 4


@dataclass(frozen=True)
class WarpTiles:
    """A block's tile of ``rows`` x ``columns``, of which ``down`` x ``across`` warps have a part each.

    ``counts`` are those of products, of tiles down and of tiles across, which together are the blocks.
    """

    rows: int
    columns: int
    down: int
    across: int
    counts: tuple[DimLike, DimLike, DimLike]
    warps_together: int
    """Of all blocks that a processor is to have room for: 16, so that one block multiplies while another begins or
    ends; 8 where elements of an operand are computed, for which a thread needs more than 128 registers."""

    @property
    def threads(self) -> int:
        return WARP * self.down * self.across

    @property
    def together(self) -> int:
        return max(1, self.warps_together // (self.down * self.across))


SHAPES: Final = ((128, 128, 2, 4), (64, 64, 2, 2), (16, 128, 1, 4), (128, 16, 4, 1), (32, 32, 2, 2))
"""Rows, columns, and warps down and across."""

_MOST_WORDS: Final = 96
"""Of a thread's sums, and elements of a panel that it computes, where it has 128 registers for everything."""

_UNKNOWN: Final = 512
"""What an extent of which nothing is known is taken for."""

_READING: Final = 48
"""Products of a step that take as long as an element of each operand takes on its way."""


def suits(contract: Contract, target: Target) -> bool:
    """Whether tensor cores take the contraction: bytes always, whose sums are exact, and floats in any order."""
    mma = _mma_of(contract)
    if mma is None or target.sm is None or target.sm < _LEAST_SM:
        return False
    if not is_float(mma.total):
        return not is_float(contract.acc.dtype) and contract.acc.dtype.itemsize <= mma.total.itemsize
    if not target.free_order or mma.total != contract.acc.dtype:
        return False
    return source_of(contract.left).dtype != float32 or target.tf32


def _mma_of(contract: Contract) -> Mma | None:
    return mma_of(source_of(contract.left).dtype, source_of(contract.right).dtype)


def source_of(operand: Operand) -> Var:
    """An operand's value before it was cast to the dtype of the sum, where nothing is lost by that."""
    for statement in operand.body:
        if isinstance(statement, Let) and statement.var == operand.value and statement.op == "cast":
            source = statement.args[0]
            narrow = (int8, uint8) if not is_float(operand.value.dtype) else (bfloat16, float16)
            return source if source.dtype in narrow else operand.value
    return operand.value


@dataclass(frozen=True)
class _Factor:
    """An operand: its value before it is cast to the dtype of the sum, its axis, and whether its lines run along k."""

    operand: Operand
    value: Var
    axis: str
    along_k: bool

    def layout(self, rows: int) -> PanelLayout:
        return layout_of(self.value.dtype, rows, along_k=self.along_k)

    def piece(self, k: str, rows: int) -> int | None:
        """The bytes that can be copied at once; None where it has to be computed."""
        return panels.piece_bytes(self.operand, self.value, self.axis, k, self.layout(rows))


def _factors(contract: Contract) -> tuple[_Factor, _Factor]:
    left, right = (
        _Factor(operand, source_of(operand), axis, panels.runs_along(operand, contract.k, axis))
        for operand, axis in ((contract.left, contract.m), (contract.right, contract.n))
    )
    return left, right


def fits(contract: Contract, shape: tuple[int, int, int, int]) -> bool:
    """Whether a thread has registers for its sums in a tile, and for the elements that it computes of a panel."""
    threads = WARP * shape[2] * shape[3]
    mma = _mma_of(contract)
    assert mma is not None
    words = shape[0] * shape[1] * mma.total.itemsize // 4
    for factor, rows in zip(_factors(contract), shape[:2], strict=True):
        if factor.piece(contract.k, rows) is None:
            layout = factor.layout(rows)
            words += rows * layout.depth * (2 if layout.itemsize == 1 else 1)  # bytes are packed
    return words <= _MOST_WORDS * threads


def tiles_of(contract: Contract, batch: DimLike) -> WarpTiles:
    """The tiles of a contraction: those with which the busiest processor has the least to do."""
    m, n, _ = contract.extents
    best: tuple[int, WarpTiles] | None = None
    for shape in SHAPES:
        rows, columns, down, across = shape
        counts = batch, ceil_div(m, rows), ceil_div(n, columns)
        blocks = 1
        for extent, side in ((batch, 1), (m, rows), (n, columns)):
            known = extent if isinstance(extent, int) else (1 if side == 1 else _UNKNOWN)
            blocks *= -(-known // side)
        # a tile more or less for each processor takes as long as the others do
        cost = -(-blocks // PROCESSORS) * (rows * columns + _READING * (rows + columns))
        if (best is None or cost < best[0]) and fits(contract, shape):
            pieces = [
                factor.piece(contract.k, side) for factor, side in zip(_factors(contract), shape[:2], strict=True)
            ]
            best = cost, WarpTiles(rows, columns, down, across, counts, 8 if None in pieces else 16)
    assert best is not None
    return best[1]


class MmaWriter:
    """Writes the tile at ``place``, down and across, its epilogue included."""

    def __init__(
        self,
        contract: Contract,
        env: Environment,
        tiles: WarpTiles,
        tile_index: tuple[LlvmScalar, LlvmScalar],
        shared: SharedMemory,
        statements: ThreadStatements,
    ) -> None:
        self.env = env
        mma = _mma_of(contract)
        assert mma is not None
        self.mma = mma
        function = env.function
        self.words = words = Int32Writer(function)
        thread = words.low(special_register(function, "tid.x"))
        self.lane, warp = words.bits(thread, 0, WARP - 1), words.divided(thread, WARP)
        sides = (tiles.rows, tiles.columns)
        self.parts = tiles.rows // tiles.down, tiles.columns // tiles.across
        warps = words.divided(warp, tiles.across), words.rest(warp, tiles.across)
        self.warp = [words.times(at, part) for at, part in zip(warps, self.parts, strict=True)]
        self.first = [multiply(env, at, integer(side)) for at, side in zip(tile_index, sides, strict=True)]
        self.extents = [index_value(env, extent) for extent in contract.extents]
        self.results = TileResults(contract, env, statements, self.extents, (tiles.rows, tiles.columns))
        operands = []
        for number, (factor, rows) in enumerate(zip(_factors(contract), (tiles.rows, tiles.columns), strict=True)):
            first, extent, dtype = self.first[number], self.extents[number], factor.value.dtype
            side = Side(factor.operand, factor.value, dtype, factor.axis, contract.k, first, extent, self.extents[2])
            operands.append((side, factor.layout(rows), factor.piece(contract.k, rows)))
        self.steps = steps_of(contract, env)
        self.pipeline = Pipeline(env, operands, shared, thread, tiles.threads, self.steps[0])
        assert (contract.span or 0) % self.pipeline.depth == 0
        self.readers = []
        for number, (side, layout, _) in enumerate(operands):
            reader = FragmentReader(function, layout, side.dtype, self.warp[number], self.lane, not number)
            reader.prepare(self.pipeline.memories[number], self.parts[number] // TILE)
            self.readers.append(reader)

    def emit(self) -> None:
        env, pipeline = self.env, self.pipeline
        down, across = (part // TILE for part in self.parts)
        zeros = [env.ops.const(0, self.mma.total)] * (8 * down * across)

        def products(stage: LlvmScalar, sums: list[LlvmScalar]) -> list[LlvmScalar]:
            for step in range(STEPS):
                sums = self._products(stage, step, sums)
            return sums

        def panel(k: LlvmScalar, sums: list[LlvmScalar]) -> list[LlvmScalar]:
            return pipeline.panel(k, lambda stage: products(stage, sums))

        pipeline.begin()
        self._store(loops.counted(env, *self.steps, pipeline.depth, zeros, panel, rolled=True))

    def _products(self, stage: LlvmScalar, step: int, sums: list[LlvmScalar]) -> list[LlvmScalar]:
        """A step of k: the fragments of a warp's part of the tile, and their products."""
        left, right = (
            [reader.read(stage, tile, step) for tile in range(part // TILE)]
            for reader, part in zip(self.readers, self.parts, strict=True)
        )
        products: list[LlvmScalar] = []
        for row in left:
            for column in right:
                products += self.mma.products(self.env.function, row, column, sums[len(products) : len(products) + 8])
        return products

    def _store(self, totals: list[LlvmScalar]) -> None:
        """The epilogue of a lane's sums, two neighbours at a time."""
        env, words = self.env, self.words
        across = self.parts[1] // TILE
        row = wide(env, words.add(self.warp[0], words.bits(self.lane, 2, 7)))
        column = wide(env, words.add(self.warp[1], words.times(words.bits(self.lane, 0, 3), 2)))
        row, column = add(env, self.first[0], row), add(env, self.first[1], column)
        for number in range(0, len(totals), 2):
            tile, element = divmod(number, 8)
            at = self.mma.positions()[element]
            m = AxisPosition(row, TILE * (tile // across) + at[0])
            n = AxisPosition(column, TILE * (tile % across) + at[1])
            self.results.store(m, n, totals[number : number + 2])
