"""Contractions: a block computes a tile of rows and columns, whose operands it stages in shared memory.

A thread has ``ROWS`` rows and ``COLUMNS`` columns of the tile in registers. Operands are computed, whatever stands in
their bodies, once for each block that needs them, on the way into shared memory; the fused multiply-adds then go in
order of k, in blocks of ``block_k`` that merge as a tree, as everywhere.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cuda import tree
from jitgraph.codegen.cuda.memory import SharedMemory
from jitgraph.codegen.cuda.unravel import ceil_div
from jitgraph.codegen.cuda.warp import special_register, wait_for_block
from jitgraph.codegen.cuda.panels import runs_along
from jitgraph.codegen.kernels.kernel import Contract, Operand
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.access import element_address, from_memory, memory_type, to_memory
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, index_value, least, multiply, subtract
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import int64
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass

DEPTH: Final = 16
"""Steps of k that are staged at a time; ``block_k`` is a multiple of it."""


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
        """Blocks that a processor is to have room for, so that one multiplies while another stages."""
        return 2


_SIDES: Final = ((128, 8), (64, 4))
"""Sides of tiles and of their threads' parts, the largest first: more multiply-adds for each element that is staged."""

_MOST_BYTES: Final = 32
"""Of a thread's part of a row: with those of float64 the sums would take all registers."""

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


def emit_tiles(
    contract: Contract, env: Environment, tiles: Tiles, place: tuple[LlvmScalar, LlvmScalar], shared: SharedMemory
) -> None:
    """Emit the tile at ``place``, down and across, its epilogue included."""
    _TileWriter(contract, env, tiles, place, shared).emit()


class _TileWriter:
    def __init__(
        self,
        contract: Contract,
        env: Environment,
        tiles: Tiles,
        place: tuple[LlvmScalar, LlvmScalar],
        shared: SharedMemory,
    ) -> None:
        self.contract, self.env, self.tiles = contract, env, tiles
        self.dtype = contract.acc.dtype
        function, s = env.function, env.ops
        self.thread = special_register(function, "tid.x")
        self.x = s.make(f"urem {self.thread}, {tiles.across}", int64, 1)
        self.y = s.make(f"udiv {self.thread}, {tiles.across}", int64, 1)
        self.first_row = multiply(env, place[0], integer(tiles.rows))
        self.first_column = multiply(env, place[1], integer(tiles.columns))
        self.extents = [index_value(env, extent) for extent in contract.extents]
        # A column of padding keeps the rows of the left operand in different banks.
        self.left = shared.take(env, self.dtype, DEPTH * (tiles.rows + 1), integer(0))
        self.right = shared.take(env, self.dtype, DEPTH * (tiles.columns + 1), integer(0))

    def emit(self) -> None:
        env, contract, tiles, s = self.env, self.contract, self.tiles, self.env.ops
        depth = self.extents[2]
        known = constant_of(depth)
        if known is not None:
            blocks = integer(max(1, -(-known // contract.block_k)))
        else:
            up = s.add(s.max(depth, integer(1)), integer(contract.block_k - 1))
            blocks = s.make(f"udiv {up}, {contract.block_k}", int64, 1)
        zeros = [s.const(0, self.dtype)] * tiles.of_thread**2

        def block(number: LlvmScalar) -> list[LlvmScalar]:
            start = multiply(env, number, integer(contract.block_k))
            stop = least(env, add(env, start, integer(contract.block_k)), depth)
            return loops.counted(env, start, stop, DEPTH, zeros, lambda k, sums: self._panel(k, stop, sums))

        def merge(left: object, right: object) -> list[LlvmScalar]:
            return [s.add(x, y) for x, y in zip(left, right, strict=True)]  # type: ignore[call-overload]

        totals = tree.merged(env, integer(0), blocks, zeros, block, merge)
        places = self._places()
        for (row, column), total in zip(places, totals, strict=True):
            m, n = add(env, self.first_row, row), add(env, self.first_column, column)
            emit_result(contract, env, self.extents, (m, n), total)

    def _along(self, offset: LlvmScalar, side: int) -> list[LlvmScalar]:
        """A thread's places along a side of the tile: neighbouring threads have neighbouring ones."""
        apart = side // self.tiles.of_thread
        return [add(self.env, offset, integer(apart * place)) for place in range(self.tiles.of_thread)]

    def _places(self) -> list[tuple[LlvmScalar, LlvmScalar]]:
        rows, columns = self._along(self.y, self.tiles.rows), self._along(self.x, self.tiles.columns)
        return [(row, column) for row in rows for column in columns]

    def _panel(self, k: LlvmScalar, stop: LlvmScalar, sums: list[LlvmScalar]) -> list[LlvmScalar]:
        """Up to ``DEPTH`` steps: both operands into shared memory, then the multiply-adds."""
        env, contract, tiles = self.env, self.contract, self.tiles
        self._stage(contract.left, contract.m, self.left, (self.first_row, self.extents[0]), tiles.rows, k, stop)
        self._stage(
            contract.right, contract.n, self.right, (self.first_column, self.extents[1]), tiles.columns, k, stop
        )
        wait_for_block(env.function)

        def step(at: LlvmScalar, sums: list[LlvmScalar]) -> list[LlvmScalar]:
            left = self._read(self.left, at, self.y, tiles.rows)
            right = self._read(self.right, at, self.x, tiles.columns)
            pairs = [(x, y) for x in left for y in right]
            return [env.ops.fma(x, y, total) for (x, y), total in zip(pairs, sums, strict=True)]

        steps = least(env, integer(DEPTH), subtract(env, stop, k))
        sums = loops.counted(env, integer(0), steps, 1, sums, step)
        wait_for_block(env.function)
        return sums

    def _stage(
        self,
        operand: Operand,
        axis: str,
        memory: LlvmScalar,
        side: tuple[LlvmScalar, LlvmScalar],
        width: int,
        k: LlvmScalar,
        stop: LlvmScalar,
    ) -> None:
        """An operand's part of a panel, [k, row]; what lies outside of it is not read later."""
        env, s, (first, extent) = self.env, self.env.ops, side
        along_k = runs_along(operand, self.contract.k, axis)

        def element(place: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            by = DEPTH if along_k else width
            high, low = (s.make(f"{name} {place}, {by}", int64, 1) for name in ("udiv", "urem"))
            step, row = (low, high) if along_k else (high, low)
            here = env.at({axis: add(env, first, row), self.contract.k: add(env, k, step)})
            inside = s.and_(s.cmp("lt", here[axis], extent), s.cmp("lt", here[self.contract.k], stop))
            with loops.only_if(env, inside):
                here.emit(operand.body)
                value = to_memory(env, s.cast(here[operand.value.name], self.dtype), self.dtype)
                at = add(env, multiply(env, step, integer(width + 1)), row)
                env.function.do(f"store {value}, ptr {element_address(env, memory, at)}, align {self.dtype.itemsize}")
            return []

        loops.counted(env, self.thread, integer(width * DEPTH), self.tiles.threads, [], element)

    def _read(self, memory: LlvmScalar, step: LlvmScalar, first: LlvmScalar, width: int) -> list[LlvmScalar]:
        """A thread's elements of one step, at fixed distances from the first of them."""
        env, dtype = self.env, self.dtype
        type = memory_type(dtype)
        at = add(env, multiply(env, step, integer(width + 1)), first)
        place = element_address(env, memory, at)
        found = []
        for offset in range(0, width, width // self.tiles.of_thread):
            address = env.function.emit("ptr", f"getelementptr {type}, ptr {place}, i64 {offset}")
            raw = env.ops.make(f"load {type}, {address}, align {dtype.itemsize}", dtype, 1, type)
            found.append(from_memory(env, raw, dtype))
        return found


def emit_result(
    contract: Contract,
    env: Environment,
    extents: list[LlvmScalar],
    place: tuple[LlvmScalar, LlvmScalar],
    total: LlvmScalar,
) -> None:
    """Emit the epilogue of one element of a tile, where it lies inside of the result."""
    s, (m, n) = env.ops, place
    scope = env.at({contract.m: m, contract.n: n})
    scope.bind(contract.acc.name, total)
    with loops.only_if(env, s.and_(s.cmp("lt", m, extents[0]), s.cmp("lt", n, extents[1]))):
        scope.emit(contract.epilogue)
