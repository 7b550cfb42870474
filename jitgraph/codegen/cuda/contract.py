"""Contractions in order: a block computes a tile from operands in shared memory, or a thread whole elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from jitgraph.codegen.cuda import panels, thread_memory
from jitgraph.codegen.cuda.indices import AxisPosition
from jitgraph.codegen.cuda.panels import (
    CHUNK,
    ComputedPanels,
    CopiedPanels,
    Int32Writer,
    PanelLayout,
    Side,
    piece_bytes,
    wide,
    word,
)
from jitgraph.codegen.cuda.team import ThreadStatements
from jitgraph.codegen.cuda.thread_memory import SharedMemory
from jitgraph.codegen.cuda.warp import PROCESSORS, ceil_div, special_register, wait_for_block
from jitgraph.codegen.kernels.kernel import Contract
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import LlvmScalar, lanes_of
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, from_memory, index_value, least, memory_type, multiply, subtract
from jitgraph.dtypes import int64
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# The epilogue of a contraction: what a thread makes of its sums, and stores, neighbours together.


class TileResults:
    """Emits the epilogue at the elements of a tile of these ``sides`` that lie inside of the result."""

    def __init__(
        self,
        contract: Contract,
        env: Environment,
        statements: ThreadStatements,
        extents: Sequence[LlvmScalar],
        sides: tuple[int, int],
    ) -> None:
        self.contract, self.env, self.statements = contract, env, statements
        self.extents, self.sides = extents[:2], sides

    def store(self, m: AxisPosition, n: AxisPosition, totals: Sequence[LlvmScalar]) -> None:
        """The elements of row ``m`` from column ``n`` on, which is a multiple of their number."""
        env, s, (rows, columns) = self.env, self.env.ops, self.extents
        together = _divides(len(totals), columns)
        with loops.only_if(env, None if _divides(self.sides[0], rows) else s.cmp("lt", m.value(env), rows)):
            for number, total in enumerate(totals):
                if number and together:
                    continue
                column = AxisPosition(n.first, n.distance + number)
                inside = None if _divides(self.sides[1], columns) else s.cmp("lt", column.value(env), columns)
                with loops.only_if(env, inside):
                    if together:
                        self._row(m, n, totals)
                    else:
                        self._element(m, column, total)

    def _row(self, m: AxisPosition, n: AxisPosition, totals: Sequence[LlvmScalar]) -> None:
        """Elements whose accesses LLVM makes one of: the first says how it is aligned."""
        for number, total in enumerate(totals):
            self.statements.first_of = None if number else (self.contract.n, len(totals))
            self._element(m, AxisPosition(n.first, n.distance + number), total)
        self.statements.first_of = None

    def _element(self, m: AxisPosition, n: AxisPosition, total: LlvmScalar) -> None:
        contract = self.contract
        scope = self.env.at({contract.m: m.value(self.env), contract.n: n.value(self.env)})
        scope.bind(contract.acc.name, scope.ops.cast(total, contract.acc.dtype))
        self.statements.places = {contract.m: m, contract.n: n}
        scope.emit(contract.epilogue)
        self.statements.places = {}


def _divides(side: int, extent: LlvmScalar) -> bool:
    known = constant_of(extent)
    return known is not None and known % side == 0


# ----------------------------------------------------------------------
# A contraction's panels on their way through stages of shared memory: one is multiplied while others come.

T = TypeVar("T")

_MOST_STAGES: Final = 4
_ALIGNMENT: Final = 128
"""Of shared memory: all banks once."""


class Pipeline:
    """The panels of both operands, which lie in ``memories``, a stage behind another."""

    def __init__(
        self,
        env: Environment,
        sides: Sequence[tuple[Side, PanelLayout, int | None]],
        shared: SharedMemory,
        thread: LlvmScalar,
        threads: int,
        first: LlvmScalar,
    ) -> None:
        """Each side with its layout, and the bytes that can be copied at once; ``first`` is the first step."""
        self.env, self.first = env, first
        self.words = Int32Writer(env.function)
        self.depth = sides[0][1].depth
        self.steps = sides[0][0].depth
        self.stage_bytes = sum(layout.bytes for _, layout, _ in sides)
        copies = any(piece is not None for _, _, piece in sides)
        self.stages = min(_MOST_STAGES, shared.left // self.stage_bytes) if copies else 2
        memory = shared.variable(env, self.stage_bytes * self.stages, _ALIGNMENT)
        self.copied: list[tuple[CopiedPanels, str]] = []
        self.computed: list[tuple[ComputedPanels, str]] = []
        self.memories = []
        start = 0
        for side, layout, piece in sides:
            at = memory if not start else f"getelementptr (i8, ptr addrspace(3) {memory}, i32 {start})"
            if piece is None:
                self.computed.append((ComputedPanels(env, side, layout, thread, threads), at))
            else:
                self.copied.append((CopiedPanels(env, side, layout, piece, thread, threads), at))
            self.memories.append(at)
            start += layout.bytes

    def begin(self) -> None:
        """Ask for the panels of all stages but one; compute the first."""
        for stage in range(self.stages - 1):
            self._copy(word(stage * self.stage_bytes), add(self.env, self.first, integer(stage * self.depth)))

        def first(k: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            for each, memory in self.computed:
                each.put(memory, word(0), each.fetched(k))
            return []

        if self.computed:
            some = least(self.env, self.steps, add(self.env, self.first, integer(1)))
            loops.counted(self.env, self.first, some, 1, [], first)

    def last_panel(self, k: LlvmScalar, multiply: Callable[[LlvmScalar], T]) -> T:
        """As ``panel``, where no other comes after it."""
        self._arrive()
        return multiply(self._stage(k))

    def panel(self, k: LlvmScalar, multiply: Callable[[LlvmScalar], T]) -> T:
        """What ``multiply`` makes of the panel at step ``k``, whose stage it is given; later panels come meanwhile.

        All panels take their turn, in order.
        """
        env = self.env
        self._arrive()
        stage = self._stage(k)
        last = word(self.stage_bytes * (self.stages - 1))
        at_first, at_last = (env.ops.cmp("eq", stage, at) for at in (word(0), last))
        before = self.words.chosen(at_first, last, self.words.add(stage, -self.stage_bytes))
        self._copy(before, add(env, k, integer(self.depth * (self.stages - 1))))
        fetched = [each.fetched(add(env, k, integer(self.depth))) for each, _ in self.computed]
        result = multiply(stage)
        for (each, memory), chunks in zip(self.computed, fetched, strict=True):
            after = self.words.chosen(at_last, word(0), self.words.add(stage, self.stage_bytes))
            each.put(memory, after, chunks)
        return result

    def _arrive(self) -> None:
        """All threads have the next panel, and none reads the one before it any more."""
        if self.copied:
            panels.wait(self.env, self.stages - 2)
        wait_for_block(self.env.function)

    def _stage(self, k: LlvmScalar) -> LlvmScalar:
        """Where the stage of the panel at step ``k`` begins, in bytes."""
        number = self.words.divided(self.words.low(subtract(self.env, k, self.first)), self.depth)
        return self.words.times(self.words.rest(number, self.stages), self.stage_bytes)

    def _copy(self, stage: LlvmScalar, k: LlvmScalar) -> None:
        """Ask for the panel at step ``k``; behind the last step there is nothing but zeros."""
        for each, memory in self.copied:
            each.start(memory, stage, k)
        if self.copied:
            panels.commit(self.env)


# ----------------------------------------------------------------------
# Contractions in order: a block computes a tile of rows and columns, whose operands lie in shared memory.
#
# Panels of both operands (``panels.py``) go through stages of shared memory, with all rows of a step side by side. A
# thread has groups of neighbouring rows and columns, which it reads 16 bytes at a time. The fused multiply-adds go in
# order of k, in blocks of ``block_k`` that merge as a tree, as everywhere.


@dataclass(frozen=True)
class Tiles:
    """A block's tile, ``rows`` x ``columns``, of which a thread has ``of_thread`` x ``of_thread``.

    ``counts`` are those of products, of tiles down and of tiles across, which together are the blocks.
    """

    rows: int
    columns: int
    of_thread: int
    counts: tuple[DimLike, DimLike, DimLike]

    @property
    def across(self) -> int:
        """Threads side by side."""
        return self.columns // self.of_thread

    @property
    def threads(self) -> int:
        return self.across * (self.rows // self.of_thread)

    @property
    def together(self) -> int:
        """Blocks that a processor is to have room for: two of many, so that one multiplies while another stages.

        A block alone leaves its threads all registers, which the steps that are written out need.
        """
        blocks = dims.product(self.counts)
        return 1 if isinstance(blocks, int) and blocks <= PROCESSORS else 2


_SIDES: Final = ((128, 8), (64, 4))
"""Sides of tiles and of their threads' parts, the largest first: more multiply-adds for each element that is staged."""

_MOST_BYTES: Final = 32
"""Of a thread's part of a row: with those of float64 the sums would take all registers."""

_TOGETHER: Final = 8
"""Steps that are written out: after so many lines of a panel its chunks lie as before."""

_LEAST_TILES: Final = 64
"""Tiles of a size from which on they keep enough of a GPU's processors at work."""


def tiles_of(contract: Contract, batch: DimLike) -> Tiles:
    """The tiles of a contraction: the largest ones of which there are enough."""
    m, n, _ = contract.extents
    for side, of_thread in _SIDES:
        wasted = any(isinstance(extent, int) and extent <= side // 2 for extent in (m, n))
        if wasted or of_thread * contract.acc.dtype.itemsize > _MOST_BYTES:
            continue
        counts = batch, ceil_div(m, side), ceil_div(n, side)
        total = dims.product(counts)
        # Of named extents nothing is known; tiles of middle size waste little where they are short.
        if total >= _LEAST_TILES if isinstance(total, int) else (side, of_thread) == _SIDES[-1]:
            return Tiles(side, side, of_thread, counts)
    return Tiles(32, 32, 2, (batch, ceil_div(m, 32), ceil_div(n, 32)))


def steps_of(contract: Contract, env: Environment) -> tuple[LlvmScalar, LlvmScalar]:
    """The first step of a contraction and the one behind its last."""
    begin, depth = index_value(env, contract.begin), index_value(env, contract.extents[2])
    return begin, depth if contract.span is None else least(env, depth, add(env, begin, integer(contract.span)))


def blocks_of(
    contract: Contract, env: Environment, steps: tuple[LlvmScalar, LlvmScalar]
) -> tuple[LlvmScalar, int | None]:
    """How many blocks of steps there are, and the most there can be where that is known."""
    s = env.ops
    most = None if contract.span is None else contract.span // contract.block_k
    length = subtract(env, steps[1], steps[0])
    if (count := constant_of(length)) is not None:
        return integer(max(1, -(-count // contract.block_k))), most
    if most == 1:
        return integer(1), most
    up = s.add(s.max(length, integer(1)), integer(contract.block_k - 1))
    return s.make(f"udiv {up}, {contract.block_k}", int64, 1), most


class ContractWriter:
    """Writes the tile at ``place``, down and across, its epilogue included."""

    def __init__(
        self,
        contract: Contract,
        env: Environment,
        tiles: Tiles,
        tile_index: tuple[LlvmScalar, LlvmScalar],
        shared: SharedMemory,
        statements: ThreadStatements,
    ) -> None:
        self.contract, self.env, self.tiles = contract, env, tiles
        self.dtype = contract.acc.dtype
        self.words = words = Int32Writer(env.function)
        thread = words.low(special_register(env.function, "tid.x"))
        self.extents = [index_value(env, extent) for extent in contract.extents]
        self.results = TileResults(contract, env, statements, self.extents, (tiles.rows, tiles.columns))
        self.group = min(tiles.of_thread, CHUNK // self.dtype.itemsize)
        numbers = words.divided(thread, tiles.across), words.rest(thread, tiles.across)
        self.start = [words.times(number, self.group) for number in numbers]
        self.first = [
            multiply(env, at, integer(side)) for at, side in zip(tile_index, (tiles.rows, tiles.columns), strict=True)
        ]
        self.layouts = [
            PanelLayout(rows, self.dtype.itemsize, along_k=False, matrices=True) for rows in (tiles.rows, tiles.columns)
        ]
        sides = []
        for number, (operand, axis) in enumerate(((contract.left, contract.m), (contract.right, contract.n))):
            layout, value, k = self.layouts[number], operand.value, contract.k
            first, extent = self.first[number], self.extents[number]
            side = Side(operand, value, self.dtype, axis, k, first, extent, self.extents[2])
            sides.append((side, layout, piece_bytes(operand, value, axis, k, layout)))
        self.steps = steps_of(contract, env)
        self.pipeline = Pipeline(env, sides, shared, thread, tiles.threads, self.steps[0])

    def emit(self) -> None:
        env, contract, s, pipeline = self.env, self.contract, self.env.ops, self.pipeline
        first, depth = self.steps
        assert contract.block_k % pipeline.depth == 0
        blocks, most = blocks_of(contract, env, self.steps)
        zeros = [s.const(0, self.dtype)] * self.tiles.of_thread**2

        def block(number: LlvmScalar) -> list[LlvmScalar]:
            start = add(env, first, multiply(env, number, integer(contract.block_k)))
            stop = least(env, add(env, start, integer(contract.block_k)), depth)
            full_end = stop
            if not self._ends_whole:
                full_end = subtract(env, stop, s.make(f"urem {stop}, {pipeline.depth}", int64, 1))
            # The assembler unrolls loops of few panels, and then has too few registers.
            sums = loops.counted(env, start, full_end, pipeline.depth, zeros, self._whole_panel, rolled=True)
            return loops.counted(env, full_end, stop, pipeline.depth, sums, self._last_panel)

        def merge(left: object, right: object) -> list[LlvmScalar]:
            return [s.add(x, y) for x, y in zip(left, right, strict=True)]  # type: ignore[call-overload]

        pipeline.begin()
        self._store(thread_memory.merged(env, integer(0), blocks, zeros, block, merge, most))

    @property
    def _ends_whole(self) -> bool:
        """Whether the last panel of every run of steps has as many as the others."""
        known = constant_of(self.extents[2])
        return known is not None and known % self.pipeline.depth == 0

    def _whole_panel(self, k: LlvmScalar, sums: list[LlvmScalar]) -> list[LlvmScalar]:
        def several(stage: LlvmScalar, first: LlvmScalar, sums: list[LlvmScalar]) -> list[LlvmScalar]:
            for step in range(_TOGETHER):
                sums = self._step(stage, first, step, sums)
            return sums

        def products(stage: LlvmScalar) -> list[LlvmScalar]:
            def emit(at: LlvmScalar, sums: list[LlvmScalar]) -> list[LlvmScalar]:
                return several(stage, self.words.low(at), sums)

            return loops.counted(self.env, integer(0), integer(self.pipeline.depth), _TOGETHER, sums, emit)

        return self.pipeline.panel(k, products)

    def _last_panel(self, k: LlvmScalar, sums: list[LlvmScalar]) -> list[LlvmScalar]:
        """The panel that is not whole; steps of zeros would not do, since they make 0.0 of a sum of -0.0."""

        def products(stage: LlvmScalar) -> list[LlvmScalar]:
            def emit(at: LlvmScalar, sums: list[LlvmScalar]) -> list[LlvmScalar]:
                return self._step(stage, self.words.low(at), None, sums)

            return loops.counted(self.env, integer(0), subtract(self.env, self.extents[2], k), 1, sums, emit)

        return self.pipeline.last_panel(k, products)

    def _step(self, stage: LlvmScalar, first: LlvmScalar, step: int | None, sums: list[LlvmScalar]) -> list[LlvmScalar]:
        left, right = (self._read(side, stage, first, step) for side in range(2))
        pairs = [(x, y) for x in left for y in right]
        return [self.env.ops.fma(x, y, total) for (x, y), total in zip(pairs, sums, strict=True)]

    def _read(self, side: int, stage: LlvmScalar, first: LlvmScalar, step: int | None) -> list[LlvmScalar]:
        """A thread's elements of one step, a group at a time."""
        env, dtype, words, layout = self.env, self.dtype, self.words, self.layouts[side]
        memory = memory_type(dtype)
        type = lanes_of(memory, self.group)
        chunk = words.divided(self.start[side], layout.of_chunk)
        inside = words.times(words.rest(self.start[side], layout.of_chunk), dtype.itemsize)
        values = []
        for group in range(self.tiles.of_thread // self.group):
            far = self._stride(layout.side) * group // layout.of_chunk
            # The first of several steps is a multiple of their number, and turns no chunk.
            line, begin = (word(step), words.times(first, layout.pitch)) if step is not None else (first, word(0))
            start, more = layout.offset(words, line, 0, chunk, far)
            at = words.add(words.add(words.add(words.add(start, inside), begin), stage), more)
            gep = f"getelementptr i8, ptr addrspace(3) {self.pipeline.memories[side]}, {at}"
            address = env.function.emit("ptr addrspace(3)", gep)
            vector = env.function.emit(type, f"load {type}, {address}, align {self.group * dtype.itemsize}")
            for element in range(self.group):
                raw = (
                    vector if self.group == 1 else env.function.emit(memory, f"extractelement {vector}, i32 {element}")
                )
                values.append(from_memory(env, LlvmScalar(raw.name, memory, dtype, 1), dtype))
        return values

    def _stride(self, side: int) -> int:
        """How far a thread's groups lie from each other."""
        return side * self.group // self.tiles.of_thread

    def _store(self, totals: list[LlvmScalar]) -> None:
        """The epilogue, of the neighbouring columns of each row together."""
        env, tiles, group = self.env, self.tiles, self.group
        row, column = (add(env, first, wide(env, start)) for first, start in zip(self.first, self.start, strict=True))
        for number in range(0, len(totals), group):
            down, across = divmod(number, tiles.of_thread)
            m = AxisPosition(row, self._stride(tiles.rows) * (down // group) + down % group)
            n = AxisPosition(column, self._stride(tiles.columns) * (across // group))
            self.results.store(m, n, totals[number : number + group])


# ----------------------------------------------------------------------
# Small contractions: each thread computes whole elements of the result, in the order of ``kernel.Contract``.


def emit_element(contract: Contract, env: Environment, index: tuple[LlvmScalar, LlvmScalar]) -> None:
    """Emit the element of row and column ``index``, its epilogue included; the extents are known."""
    s, dtype = env.ops, contract.acc.dtype
    first, depth = steps = steps_of(contract, env)
    (blocks, most), zero = blocks_of(contract, env, steps), [s.const(0, dtype)]
    here = {contract.m: index[0], contract.n: index[1]}

    def step(k: LlvmScalar, sums: list[LlvmScalar]) -> list[LlvmScalar]:
        point = env.at({**here, contract.k: k})
        point.emit((*contract.left.body, *contract.right.body))
        left, right = (s.cast(point[operand.value.name], dtype) for operand in (contract.left, contract.right))
        return [s.fma(left, right, sums[0])]

    def block(number: LlvmScalar) -> list[LlvmScalar]:
        start = add(env, first, multiply(env, number, integer(contract.block_k)))
        stop = least(env, add(env, start, integer(contract.block_k)), depth)
        return loops.counted(env, start, stop, 1, zero, step)

    def merge(left: Sequence[LlvmScalar], right: Sequence[LlvmScalar]) -> list[LlvmScalar]:
        return [s.add(x, y) for x, y in zip(left, right, strict=True)]

    (total,) = thread_memory.merged(env, integer(0), blocks, zero, block, merge, most)
    scope = env.at(here)
    scope.bind(contract.acc.name, total)
    scope.emit(contract.epilogue)
