"""Sums whose weights follow from products (``kernel.Attend``): a block has some rows, and goes through the columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from jitgraph.codegen.cuda.attend_products import (
    LOWEST,
    ROWS,
    TILE,
    ZERO,
    FloatProducts,
    LanePosition,
    Numbers,
    Panel,
    Products,
    TensorCoreProducts,
    at_least,
    below,
    both,
    exponential,
    greater,
    layout_of,
    narrowed,
    of_row,
    picked,
    plus,
    times,
    weights_pitch,
    zero_for_lowest,
)
from jitgraph.codegen.cuda.team import VECTOR_BYTES, ThreadStatements
from jitgraph.codegen.cuda.thread_memory import SharedMemory
from jitgraph.codegen.cuda.warp import WARP, ceil_div, special_register, wait_for_block
from jitgraph.codegen.kernels.kernel import Attend, Factor, WeightedSum
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmScalar
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, index_value, least, memory_type, multiply, subtract, to_memory
from jitgraph.codegen.llvm.loops import length
from jitgraph.dtypes import DType, float32, int64
from jitgraph.errors import CompileError
from jitgraph.ir.dims import DimLike, names
from jitgraph.ir.target import Target
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# Factors of sums by weights on their way into shared memory, several columns of a row at a time.
#
# Rows past the last are read where the last one is, and zero is stored for them: so no branch stands between the loads,
# and all of a thread's may be under way at once.

_MOST_AT_ONCE: Final = 16
"""Elements, side by side or not, that a thread reads without a loop around them, in pieces."""


@dataclass(frozen=True)
class RowRange:
    """Rows ``first`` and after of an axis of ``extent`` of them, ``count`` at a time, read by ``threads``."""

    axis: str
    first: LlvmScalar
    extent: LlvmScalar
    count: int

    def is_whole(self) -> bool:
        """Whether there is no row past the last."""
        known = constant_of(self.extent)
        return known is not None and known % self.count == 0


def stage(
    factor: Factor,
    env: Environment,
    side: RowRange,
    panel: Panel,
    filled: int,
    thread: LlvmScalar,
    threads: int,
    statements: ThreadStatements,
) -> None:
    """Store the rows of ``side`` of a factor, ``filled`` columns of each, in ``panel``."""
    itemsize = factor.operand.value.dtype.itemsize
    several = VECTOR_BYTES // itemsize
    while factor.extent % several:
        several //= 2
    pieces = filled // several

    def piece(number: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        s = env.ops
        row, part = (s.make(f"{name} {number}, {pieces}", int64, 1) for name in ("udiv", "urem"))
        column = multiply(env, part, integer(several))
        global_row = add(env, side.first, row)
        inside: list[LlvmScalar] = []
        read_row, read_column = global_row, column
        if not side.is_whole():
            inside.append(s.cmp("lt", global_row, side.extent))
            read_row = least(env, global_row, subtract(env, side.extent, integer(1)))
        if filled != factor.extent:
            inside.append(s.cmp("lt", column, integer(factor.extent)))
            read_column = least(env, column, integer(factor.extent - several))
        values = [
            _element(factor, env, side.axis, read_row, read_column, one, several, statements) for one in range(several)
        ]
        at = add(env, multiply(env, row, integer(panel.pitch)), column)
        type = memory_type(factor.operand.value.dtype)
        start = env.function.emit("ptr", f"getelementptr {type}, {panel.address}, {at}")
        vector = f"<{several} x {type}>"
        line = "poison"
        for one, value in enumerate(values):
            line = env.function.emit(vector, f"insertelement {vector} {line}, {value}, i32 {one}").name
        for condition in inside:
            line = env.function.emit(vector, f"select {condition}, {vector} {line}, {vector} zeroinitializer").name
        env.function.do(f"store {vector} {line}, {start}, align {several * itemsize}")
        return []

    total = side.count * pieces
    turns = total // threads
    if total % threads or turns * several > _MOST_AT_ONCE * several or several == 1:
        loops.counted(env, thread, integer(total), threads, [], piece)
        return
    for turn in range(turns):
        piece(add(env, thread, integer(turn * threads)), [])


def _element(
    factor: Factor,
    env: Environment,
    axis: str,
    row: LlvmScalar,
    column: LlvmScalar,
    one: int,
    several: int,
    statements: ThreadStatements,
) -> LlvmScalar:
    """One of several neighbours; the first says how they are aligned, from which LLVM makes one access."""
    here = env.at({axis: row, factor.axis: add(env, column, integer(one))})
    statements.first_of = (factor.axis, several) if several > 1 and not one else None
    here.emit(factor.operand.body)
    statements.first_of = None
    return to_memory(env, here[factor.operand.value.name], factor.operand.value.dtype)


# ----------------------------------------------------------------------
# How many rows and columns a block has of sums by weights: what shared memory, registers and the lengths allow.


@dataclass(frozen=True)
class AttendTiles:
    """A block of ``warps``, each with sixteen rows, that takes ``inner`` columns at a time."""

    warps: int
    inner: int

    @property
    def rows(self) -> int:
        return ROWS * self.warps

    @property
    def threads(self) -> int:
        return WARP * self.warps


_TILES: Final = tuple(
    AttendTiles(warps, inner) for warps in (4, 2, 1) for inner in (64, 32, 16, 8) if (warps, inner) != (4, 8)
)
"""The best first: more rows for each column that is read, then more columns for each barrier."""

_MOST_NUMBERS: Final = 160
"""Of sums and products in a thread, so that they stay in registers."""

_MOST_INSTRUCTIONS: Final = 1024
"""That weigh the products of a tile in a thread, one by one: random numbers take many."""


def tiles_of(attend: Attend, target: Target) -> tuple[AttendTiles, DimLike]:
    """The best tiles for which there are shared memory, registers and rows, and how many of them there are."""
    layout, itemsize, rows = layout_of(dtype_of(attend)), dtype_of(attend).itemsize, attend.extents[0]
    weighing = length(attend.score.body) + length(attend.derived)
    for tiles in _TILES:
        short = isinstance(rows, int) and rows <= tiles.rows - ROWS
        long = tiles.inner > layout.step and tiles.inner // 2 * weighing > _MOST_INSTRUCTIONS
        if tiles.inner % layout.step or short or long:
            continue
        elements = sum(tiles.rows * layout.pitch(one.extent) for one in attend.rows)
        elements += sum(tiles.inner * layout.pitch(one.extent) for one in attend.columns)
        elements += tiles.rows * weights_pitch(tiles.inner) if dtype_of(attend) == float32 else 0
        numbers = sum(layout.filled(attend.columns[one.factor].extent) // 2 for one in attend.sums)
        numbers += len(attend.products) * tiles.inner // 2
        if elements * itemsize <= target.l1_bytes and numbers <= _MOST_NUMBERS:
            return tiles, ceil_div(rows, tiles.rows)
    raise CompileError("a block has too little shared memory for rows of this many columns")


def dtype_of(attend: Attend) -> DType:
    """That of all factors."""
    return attend.rows[0].operand.value.dtype


# ----------------------------------------------------------------------
# Sums whose weights follow from products (``kernel.Attend``): a block has some rows, and goes through the columns.
#
# A warp has sixteen rows: their sums, and of a softmax their greatest scores and totals so far, stay in registers, and
# what a tile of columns finds to be greater rescales them (Milakov and Gimelshein 2018, Dao et al. 2022). Tiles outside
# of the rows' windows are left out. Memory is that of the operands and the results.

Join: TypeAlias = Callable[[LlvmFunction, LlvmScalar, LlvmScalar], LlvmScalar]


def emit_attend(
    attend: Attend,
    env: Environment,
    tiles: AttendTiles,
    row_tile: LlvmScalar,
    shared: SharedMemory,
    statements: ThreadStatements,
) -> None:
    """Emit the tile of rows number ``row_tile``, what comes after the sums included."""
    _AttendWriter(attend, env, tiles, row_tile, shared, statements).emit()


class _AttendWriter:
    def __init__(
        self,
        attend: Attend,
        env: Environment,
        tiles: AttendTiles,
        row_tile: LlvmScalar,
        shared: SharedMemory,
        statements: ThreadStatements,
    ) -> None:
        self.attend, self.env, self.tiles, self.statements = attend, env, tiles, statements
        self.function = env.function
        self.dtype = dtype_of(attend)
        self.layout = layout_of(self.dtype)
        self.thread = special_register(env.function, "tid.x")
        self.lane = LanePosition(env, self.thread)
        self.first = multiply(env, row_tile, integer(tiles.rows))
        self.extents = [index_value(env, extent) for extent in attend.extents]
        self.rows = [self._panel(shared, one.extent, tiles.rows) for one in attend.rows]
        self.columns = [self._panel(shared, one.extent, tiles.inner) for one in attend.columns]
        self.products: Products
        if self.dtype == float32:
            pitch = weights_pitch(tiles.inner)
            weights = shared.take(env, float32, tiles.rows * pitch, integer(0))
            self.products = FloatProducts(env, self.lane, Panel(weights, tiles.inner, pitch))
        else:
            self.products = TensorCoreProducts(env, self.lane, self.dtype)
        start = add(env, self.first, self.lane.row)
        self.places = [start, add(env, start, integer(TILE))]  # the lane's two rows
        last = subtract(env, self.extents[0], integer(1))
        row_count = constant_of(self.extents[0])
        self.is_whole = row_count is not None and row_count % tiles.rows == 0
        self.read = self.places if self.is_whole else [least(env, row, last) for row in self.places]

    def _panel(self, shared: SharedMemory, columns: int, rows: int) -> Panel:
        pitch = self.layout.pitch(columns)
        return Panel(shared.take(self.env, self.dtype, rows * pitch, integer(0)), columns, pitch)

    def _stage(self, factor: Factor, side: RowRange, panel: Panel) -> None:
        filled = self.layout.filled(factor.extent)
        stage(factor, self.env, side, panel, filled, self.thread, self.tiles.threads, self.statements)

    # --- what columns there are

    def _bound(self, which: int, row: LlvmScalar) -> LlvmScalar:
        """A bound of the window of a row."""
        return index_value(self.env.at({self.attend.m: row}), self.attend.window[which])

    def _ends(self) -> tuple[LlvmScalar, LlvmScalar]:
        """The first column of a tile that a row of the block sees, and the end of the columns that any of them does."""
        env, s, inner = self.env, self.env.ops, self.tiles.inner
        begin = self._bound(0, self.first)
        if constant_of(begin) is None:
            begin = s.make(f"and {begin}, {-inner}", int64, 1)
        past = least(env, add(env, self.first, integer(self.tiles.rows)), self.extents[0])
        end = self._bound(1, subtract(env, past, integer(1)))
        return begin, least(env, end, self.extents[1])

    def _limits(self, first: LlvmScalar) -> list[tuple[LlvmScalar | None, LlvmScalar | None]]:
        """For each of the lane's rows, from which of the tile's columns on and up to which it sees, less its own first.

        None where it sees all of them.
        """
        env, (begin, end) = self.env, self.attend.window
        own, (extent, inner) = add(env, first, self.lane.column), (self.extents[1], self.tiles.inner)
        known = constant_of(extent)
        limits = []
        for row in self.read:
            low = high = None
            if names(begin) or begin != 0:
                low = self._small(subtract(env, self._bound(0, row), own))
            if self.attend.m in names(end) or end != self.attend.extents[1] or known is None or known % inner:
                high = self._small(subtract(env, least(env, self._bound(1, row), extent), own))
            limits.append((low, high))
        return limits

    def _small(self, x: LlvmScalar) -> LlvmScalar:
        """A count of columns as an int32, cut where the tile ends."""
        s, inner = self.env.ops, self.tiles.inner
        return narrowed(self.function, s.min(s.max(x, integer(-TILE)), integer(inner)))

    # --- the loop over tiles of columns

    def emit(self) -> None:
        env, attend = self.env, self.attend
        side = RowRange(attend.m, self.first, self.extents[0], self.tiles.rows)
        for factor, panel in zip(attend.rows, self.rows, strict=True):
            self._stage(factor, side, panel)
        sizes = [self.layout.filled(attend.columns[one.factor].extent) // 2 for one in attend.sums]
        carries = [ZERO] * sum(sizes)
        if attend.softmax is not None:
            carries = [LOWEST, LOWEST, ZERO, ZERO, *carries]
        begin, end = self._ends()
        carried = loops.counted(env, begin, end, self.tiles.inner, carries, self._tile)
        softmax: list[Numbers] = []
        if attend.softmax is not None:
            tops = [zero_for_lowest(self.function, top) for top in carried[:2]]
            totals = [self._across(total, plus) for total in carried[2:4]]
            softmax, carried = [tops, totals], carried[4:]
        self._finish(softmax, carried, sizes)

    def _across(self, x: LlvmScalar, combine: Join) -> LlvmScalar:
        """What a number of the four lanes of a row is together."""
        for distance in (1, 2):
            x = combine(self.function, x, of_row(self.function, x, distance))
        return x

    def _tile(self, first: LlvmScalar, carries: Numbers) -> Numbers:
        attend, function, inner = self.attend, self.function, self.tiles.inner
        wait_for_block(function)
        side = RowRange(attend.n, first, self.extents[1], inner)
        for factor, panel in zip(attend.columns, self.columns, strict=True):
            self._stage(factor, side, panel)
        wait_for_block(function)
        pairs = list(zip(self.rows, self.columns, strict=False))[: len(attend.products)]
        products = [self.products.product(rows, columns, inner) for rows, columns in pairs]
        seen, scopes = self._seen(first), []
        scores: Numbers = []
        for element in range(inner // TILE * 4):
            scope = self._scope(first, element)
            for var, product in zip(attend.products, products, strict=True):
                scope.bind(var.name, product[element])
            scope.emit(attend.score.body)
            scores.append(picked(function, seen[element], scope[attend.score.value.name], LOWEST))
            scopes.append(scope)
        less = [ZERO, ZERO]
        if attend.softmax is not None:
            carries, less = self._rescaled(scores, carries)
        weights = [exponential(function, x, less[number % 4 // 2]) for number, x in enumerate(scores)]
        if attend.softmax is not None:
            for number, weight in enumerate(weights):
                row = 2 + number % 4 // 2
                carries[row] = plus(function, carries[row], weight)
        start = 4 if attend.softmax is not None else 0
        for scope, weight in zip(scopes, weights, strict=True):
            scope.bind(attend.weight.name, weight)
            scope.emit(attend.derived)
        for one in attend.sums:
            panel = self.columns[one.factor]
            lhs = [
                weight if one.weight == attend.weight else picked(function, condition, scope[one.weight.name], ZERO)
                for scope, condition, weight in zip(scopes, seen, weights, strict=True)
            ]
            count = self.layout.filled(panel.columns) // 2
            carries[start : start + count] = self.products.weighted(lhs, panel, inner, carries[start : start + count])
            start += count
        return carries

    def _scope(self, first: LlvmScalar, element: int) -> Environment:
        """The environment at an element of the tile: its row, and its column or the last one there is."""
        env, known = self.env, constant_of(self.extents[1])
        tile, part = divmod(element, 4)
        column = add(env, add(env, first, self.lane.column), integer(tile * TILE + part % 2))
        if known is None or known % self.tiles.inner:
            column = least(env, column, subtract(env, self.extents[1], integer(1)))
        return env.at({self.attend.m: self.read[part // 2], self.attend.n: column})

    def _seen(self, first: LlvmScalar) -> list[LlvmScalar | None]:
        """Whether each element is in its row's window."""
        function, limits = self.function, self._limits(first)
        seen = []
        for element in range(self.tiles.inner // TILE * 4):
            tile, part = divmod(element, 4)
            low, high = limits[part // 2]
            column = tile * TILE + part % 2
            before = None if low is None else at_least(function, column, low)
            seen.append(both(function, before, None if high is None else below(function, column, high)))
        return seen

    def _rescaled(self, scores: Numbers, carries: Numbers) -> tuple[Numbers, Numbers]:
        """The carries where the greatest score is that of this tile as well, and what is taken from scores."""
        function, less, scales = self.function, [], []
        carries = list(carries)
        for row in range(2):
            top = carries[row]
            for number, score in enumerate(scores):
                if number % 4 // 2 == row:
                    top = greater(function, top, score)
            top = self._across(top, greater)
            less.append(zero_for_lowest(function, top))
            scales.append(exponential(function, carries[row], less[row]))
            carries[row], carries[2 + row] = top, times(function, carries[2 + row], scales[row])
        sums = [times(function, x, scales[number % 4 // 2]) for number, x in enumerate(carries[4:])]
        return [*carries[:4], *sums], less

    # --- the end

    def _finish(self, softmax: list[Numbers], sums: Numbers, sizes: list[int]) -> None:
        """What is computed of the sums, and of each row once, where there is such a row."""
        env, attend = self.env, self.attend
        for half, row in enumerate(self.places):
            at = env.at({attend.m: row})
            for var, values in zip(attend.softmax or (), softmax, strict=True):
                at.bind(var.name, values[half])
            with loops.only_if(env, None if self.is_whole else env.ops.cmp("lt", row, self.extents[0])):
                with loops.only_if(env, env.ops.cmp("eq", self.lane.place, integer(0))):
                    at.inner().emit(attend.row)
                start = 0
                for one, size in zip(attend.sums, sizes, strict=True):
                    self._store(one, at, sums[start : start + size], half)
                    start += size

    def _store(self, one: WeightedSum, at: Environment, sums: Numbers, half: int) -> None:
        """The epilogues of a row's columns, two side by side."""
        env, factor = self.env, self.attend.columns[one.factor]
        partial = self.layout.filled(factor.extent) != factor.extent
        for tile in range(len(sums) // 4):
            column = add(env, self.lane.column, integer(tile * TILE))
            if factor.extent % 2:
                for more in range(2):
                    self._element(one, at, add(env, column, integer(more)), sums[4 * tile + 2 * half + more], partial)
                continue
            condition = env.ops.cmp("lt", column, integer(factor.extent)) if partial else None
            with loops.only_if(env, condition):
                for more in range(2):
                    self.statements.first_of = (factor.axis, 2) if not more else None
                    here = at.at({factor.axis: add(env, column, integer(more))})
                    here.bind(one.acc.name, sums[4 * tile + 2 * half + more])
                    here.emit(one.epilogue)
                self.statements.first_of = None

    def _element(self, one: WeightedSum, at: Environment, column: LlvmScalar, total: LlvmScalar, partial: bool) -> None:
        env, factor = self.env, self.attend.columns[one.factor]
        with loops.only_if(env, env.ops.cmp("lt", column, integer(factor.extent)) if partial else None):
            here = at.at({factor.axis: column})
            here.bind(one.acc.name, total)
            here.emit(one.epilogue)
