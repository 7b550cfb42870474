"""Packed contractions: blocks of both factors are packed into panels, and a register tile runs over the panels.

A block of rows keeps its left panels (rows by ``block_k``) and its sums (rows by columns of a block) on the stack,
which the second-level cache holds; right panels are packed once a block of rows, and each stays in the first-level
cache while the tile goes down the rows. The order of summation is that of ``kernel.Contract``: blocks of k, in order.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from jitgraph.codegen.kernel import Contract
from jitgraph.codegen.llvm import body as bodies
from jitgraph.codegen.llvm import loops, panels, parallel
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, index_value, multiply, subtract
from jitgraph.codegen.llvm.scalars import Scalar
from jitgraph.codegen.llvm.structure import work
from jitgraph.codegen.llvm.tile import Tile, tile_function, tile_of

ROW_TILES: Final = 8
"""Tiles in a block of rows."""

COLUMN_BYTES: Final = 1536
"""Bytes of one row of the block of sums: 384 float32. With it all blocks together take less than a megabyte."""

SHARES: Final = 4
"""Blocks of rows that there should be at least, where the work is enough for several threads."""


class Plan(NamedTuple):
    """The sizes of one contraction's blocks: elements along m, n and k, and the tile."""

    rows: int
    columns: int
    depth: int
    tile: Tile


def plan_of(contract: Contract, env: Environment) -> Plan:
    """Blocks from the target's numbers, cut down where extents are known to be small."""
    dtype = contract.acc.dtype
    tile = tile_of(env.target, dtype)
    m, n, k = (constant_of(index_value(env, extent)) for extent in contract.extents)
    rows, columns, depth = ROW_TILES * tile.rows, COLUMN_BYTES // dtype.itemsize, contract.block_k
    if m is not None:
        large = env.outermost and parallel.is_worth_sharing(parallel.total_work(env, work((contract,), env)))
        blocks = max(SHARES if large else 1, -(-m // rows))
        rows = min(rows, _up(max(-(-m // blocks), 2 * tile.rows if large else 1), tile.rows))
    if n is not None:
        columns = min(columns, _up(n, tile.columns))
    if k is not None:
        depth = min(depth, max(k, 1))
    return Plan(rows, _up(columns, tile.columns), depth, tile)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


class Blocks(NamedTuple):
    """The memory of one thread's blocks."""

    left: Scalar
    right: Scalar
    sums: Scalar


def emit_rows(contract: Contract, env: Environment, plan: Plan, begin: Scalar, end: Scalar) -> None:
    """Rows ``begin .. end`` of the product, epilogue included."""
    dtype, tile = contract.acc.dtype, plan.tile
    slack = tile.lanes  # what packing and the epilogue's vectors reach past the end
    depth_room = _up(plan.depth, tile.lanes) + 1

    def memory(elements: int) -> Scalar:
        pointer = env.function.alloca(env.words.type(dtype), elements + slack)
        return Scalar(pointer.name, "ptr", dtype, 1)

    blocks = Blocks(
        memory(plan.rows * depth_room), memory(plan.columns * depth_room), memory(plan.rows * plan.columns)
    )
    columns = index_value(env, contract.extents[1])

    def row_block(row: Scalar, _: list[Scalar]) -> list[Scalar]:
        rows = (row, panels.least(env, add(env, row, integer(plan.rows)), end))

        def column_block(column: Scalar, _: list[Scalar]) -> list[Scalar]:
            _emit_block(contract, env, plan, blocks, rows, column, columns)
            return []

        loops.counted(env, integer(0), columns, plan.columns, [], column_block)
        return []

    loops.counted(env, begin, end, plan.rows, [], row_block)


def _emit_block(
    contract: Contract,
    env: Environment,
    plan: Plan,
    blocks: Blocks,
    rows: tuple[Scalar, Scalar],
    column: Scalar,
    columns: Scalar,
) -> None:
    """One block of rows and columns: all of k, then the epilogue."""
    bounds = (column, panels.least(env, add(env, column, integer(plan.columns)), columns))
    depth = index_value(env, contract.extents[2])
    known = constant_of(depth)
    if known is None or known == 0:
        _clear_if_empty(env, plan, blocks.sums, depth)

    def depth_block(at: Scalar, _: list[Scalar]) -> list[Scalar]:
        depths = (at, panels.least(env, add(env, at, integer(contract.block_k)), depth))
        _emit_depth_block(contract, env, plan, blocks, rows, bounds, depths)
        return []

    loops.counted(env, integer(0), depth, contract.block_k, [], depth_block)
    _emit_epilogue(contract, env, plan, blocks.sums, rows, bounds)


def _emit_depth_block(
    contract: Contract,
    env: Environment,
    plan: Plan,
    blocks: Blocks,
    rows: tuple[Scalar, Scalar],
    columns: tuple[Scalar, Scalar],
    depths: tuple[Scalar, Scalar],
) -> None:
    dtype, tile = contract.acc.dtype, plan.tile
    depth = subtract(env, depths[1], depths[0])
    first = env.words.cmp("eq", depths[0], integer(0))
    function = tile_function(env, dtype)
    left = panels.Panels(blocks.left, tile.rows, rows, depths)
    right = panels.Panels(blocks.right, tile.columns, columns, depths)
    panels.pack(contract.left, (contract.m, contract.k), env, left)
    panels.pack(contract.right, (contract.n, contract.k), env, right)

    def tile_column(column: Scalar, _: list[Scalar]) -> list[Scalar]:
        right_panel = right.panel_at(env, column)

        def run_tile(row: Scalar, _: list[Scalar]) -> list[Scalar]:
            across = multiply(env, subtract(env, row, rows[0]), integer(plan.columns))
            place = add(env, across, subtract(env, column, columns[0]))
            sums = panels.element_address(env, blocks.sums, place)
            arguments = f"{depth}, {left.panel_at(env, row)}, {right_panel}, ptr {sums}, i64 {plan.columns}, {first}"
            env.function.do(f"call void @{function}({arguments})")
            return []

        loops.counted(env, *rows, tile.rows, [], run_tile)
        return []

    loops.counted(env, *columns, tile.columns, [], tile_column)


def _emit_epilogue(
    contract: Contract,
    env: Environment,
    plan: Plan,
    sums: Scalar,
    rows: tuple[Scalar, Scalar],
    columns: tuple[Scalar, Scalar],
) -> None:
    dtype = contract.acc.dtype

    def row(at: Scalar, _: list[Scalar]) -> list[Scalar]:
        start = multiply(env, subtract(env, at, rows[0]), integer(plan.columns))

        def step(here: Environment, carries: list[Scalar]) -> list[Scalar]:
            lanes = here.lanes
            base = lanes.base if lanes is not None else here[contract.n]
            place = add(env, start, subtract(env, base, columns[0]))
            scope = here.inner()
            width = lanes.width if lanes is not None else 1
            scope.bind(contract.acc.name, panels.load_vector(here, sums, place, dtype, width))
            bodies.emit_body(contract.epilogue, scope)
            return carries

        scope = env.at({contract.m: at})
        loops.in_lanes(contract.n, contract.epilogue, scope, columns[0], columns[1], plan.tile.lanes, [], step)
        return []

    loops.counted(env, rows[0], rows[1], 1, [], row)


def _clear_if_empty(env: Environment, plan: Plan, sums: Scalar, depth: Scalar) -> None:
    """Zero the sums where there is no k: the tile, which otherwise stores to them first, does not run."""
    s = env.words
    total = plan.rows * plan.columns
    end = s.select(s.cmp("eq", depth, integer(0)), integer(total), integer(0))
    zero = s.splat(s.const(0, sums.dtype), plan.tile.lanes)

    def clear(at: Scalar, _: list[Scalar]) -> list[Scalar]:
        panels.store_vector(env, sums, at, zero)
        return []

    loops.counted(env, integer(0), end, plan.tile.lanes, [], clear)
