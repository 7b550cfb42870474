"""Contractions on tensor cores: 16-bit floats, tf32 and float64 where sums may go in any order, and bytes."""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cuda import panels
from jitgraph.codegen.cuda.contract import Pipeline, TileResults, steps_of
from jitgraph.codegen.cuda.indices import AxisPosition
from jitgraph.codegen.cuda.panels import CHUNK, DEPTH_BYTES, Int32Writer, PanelLayout, Side, wide
from jitgraph.codegen.cuda.team import ThreadStatements
from jitgraph.codegen.cuda.thread_memory import SharedMemory
from jitgraph.codegen.cuda.warp import PROCESSORS, WARP, call, ceil_div, special_register
from jitgraph.codegen.kernels.kernel import Contract, Let, Operand, Var
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmScalar, LlvmValue
from jitgraph.codegen.llvm.environment import Environment, integer
from jitgraph.codegen.llvm.index import add, index_value, multiply
from jitgraph.dtypes import DType, bfloat16, float16, float32, float64, int8, int32, is_float, uint8
from jitgraph.ir.dims import DimLike
from jitgraph.ir.target import Target
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# Products of tensor cores: the instructions, and their operands as they are read from panels in shared memory.
#
# A tile is 16 rows of an operand. A step is 32 bytes of k, so that a panel has two. Lane 4 g + t of a warp has row g of
# an accumulator and its columns 2 t and 2 t + 1.
#
# Source of the fragments: PTX ISA 9.0, "Matrix Fragments for mma.m16n8k16" and its neighbours, and "ldmatrix".

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


# ----------------------------------------------------------------------
# Contractions on tensor cores: of 16-bit floats, tf32 and float64 where sums may go in any order, and of bytes.
#
# A block has a tile of the result, each warp a part of it in registers. Panels of both operands (``panels.py``) go
# round through some stages of shared memory: while one is multiplied (``mma.py``), those after it are on their way.

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
