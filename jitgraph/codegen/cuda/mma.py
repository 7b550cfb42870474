"""Contractions on tensor cores: of 16-bit floats, tf32 and float64 where sums may go in any order, and of bytes.

A block has a tile of the result, each warp a part of it in registers. Panels of both operands (``panels.py``) go round
through some stages of shared memory: while one is multiplied (``fragments.py``), those after it are on their way.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cuda import panels
from jitgraph.codegen.cuda.fragments import STEPS, TILE, FragmentReader, Mma, layout_of, mma_of
from jitgraph.codegen.cuda.memory import SharedMemory
from jitgraph.codegen.cuda.panels import ComputedPanels, CopiedPanels, Side, wide
from jitgraph.codegen.cuda.thread import ThreadStatements
from jitgraph.codegen.cuda.unravel import ceil_div
from jitgraph.codegen.cuda.warp import WARP, special_register, wait_for_block
from jitgraph.codegen.cuda.words import Words, word
from jitgraph.codegen.kernels.kernel import Contract, Let, Operand, Var
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, index_value, least, multiply
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import DType, bfloat16, float16, float32, float64, int8, is_float, uint8
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

    @property
    def threads(self) -> int:
        return WARP * self.down * self.across

    @property
    def together(self) -> int:
        """Blocks that a processor is to have room for: one multiplies while another begins or ends."""
        return 512 // self.threads


_SHAPES: Final = ((128, 128, 2, 4), (64, 64, 2, 2), (16, 128, 1, 4), (128, 16, 4, 1), (32, 32, 2, 2))
"""Rows, columns, and warps down and across."""

_PROCESSORS: Final = 108
"""Of a GPU; a tile more or less for each of them takes as long as the others do."""

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
    return _source(contract.left).dtype != float32 or target.tf32


def _mma_of(contract: Contract) -> Mma | None:
    return mma_of(_source(contract.left).dtype, _source(contract.right).dtype)


def _source(operand: Operand) -> Var:
    """An operand's value before it was cast to the dtype of the sum, where nothing is lost by that."""
    for statement in operand.body:
        if isinstance(statement, Let) and statement.var == operand.value and statement.op == "cast":
            source = statement.args[0]
            narrow = (int8, uint8) if not is_float(operand.value.dtype) else (bfloat16, float16)
            return source if source.dtype in narrow else operand.value
    return operand.value


def tiles_of(contract: Contract, batch: DimLike) -> WarpTiles:
    """The tiles of a contraction: those with which the busiest processor has the least to do."""
    m, n, _ = contract.extents
    best: tuple[int, WarpTiles] | None = None
    for rows, columns, down, across in _SHAPES:
        if contract.acc.dtype == float64 and rows * columns > 64 * 64:
            continue  # the sums alone would take all registers
        counts = batch, ceil_div(m, rows), ceil_div(n, columns)
        blocks = 1
        for extent, side in ((batch, 1), (m, rows), (n, columns)):
            known = extent if isinstance(extent, int) else (1 if side == 1 else _UNKNOWN)
            blocks *= -(-known // side)
        cost = -(-blocks // _PROCESSORS) * (rows * columns + _READING * (rows + columns))
        if best is None or cost < best[0]:
            best = cost, WarpTiles(rows, columns, down, across, counts)
    assert best is not None
    return best[1]


class MmaWriter:
    """Writes the tile at ``place``, down and across, its epilogue included."""

    def __init__(
        self,
        contract: Contract,
        env: Environment,
        tiles: WarpTiles,
        place: tuple[LlvmScalar, LlvmScalar],
        shared: SharedMemory,
        statements: ThreadStatements,
    ) -> None:
        self.contract, self.env, self.tiles, self.statements = contract, env, tiles, statements
        mma = _mma_of(contract)
        assert mma is not None
        self.mma = mma
        function = env.function
        self.words = words = Words(function)
        thread = words.low(special_register(function, "tid.x"))
        self.lane, warp = words.bits(thread, 0, WARP - 1), words.divided(thread, WARP)
        sides = (tiles.rows, tiles.columns)
        self.parts = tiles.rows // tiles.down, tiles.columns // tiles.across
        warps = words.divided(warp, tiles.across), words.rest(warp, tiles.across)
        self.warp = [words.times(at, part) for at, part in zip(warps, self.parts, strict=True)]
        self.first = [multiply(env, at, integer(side)) for at, side in zip(place, sides, strict=True)]
        self.extents = [index_value(env, extent) for extent in contract.extents]
        self.copied: list[tuple[CopiedPanels, str]] = []
        self.computed: list[tuple[ComputedPanels, str]] = []
        self.readers: list[FragmentReader] = []
        self._take(shared, thread)

    def _take(self, shared: SharedMemory, thread: LlvmScalar) -> None:
        """Decide how operands come into shared memory, and where they lie there."""
        contract, env, tiles = self.contract, self.env, self.tiles
        made = []
        operands = ((contract.left, contract.m, tiles.rows), (contract.right, contract.n, tiles.columns))
        for number, (operand, axis, rows) in enumerate(operands):
            value = _source(operand)
            along_k = panels.runs_along(operand, contract.k, axis)
            layout = layout_of(value.dtype, rows, along_k=along_k)
            side = Side(operand, value, axis, contract.k, self.first[number], self.extents[number], self.extents[2])
            made.append((side, layout, panels.piece_bytes(side, layout)))
        bytes = sum(layout.bytes for _, layout, _ in made)
        self.depth = made[0][1].depth
        self.stages = 2 if all(piece is None for _, _, piece in made) else min(_MOST_STAGES, env.target.l1_bytes // bytes)
        memory = shared.variable(env, bytes * self.stages, 128)
        self.stage_bytes = bytes
        start = 0
        for number, (side, layout, piece) in enumerate(made):
            at = memory if not start else f"getelementptr (i8, ptr addrspace(3) {memory}, i32 {start})"
            if piece is None:
                self.computed.append((ComputedPanels(env, side, layout, thread, tiles.threads), at))
            else:
                self.copied.append((CopiedPanels(env, side, layout, piece, thread, tiles.threads), at))
            reader = FragmentReader(env.function, layout, side.value.dtype, self.warp[number], self.lane, not number)
            reader.prepare(at, self.parts[number] // TILE)
            self.readers.append(reader)
            start += layout.bytes

    def emit(self) -> None:
        env, words, depth = self.env, self.words, self.extents[2]
        down, across = (part // TILE for part in self.parts)
        zeros = [env.ops.const(0, self.mma.total)] * (8 * down * across)
        last = word(self.stage_bytes * (self.stages - 1))

        def panel(k: LlvmScalar, carried: list[LlvmScalar]) -> list[LlvmScalar]:
            *sums, stage = carried
            is_first, is_last = (env.ops.cmp("eq", stage, at) for at in (word(0), last))
            before = words.chosen(is_first, last, words.add(stage, -self.stage_bytes))
            after = words.chosen(is_last, word(0), words.add(stage, self.stage_bytes))
            if self.copied:
                panels.wait(env, self.stages - 2)
            wait_for_block(env.function)
            self._copy(before, add(env, k, integer(self.depth * (self.stages - 1))))
            fetched = [each.fetched(add(env, k, integer(self.depth))) for each, _ in self.computed]
            for step in range(STEPS):
                sums = self._products(stage, step, sums)
            for (each, memory), chunks in zip(self.computed, fetched, strict=True):
                each.put(memory, after, chunks)
            return [*sums, after]

        self._begin()
        totals = loops.counted(env, integer(0), depth, self.depth, [*zeros, word(0)], panel)
        self._store(totals[:-1])

    def _begin(self) -> None:
        """Ask for the panels of all stages but one; compute the first."""
        env, depth = self.env, self.extents[2]
        for stage in range(self.stages - 1):
            self._copy(word(stage * self.stage_bytes), integer(stage * self.depth))

        def first(k: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            for each, memory in self.computed:
                each.put(memory, word(0), each.fetched(k))
            return []

        if self.computed:
            loops.counted(env, integer(0), least(env, depth, integer(1)), 1, [], first)

    def _copy(self, stage: LlvmScalar, k: LlvmScalar) -> None:
        """Ask for the panel at step ``k``; behind the last step there is nothing but zeros."""
        for each, memory in self.copied:
            each.start(memory, stage, k)
        if self.copied:
            panels.commit(self.env)

    def _products(self, stage: LlvmScalar, step: int, sums: list[LlvmScalar]) -> list[LlvmScalar]:
        """A step of k: the fragments of a warp's part of the tile, and their products."""
        left, right = (
            [reader.read(stage, tile, step) for tile in range(part // TILE)]
            for reader, part in zip(self.readers, self.parts, strict=True)
        )
        found: list[LlvmScalar] = []
        for row in left:
            for column in right:
                found += self.mma.products(self.env.function, row, column, sums[len(found) : len(found) + 8])
        return found

    def _store(self, totals: list[LlvmScalar]) -> None:
        """The epilogue of a lane's sums, two neighbours at a time."""
        env, words = self.env, self.words
        down, across = (part // TILE for part in self.parts)
        row = wide(env, words.add(self.warp[0], words.bits(self.lane, 2, 7)))
        column = wide(env, words.add(self.warp[1], words.times(words.bits(self.lane, 0, 3), 2)))
        row, column = add(env, self.first[0], row), add(env, self.first[1], column)
        for number in range(0, len(totals), 2):
            tile, element = divmod(number, 8)
            at = self.mma.positions()[element]
            m = add(env, row, integer(TILE * (tile // across) + at[0]))
            n = add(env, column, integer(TILE * (tile % across) + at[1]))
            self._store_pair(m, n, totals[number : number + 2])

    def _store_pair(self, m: LlvmScalar, n: LlvmScalar, pair: list[LlvmScalar]) -> None:
        env, contract, s = self.env, self.contract, self.env.ops
        below = None if _divides(self.tiles.rows, self.extents[0]) else s.cmp("lt", m, self.extents[0])
        whole = _divides(2, self.extents[1])
        with loops.only_if(env, below):
            beside = None if _divides(self.tiles.columns, self.extents[1]) else s.cmp("lt", n, self.extents[1])
            with loops.only_if(env, beside):
                self.statements.first_of = (contract.n, 2) if whole else None
                self._epilogue(m, n, pair[0])
                self.statements.first_of = None
                following = add(env, n, integer(1))
                with loops.only_if(env, None if whole else s.cmp("lt", following, self.extents[1])):
                    self._epilogue(m, following, pair[1])

    def _epilogue(self, m: LlvmScalar, n: LlvmScalar, total: LlvmScalar) -> None:
        contract = self.contract
        scope = self.env.at({contract.m: m, contract.n: n})
        scope.bind(contract.acc.name, scope.ops.cast(total, contract.acc.dtype))
        scope.emit(contract.epilogue)


def _divides(side: int, extent: LlvmScalar) -> bool:
    known = constant_of(extent)
    return known is not None and known % side == 0
