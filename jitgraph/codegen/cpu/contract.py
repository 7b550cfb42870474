"""Contractions: packed into panels over which a register tile runs, but next to no work by a tile straight from the
operands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from jitgraph.codegen.cpu import merge_trees, panels, parallel, skinny_gemm, vectors
from jitgraph.codegen.cpu.tile import Tile, tile_function, tile_of, tiles_for
from jitgraph.codegen.cpu.vectors import POLL_LENGTH, polled, work
from jitgraph.codegen.kernels.kernel import Contract, Operand
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import LlvmScalar
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, element_address, end_of_block, index_value, least, multiply, subtract

# ----------------------------------------------------------------------
# Packed contractions: blocks of both factors are packed into panels, and a register tile runs over the panels.
#
# A block of columns keeps its right panels (columns by ``block_k``) in scratch memory, in the second-level cache, and
# goes down the rows a tile at a time: the left panel of the tile's rows is packed, the tile runs along the right
# panels, and after the last block of k comes the epilogue, while the sums are in the first-level cache. Where k has
# several blocks the sums of a block of rows wait there too, on a stack (``merge_trees.py``): the more of them may have
# to wait at once, the fewer rows a block has. The order of summation is that of ``kernel.Contract``.

RIGHT_SHARE: Final = 3 / 8
"""Of the second-level cache, for a block of the right factor; the sums and the left factor stream through the rest."""

LEAST_COLUMN_BYTES: Final = 512
"""Bytes of one row of a block of columns at least, or the left factor would be packed too often."""

SUM_BYTES: Final = 512 << 10
"""Memory for sums that wait for the next block of k."""

STACK_BYTES: Final = 2 * SUM_BYTES
"""Memory for all the sums on the stack. The lower ones are hardly ever touched."""

SHARE_WORK: Final = 1 << 23
"""Multiply-adds from which on a part of a product is worth packing the right factor for it again."""

MOST_SHARES: Final = 8

LEAST_UNIT_TILES: Final = 4
"""Tiles down a unit at least, for the same reason."""


class PackingPlan(NamedTuple):
    """How a contraction is cut: into units that may be shared among threads, and these into blocks.

    ``unit_rows`` is None where rows are not cut into units. ``rows`` and ``columns`` are of a block, ``depth`` the
    depth of its panels; ``deep`` says that k may have more than one block. Then all the sums on the stack together have
    ``stacked`` rows, and a block has ``rows`` or, where that is too many for it, fewer. ``tiles`` are the tiles of
    which there is code: their rows, and their vectors, ascending.
    """

    unit_rows: int | None
    rows: int
    stacked: int
    columns: int
    depth: int
    deep: bool
    tile: Tile
    tiles: tuple[tuple[int, ...], tuple[int, ...]]


def plan_of(contract: Contract, env: Environment) -> PackingPlan:
    """Units and blocks from the target's numbers, cut down where extents are known to be small."""
    dtype = contract.acc.dtype
    tile = tile_of(env.target, dtype)
    m, n = (constant_of(index_value(env, extent)) for extent in contract.extents[:2])
    k = merge_trees.most_steps(contract, env)
    depth = min(contract.block_k, max(k, 1)) if k is not None else contract.block_k
    room = int(env.target.l2_bytes * RIGHT_SHARE) // _up(contract.block_k, tile.lanes)
    waiting = merge_trees.most_waiting(contract, env)
    room = min(max(LEAST_COLUMN_BYTES, room), SUM_BYTES // tile.rows, STACK_BYTES // (tile.rows * waiting))
    columns = room // dtype.itemsize // tile.columns * tile.columns
    columns = _balanced(n, columns, tile.columns)
    rows = _balanced(m, max(1, SUM_BYTES // dtype.itemsize // columns // tile.rows) * tile.rows, tile.rows)
    unit_rows = _unit_rows(contract, env, (m, n, k), columns, tile) if env.outermost else None
    deep = k is None or k > contract.block_k
    stacked = waiting * max(tile.rows, min(rows, STACK_BYTES // dtype.itemsize // columns // waiting))
    return PackingPlan(unit_rows, rows, stacked, columns, depth, deep, tile, tiles_for(tile, m, n))


def _unit_rows(
    contract: Contract, env: Environment, extents: tuple[int | None, ...], columns: int, tile: Tile
) -> int | None:
    if not parallel.is_worth_sharing(parallel.total_work(env, work((contract,), env))):
        return None
    m, n, k = extents
    if m is None or n is None or k is None:
        return 16 * tile.rows
    shares = min(MOST_SHARES, max(1, m * n * k // SHARE_WORK), m // (LEAST_UNIT_TILES * tile.rows) * -(-n // columns))
    return _balanced(m, -(-m // max(1, -(-shares // -(-n // columns)))), tile.rows)


def _balanced(extent: int | None, most: int, unit: int) -> int:
    """The size of a block, a multiple of ``unit``: as large as ``most`` or less, so that all are about equal."""
    most = _up(most, unit)
    if extent is None:
        return most
    blocks = max(1, -(-extent // most))
    return _up(max(1, -(-extent // blocks)), unit)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def unit_counts(contract: Contract, env: Environment, plan: PackingPlan) -> tuple[LlvmScalar, LlvmScalar]:
    """How many units there are along the rows and along the columns."""
    rows, columns = (index_value(env, extent) for extent in contract.extents[:2])
    down = integer(1) if plan.unit_rows is None else parallel.ceil_div(env, rows, integer(plan.unit_rows))
    return down, parallel.ceil_div(env, columns, integer(plan.columns))


class _Emission(NamedTuple):
    """One contraction being emitted: the memory of one thread's blocks, and the extents."""

    contract: Contract
    plan: PackingPlan
    left: LlvmScalar
    right: LlvmScalar
    sums: LlvmScalar
    extents: tuple[LlvmScalar, LlvmScalar]  # of rows and columns
    steps: tuple[LlvmScalar, LlvmScalar]  # where those of k begin and end
    blocks: LlvmScalar  # of k
    rows: LlvmScalar  # of a block


class _Depths(NamedTuple):
    """A block of k: its place among them, where it begins and where it ends."""

    number: LlvmScalar
    begin: LlvmScalar
    end: LlvmScalar


def emit_units(
    contract: Contract, env: Environment, plan: PackingPlan, across: LlvmScalar, begin: LlvmScalar, end: LlvmScalar
) -> None:
    """Units ``begin .. end`` of the product, epilogue included, row by row of units; ``across`` are in such a row."""
    dtype, tile = contract.acc.dtype, plan.tile
    slack = tile.lanes  # what packing and the epilogue's vectors reach past the end
    depth_room = _up(plan.depth, tile.lanes) + 1

    m, n = (index_value(env, extent) for extent in contract.extents[:2])
    blocks = merge_trees.block_count(contract, env)
    emission = _Emission(
        contract,
        plan,
        env.private(dtype, tile.rows * depth_room + slack),
        env.private(dtype, plan.columns * depth_room + slack),
        env.private(dtype, (plan.stacked if plan.deep else tile.rows) * plan.columns + slack),
        (m, n),
        merge_trees.steps(contract, env),
        blocks,
        _rows_of_block(env, plan, blocks),
    )

    def unit(number: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        row, column = _divided(env, number, across) if plan.unit_rows is not None else (integer(0), number)
        first = multiply(env, column, integer(plan.columns))
        columns = (first, end_of_block(env, first, integer(plan.columns), (integer(0), n)))
        if plan.unit_rows is None:
            _emit_columns(emission, env, (integer(0), m), columns)
        else:
            first = multiply(env, row, integer(plan.unit_rows))
            last = end_of_block(env, first, integer(plan.unit_rows), (integer(0), m))
            _emit_columns(emission, env, (first, last), columns)
        return []

    loops.counted(env, begin, end, 1, [], unit)


def _rows_of_block(env: Environment, plan: PackingPlan, blocks: LlvmScalar) -> LlvmScalar:
    """As many rows, in whole tiles, as leave room on the stack for the sums that so many blocks of k let wait."""
    s, waiting, unit = env.ops, merge_trees.waiting(env, blocks), plan.tile.rows
    known = constant_of(waiting)
    if known is not None:
        return integer(min(plan.rows, max(unit, plan.stacked // known // unit * unit)))
    rows = s.make(f"udiv i64 {plan.stacked}, {waiting.name}", waiting.dtype, 1)
    rows = s.mul(s.make(f"udiv {rows}, {unit}", rows.dtype, 1), integer(unit))
    return s.min(s.max(rows, integer(unit)), integer(plan.rows))


def _divided(env: Environment, x: LlvmScalar, y: LlvmScalar) -> tuple[LlvmScalar, LlvmScalar]:
    a, b = constant_of(x), constant_of(y)
    if b == 1:
        return x, integer(0)
    if a is not None and b is not None:
        return integer(a // b), integer(a % b)
    y = env.ops.max(y, integer(1))
    return tuple(env.ops.make(f"{instruction} {x}, {y.name}", x.dtype, 1) for instruction in ("udiv", "urem"))  # type: ignore[return-value]


_Range = tuple[LlvmScalar, LlvmScalar]


def _emit_columns(emission: _Emission, env: Environment, rows: _Range, columns: _Range) -> None:
    """A block of columns: all of its rows, in blocks where sums must wait for the next block of k."""
    plan, (first_step, last_step) = emission.plan, emission.steps
    block_k = emission.contract.block_k

    def row_block(number: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        first = add(env, rows[0], multiply(env, number, emission.rows))
        block = (first, end_of_block(env, first, emission.rows, rows)) if plan.deep else rows

        def depth_block(number: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            begin = add(env, first_step, multiply(env, number, integer(block_k)))
            end = end_of_block(env, begin, integer(block_k), (first_step, last_step))
            _emit_depth_block(emission, env, block, columns, _Depths(number, begin, end))
            return []

        # An empty k has one block too: it stores zeros, and the epilogue runs.
        asking = polled(env, depth_block, POLL_LENGTH) if plan.deep else depth_block
        loops.counted(env, integer(0), emission.blocks, 1, [], asking)
        return []

    if plan.deep:
        count = parallel.ceil_div(env, subtract(env, rows[1], rows[0]), emission.rows)
        loops.counted(env, integer(0), count, 1, [], row_block)
    else:
        row_block(integer(0), [])


def _emit_depth_block(emission: _Emission, env: Environment, rows: _Range, columns: _Range, depths: _Depths) -> None:
    contract, plan = emission.contract, emission.plan
    right = panels.Panels(emission.right, plan.tile.columns, columns, (depths.begin, depths.end))
    panels.pack(contract.right, (contract.n, contract.k), env, right, emission.extents[1])
    level = multiply(env, emission.rows, integer(plan.columns))
    offset = multiply(env, merge_trees.height(env, depths.number), level)
    merges = merge_trees.merges(env, depths.number, emission.blocks)

    def row_tile(row: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        tile_rows = (row, end_of_block(env, row, integer(plan.tile.rows), rows))
        start = multiply(env, subtract(env, row, rows[0]), integer(plan.columns)) if plan.deep else integer(0)
        free = panels.part(env, emission.sums, add(env, offset, start))
        _emit_tiles(emission, env, right, tile_rows, free, (merges, level))
        total = panels.part(env, emission.sums, start)
        if not plan.deep:
            _emit_epilogue(emission, env, total, tile_rows, columns)
            return []
        function = env.function
        epilogue, after = function.label("epilogue"), function.label("after")
        last = env.ops.cmp("eq", depths.end, emission.steps[1])
        function.branch(last.name, epilogue, after)
        function.start_block(epilogue)
        _emit_epilogue(emission, env, total, tile_rows, columns)
        function.jump(after)
        function.start_block(after)
        return []

    loops.counted(env, *rows, plan.tile.rows, [], row_tile)


def _emit_tiles(
    emission: _Emission,
    env: Environment,
    right: panels.Panels,
    rows: _Range,
    sums: LlvmScalar,
    merged: tuple[LlvmScalar, LlvmScalar],
) -> None:
    """Pack the left panel of a tile's rows, and run the tile along the right panels.

    ``sums`` is the free place on the stack, ``merged`` how many below it are merged and how far they are apart.
    """
    contract, plan = emission.contract, emission.plan
    columns, depths = right.places, right.depths
    left = panels.Panels(emission.left, plan.tile.rows, rows, depths)
    panels.pack(contract.left, (contract.m, contract.k), env, left, emission.extents[0])
    depth = subtract(env, depths[1], depths[0])

    def run_tile(column: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        address = element_address(env, sums, subtract(env, column, columns[0]))
        function = _chosen(env, emission, subtract(env, rows[1], rows[0]), subtract(env, columns[1], column))
        factors = f"{depth}, {left.memory}, {right.panel_at(env, column)}"
        arguments = f"{factors}, ptr {address}, i64 {plan.columns}, {merged[0]}, {merged[1]}"
        env.function.do(f"call void {function}({arguments})")
        return []

    loops.counted(env, *columns, plan.tile.columns, [], run_tile)


def _chosen(env: Environment, emission: _Emission, rows: LlvmScalar, columns: LlvmScalar) -> str:
    """The smallest of the plan's tiles that does so many rows and columns."""
    tile, (by_rows, by_vectors) = emission.plan.tile, emission.plan.tiles

    def by_row(vectors: int) -> str:
        names = [
            tile_function(env, emission.contract.acc.dtype, tile._replace(rows=count, vectors=vectors))
            for count in by_rows
        ]
        return _smallest(env, rows, by_rows, names)

    counts = tuple(vectors * tile.lanes for vectors in by_vectors)
    return _smallest(env, columns, counts, [by_row(vectors) for vectors in by_vectors])


def _smallest(env: Environment, needed: LlvmScalar, counts: tuple[int, ...], names: list[str]) -> str:
    known = constant_of(needed)
    chosen = names[-1]
    for count, name in list(zip(counts, names, strict=True))[-2::-1]:
        if known is not None:
            chosen = name if known <= count else chosen
        else:
            fits = env.ops.cmp("le", needed, integer(count))
            chosen = env.function.emit("ptr", f"select {fits}, ptr {name}, ptr {chosen}").name
    return chosen


def _emit_epilogue(emission: _Emission, env: Environment, sums: LlvmScalar, rows: _Range, columns: _Range) -> None:
    contract, plan = emission.contract, emission.plan
    dtype = contract.acc.dtype

    def row(at: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        start = multiply(env, subtract(env, at, rows[0]), integer(plan.columns))

        def step(here: Environment, carries: list[LlvmScalar]) -> list[LlvmScalar]:
            lanes = here.lanes
            base = lanes.base if lanes is not None else here[contract.n]
            offset = add(env, start, subtract(env, base, columns[0]))
            scope = here.inner()
            width = lanes.width if lanes is not None else 1
            scope.bind(contract.acc.name, panels.load_vector(here, sums, offset, dtype, width))
            scope.emit(contract.epilogue)
            return carries

        scope = env.at({contract.m: at})
        vectors.in_lanes(contract.n, contract.epilogue, scope, *columns, plan.tile.lanes, [], step)
        return []

    loops.counted(env, *rows, 1, [], row)


# ----------------------------------------------------------------------
# Contractions: packed (``contract.py``), but next to no work by a tile straight from the operands.
#
# The order of summation is that of ``kernel.Contract``: it depends on k alone, never on tiles or lanes.

ROWS: Final = 4
"""Rows of the tile that reads its operands directly."""

COLUMN_TILE: Final = 8
"""Rows at a time of a product of one column."""

COLUMN_ROWS: Final = 64
"""Rows of such a product that stay on one thread."""

LITTLE_WORK: Final = 4096
"""Multiply-adds up to which one call is over before panels are packed."""

LEAST_CROSSED: Final = 256
"""Multiply-adds from which on a plain matrix along k is better read by squares than in lanes, element by element."""


def emit_contract(contract: Contract, env: Environment) -> None:
    """Emit ``contract``, its epilogue included; its units are shared among threads where it is outermost."""
    if not contract.is_whole:
        _emit_packed(contract, env)
        return
    m, n, k = (constant_of(index_value(env, extent)) for extent in contract.extents)
    little = LEAST_CROSSED - 1 if skinny_gemm.crosses(contract, env) else LITTLE_WORK
    if m is not None and n is not None and k is not None and m * n * k <= little:
        _emit_rows(contract, env.inner(), integer(0), integer(m), ROWS)
        return
    along_m, along_k = (panels.unit_accesses(contract.left.body, axis) for axis in (contract.m, contract.k))
    if n == 1 and along_k > along_m:
        rows = index_value(env, contract.extents[0])
        _share(contract, env, parallel.ceil_div(env, rows, integer(COLUMN_ROWS)), _emit_column)
        return
    if n is not None and n < env.target.lanes(contract.acc.dtype.itemsize) // 2 and (m is None or m > n):
        contract = _turned(contract)
    if skinny_gemm.suits(contract, env):
        _emit_skinny_gemm(contract, env)
        return
    single = replace(contract, extents=(1, *contract.extents[1:]))
    if m is not None or not skinny_gemm.suits(single, env):
        _emit_packed(contract, env)
        return
    rows = index_value(env, contract.extents[0])
    with loops.only_if(env, env.ops.cmp("eq", rows, integer(1))), env.memory.frame():
        _emit_skinny_gemm(single, env)
    with loops.only_if(env, env.ops.cmp("ne", rows, integer(1))), env.memory.frame():
        _emit_packed(contract, env)


def _emit_skinny_gemm(contract: Contract, env: Environment) -> None:
    width = skinny_gemm.columns_of_unit(contract, env)
    units = parallel.ceil_div(env, index_value(env, contract.extents[1]), integer(width))
    _share(contract, env, units, lambda c, inner, begin, end: skinny_gemm.emit_skinny_gemm(c, inner, width, begin, end))


def _emit_packed(contract: Contract, env: Environment) -> None:
    plan = plan_of(contract, env)
    down, across = unit_counts(contract, env, plan)
    env.bind("$across", across)
    units = multiply(env, down, across)
    _share(contract, env, units, lambda c, inner, *part: emit_units(c, inner, plan, inner["$across"], *part))


def _share(
    contract: Contract,
    env: Environment,
    units: LlvmScalar,
    emit: Callable[[Contract, Environment, LlvmScalar, LlvmScalar], None],
) -> None:
    """``emit`` for ranges that together make all units, on several threads where ``env`` is outermost."""
    if not env.outermost:
        emit(contract, env.inner(), integer(0), units)
        return
    total = parallel.total_work(env, work((contract,), env))
    parallel.parallel_range(
        env, units, parallel.share(env, total, units), lambda inner, begin, end: emit(contract, inner, begin, end)
    )


def _emit_column(contract: Contract, env: Environment, begin: LlvmScalar, end: LlvmScalar) -> None:
    """The rows of some units of a product of one column: scalars, as many chains of sums as hide their latency."""
    first = multiply(env, begin, integer(COLUMN_ROWS))
    rows = index_value(env, contract.extents[0])
    last = least(env, multiply(env, end, integer(COLUMN_ROWS)), rows)
    _emit_rows(contract, env, first, last, COLUMN_TILE)


def _turned(contract: Contract) -> Contract:
    """The contraction with its sides exchanged: hardly any columns become few rows."""
    m, n, k = contract.extents
    return replace(contract, m=contract.n, n=contract.m, extents=(n, m, k), left=contract.right, right=contract.left)


def _emit_rows(contract: Contract, env: Environment, begin: LlvmScalar, end: LlvmScalar, height: int) -> None:
    """Rows ``begin .. end``: ``height`` at a time, then one by one."""
    known = constant_of(end)
    middle = begin
    if known is None or known >= height or begin.name != "0":
        total = subtract(env, end, begin)
        fixed = constant_of(total)
        full = integer(fixed // height * height) if fixed is not None else env.ops.and_(total, integer(-height))
        middle = add(env, begin, full)
        loops.counted(env, begin, middle, height, [], lambda m, _: _emit_plain_columns(contract, env, m, height))
    loops.counted(env, middle, end, 1, [], lambda m, _: _emit_plain_columns(contract, env, m, 1))


def _emit_plain_columns(contract: Contract, env: Environment, m: LlvmScalar, rows: int) -> list[LlvmScalar]:
    columns = index_value(env, contract.extents[1])
    count = env.target.lanes(contract.acc.dtype.itemsize)
    known = constant_of(columns)
    if known is not None and 0 < known < count:
        count = 1 << (known - 1).bit_length()

    def tile(here: Environment, _: list[LlvmScalar]) -> list[LlvmScalar]:
        _emit_tile(contract, here, m, rows)
        return []

    body = (*contract.right.body, *contract.epilogue)
    vectors.in_lanes(contract.n, body, env, integer(0), columns, count, [], tile)
    return []


def _emit_tile(contract: Contract, env: Environment, m: LlvmScalar, rows: int) -> None:
    """``rows`` rows from ``m`` of the columns in lanes (or of one column): their sums, and the epilogue."""
    s, dtype = env.ops, contract.acc.dtype
    lanes = env.lanes.width if env.lanes is not None else 1
    row_indices = [add(env, m, integer(row)) for row in range(rows)]
    depth = index_value(env, contract.extents[2])
    zero = [s.splat(s.const(0, dtype), lanes)] * rows
    blocks = merge_trees.block_count(contract, env)
    level = rows * lanes
    # What merges is loaded, and the last block's sums stay in registers: one block needs no memory.
    several = constant_of(blocks) != 1
    stack = env.private(dtype, merge_trees.most_waiting(contract, env) * level) if several else None

    def block(number: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        start = multiply(env, number, integer(contract.block_k))
        stop = least(env, add(env, start, integer(contract.block_k)), depth)
        sums = loops.counted(env, start, stop, 1, zero, lambda k, sums: _step(contract, env, row_indices, k, sums))
        if stack is None:
            return sums
        height, merges = merge_trees.height(env, number), merge_trees.merges(env, number, blocks)

        def at(below: LlvmScalar, row: int) -> LlvmScalar:
            offset = multiply(env, subtract(env, height, below), integer(level))
            return add(env, offset, integer(row * lanes))

        def merge(number: LlvmScalar, sums: list[LlvmScalar]) -> list[LlvmScalar]:
            below = add(env, number, integer(1))
            old = [panels.load_vector(env, stack, at(below, row), dtype, lanes) for row in range(rows)]
            return [s.add(left, right) for left, right in zip(old, sums, strict=True)]

        merged = loops.counted(env, integer(0), merges, 1, sums, merge)
        for row, total in enumerate(merged):
            panels.store_vector(env, stack, at(merges, row), total)
        return merged

    asking = vectors.polled(env, block, contract.block_k * rows) if several else block
    for row_index, total in zip(row_indices, loops.counted(env, integer(0), blocks, 1, zero, asking), strict=True):
        scope = env.at({contract.m: row_index})
        scope.bind(contract.acc.name, total)
        scope.emit(contract.epilogue)


def _step(
    contract: Contract, env: Environment, rows: list[LlvmScalar], k: LlvmScalar, sums: list[LlvmScalar]
) -> list[LlvmScalar]:
    right = _value(contract.right, env.at({contract.k: k}), contract)
    return [
        env.ops.fma(_value(contract.left, env.at({contract.m: m, contract.k: k}), contract), right, total)
        for m, total in zip(rows, sums, strict=True)
    ]


def _value(operand: Operand, env: Environment, contract: Contract) -> LlvmScalar:
    env.emit(operand.body)
    return env.ops.cast(env[operand.value.name], contract.acc.dtype)
