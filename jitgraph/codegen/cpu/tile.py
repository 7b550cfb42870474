"""The register tile of packed contractions, and the transposed square of packing: functions of a small library.

The tile multiplies rows of a packed left panel with vectors of a packed right panel and sums in registers. Sources of
the scheme: Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"; Van Zee and van de Geijn
2015 (BLIS). They depend on the target and the dtype alone: each is compiled once a process and linked into images.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final, NamedTuple

from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmScalar, LlvmValue, fetch_line
from jitgraph.codegen.llvm.environment import Environment
from jitgraph.codegen.llvm.scalars import LlvmScalarOps
from jitgraph.dtypes import SHORT_NAMES, DType, float32, float64, uint8, uint16
from jitgraph.ir.target import Target

AHEAD: Final = 16
"""Steps of k by which panels are fetched from the second-level cache before they are used."""

PART_BYTES: Final = 16
"""Parts of registers within which the processor shuffles at once."""

SQUARES: Final = {1: uint8, 2: uint16, 4: float32, 8: float64}
"""The dtype whose square transposes elements of so many bytes."""

FEW_ROWS: Final = (4, 8)  # rows of the smaller tiles, for products of few rows and the last rows of others
_MANY_TILES: Final = 8  # from so many tiles on, one that is not full does not count


class Tile(NamedTuple):
    """``rows`` by ``vectors`` accumulators of ``lanes`` elements."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def tile_of(target: Target, dtype: DType) -> Tile:
    """The tile that fills the registers: accumulators, the right panel's vectors, and one to broadcast the left."""
    lanes = target.lanes(dtype.itemsize)
    vectors = 2
    rows = (target.registers - vectors - 2) // vectors
    return Tile(rows - rows % 2, vectors, lanes)


def _counts(extent: int | None, full: int, few: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of tiles that ``extent`` is worth, ascending: of ``full``, and fewer where its last ones are few."""
    if extent is None or extent > _MANY_TILES * full:
        return (full,)
    rest = extent % full or full
    last = min((count for count in few if rest <= count < full), default=full)
    return tuple(sorted({last, *([full] if extent >= full else [])}))


def tiles_for(tile: Tile, rows: int | None, columns: int | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of rows, and of vectors, of the tiles that a product is worth; extents that are not known are None.

    A batch that is not known may be small, so there is a tile of few rows for it.
    """
    vectors = _counts(columns, tile.columns, tuple(range(tile.lanes, tile.columns, tile.lanes)))
    by_rows = _counts(rows, tile.rows, FEW_ROWS) if rows is not None else (FEW_ROWS[0], tile.rows)
    return by_rows, tuple(count // tile.lanes for count in vectors)


def tile_function(env: Environment, dtype: DType, tile: Tile) -> str:
    """The operand for ``void f(i64 depth, ptr left, ptr right, ptr sums, i64 stride, i64 merges, i64 level)``.

    It sums ``left[k, row] * right[k, column]`` over k from zero in order. ``sums`` (rows ``stride`` elements apart) is
    the free place on a stack of sums that are ``level`` elements apart: those of the ``merges`` places below are added,
    each on the left, the nearest first, and the result goes where the last of them lay. ``tile`` may have fewer rows
    and vectors than the panels are wide.
    """
    name = f"jg_tile_{SHORT_NAMES[dtype]}_{tile.rows}_{tile.vectors}"
    env.module.declare(f"declare hidden void @{name}(i64, ptr, ptr, ptr, i64, i64, i64) nounwind\n")
    env.module.require("tile", dtype, tile.rows, tile.vectors)
    return env.function.named(name)


def square_function(env: Environment, dtype: DType, lanes: int) -> str:
    """The operand for ``void f(ptr square, i64 stride, ptr to, i64 width)``, declared in the module.

    It writes the columns of a square of ``lanes`` by ``lanes``, its rows ``stride`` elements apart, to rows ``width``
    apart. Elements of one size share it.
    """
    dtype = SQUARES[dtype.itemsize]
    name = _square_name(dtype, lanes)
    env.module.declare(f"declare hidden void @{name}(ptr, i64, ptr, i64) nounwind\n")
    env.module.require("square", dtype, lanes)
    return env.function.named(name)


def tile_module(target: Target, dtype: DType, rows: int, vectors: int) -> LlvmModule:
    """A module that defines a tile."""
    module = LlvmModule(machine.TRIPLE)
    panels = tile_of(target, dtype)
    _emit_tile(module, panels, panels._replace(rows=rows, vectors=vectors), dtype)
    return module


def square_module(target: Target, dtype: DType, lanes: int) -> LlvmModule:
    """A module that defines a transposed square."""
    module = LlvmModule(machine.TRIPLE)
    _emit_square(module, lanes, dtype)
    return module


def _square_name(dtype: DType, lanes: int) -> str:
    return f"jg_square_{SHORT_NAMES[dtype]}_{lanes}"


def _emit_tile(module: LlvmModule, panels: Tile, tile: Tile, dtype: DType) -> None:
    """One tile over panels that are as wide as ``panels`` says."""
    name = f"jg_tile_{SHORT_NAMES[dtype]}_{tile.rows}_{tile.vectors}"
    function = LlvmFunction(module, name, "void", linkage="hidden", attributes="nounwind")
    depth, left, right = function.argument("i64"), *(function.argument("ptr", "noalias readonly") for _ in range(2))
    sums = function.argument("ptr", "noalias")
    stride, merges, level = (function.argument("i64") for _ in range(3))
    ops = LlvmScalarOps(function, dtype)
    zero = ops.splat(ops.const(0, dtype), tile.lanes)
    totals = [zero] * (tile.rows * tile.vectors)
    any_ = function.emit("i1", f"icmp sgt {merges}, 0")
    below = function.emit("i64", f"sub nsw i64 0, {level.name}")
    nearest = function.emit("i64", f"select i1 {any_.name}, {below}, i64 0")
    pointer = function.emit("ptr", f"getelementptr inbounds {ops.type(dtype)}, {sums}, {nearest}")
    for address in _addresses(ops, tile, dtype, pointer, stride):
        fetch_line(ops.function, address, write=True)
    totals = _steps(ops, panels, tile, dtype, left, right, depth, totals)
    before, merge, store = function.block, function.label("merge"), function.label("store")
    function.branch(any_.name, merge, store)
    function.start_block(merge)
    at, left_over = function.phi("ptr"), function.phi("i64")
    phis = [function.phi(total.type) for total in totals]
    at.add(sums.name, before)
    left_over.add(merges.name, before)
    lower = function.emit("ptr", f"getelementptr inbounds {ops.type(dtype)}, {at.value}, {below}")
    fewer = function.emit("i64", f"sub nsw {left_over.value}, 1")
    merged = []
    for phi, total, address in zip(phis, totals, _addresses(ops, tile, dtype, lower, stride), strict=True):
        phi.add(total.name, before)
        merged.append(ops.add(_load(ops, dtype, address, tile.lanes), total._replace(name=phi.value.name)))
        phi.add(merged[-1].name, merge)
    at.add(lower.name, merge)
    left_over.add(fewer.name, merge)
    function.branch(function.emit("i1", f"icmp sgt {fewer}, 0").name, merge, store)
    function.start_block(store)
    to = function.phi("ptr")
    to.add(sums.name, before)
    to.add(lower.name, merge)
    phis = [function.phi(total.type) for total in totals]
    for phi, total, new in zip(phis, totals, merged, strict=True):
        phi.add(total.name, before)
        phi.add(new.name, merge)
    for phi, total, address in zip(phis, totals, _addresses(ops, tile, dtype, to.value, stride), strict=True):
        _store(ops, total._replace(name=phi.value.name), address)
    function.ret()
    function.finish()


def _addresses(ops: LlvmScalarOps, tile: Tile, dtype: DType, first: LlvmValue, stride: LlvmValue) -> Iterator[str]:
    """The addresses of a tile's vectors in memory, row by row from ``first``."""
    row = first
    for number in range(tile.rows):
        for vector in range(tile.vectors):
            yield _address(ops, dtype, row, str(vector * tile.lanes))
        if number < tile.rows - 1:
            row = ops.function.emit("ptr", f"getelementptr inbounds {ops.type(dtype)}, {row}, {stride}")


def _emit_square(module: LlvmModule, lanes: int, dtype: DType) -> None:
    function = LlvmFunction(module, _square_name(dtype, lanes), "void", linkage="hidden", attributes="nounwind")
    square, stride = function.argument("ptr", "noalias readonly"), function.argument("i64")
    to, width = function.argument("ptr", "noalias"), function.argument("i64")
    ops = LlvmScalarOps(function, dtype)
    side = min(lanes, max(2, PART_BYTES // dtype.itemsize))
    if side == lanes:  # a row is one part
        rows = [_load(ops, dtype, address, lanes) for address in _row_addresses(ops, dtype, square, stride, lanes)]
        columns = [transposed(ops, rows)]
    else:
        rows = _rows_of_halves(ops, dtype, square, stride, lanes)
        block = lanes // 4
        while block >= side:
            rows = _swapped(ops, rows, block)
            block //= 2
        columns = [transposed(ops, rows[at : at + side]) for at in range(0, lanes, side)]
    for column in itertools.chain(*columns):
        _store(ops, column, to.name)
        to = function.emit("ptr", f"getelementptr inbounds {ops.type(dtype)}, {to}, {width}")
    function.ret()
    function.finish()


def _row_addresses(ops: LlvmScalarOps, dtype: DType, square: LlvmValue, stride: LlvmValue, count: int) -> Iterator[str]:
    for row in range(count):
        yield square.name
        if row < count - 1:
            square = ops.function.emit("ptr", f"getelementptr inbounds {ops.type(dtype)}, {square}, {stride}")


def _rows_of_halves(
    ops: LlvmScalarOps, dtype: DType, square: LlvmValue, stride: LlvmValue, lanes: int
) -> list[LlvmScalar]:
    """The first halves of rows j and j + lanes/2 as rows, then the second halves.

    Halves of two rows make a register: loading them so spares the first round of exchanges.
    """
    half = lanes // 2
    halves = []
    for row in _row_addresses(ops, dtype, square, stride, lanes):
        ends = [_address(ops, dtype, LlvmValue(row, "ptr"), str(offset)) for offset in (0, half)]
        halves.append([_load(ops, dtype, end, half) for end in ends])
    joined = list(range(lanes))
    return [shuffle(ops, halves[row][side], halves[row + half][side], joined) for side in (0, 1) for row in range(half)]


def _swapped(ops: LlvmScalarOps, rows: list[LlvmScalar], block: int) -> list[LlvmScalar]:
    """``rows`` with the off-diagonal quarters of all squares of twice ``block`` swapped."""
    rows, lanes = list(rows), rows[0].lanes
    for row in range(len(rows)):
        if row & block:
            continue
        upper, lower = rows[row], rows[row + block]
        left = [j if not j & block else lanes + j - block for j in range(lanes)]
        right = [j + block if not j & block else lanes + j for j in range(lanes)]
        rows[row], rows[row + block] = (shuffle(ops, upper, lower, picks) for picks in (left, right))
    return rows


def transposed(ops: LlvmScalarOps, rows: list[LlvmScalar]) -> list[LlvmScalar]:
    """The columns of squares of which ``rows`` hold one behind the other, each as wide as there are rows.

    Rows are interleaved, first single elements, then pairs, and so on: one instruction for each result where squares
    are as wide as the parts in which the processor shuffles.
    """
    side, lanes = len(rows), rows[0].lanes
    unit = 1
    while unit < side:
        rows, before = list(rows), rows
        for row in range(side):
            if row & unit:
                continue
            for half, to in ((0, row), (side // 2, row + unit)):
                picks = [
                    which * lanes + part + half + start + index
                    for part in range(0, lanes, side)
                    for start in range(0, side // 2, unit)
                    for which in (0, 1)
                    for index in range(unit)
                ]
                rows[to] = shuffle(ops, before[row], before[row + unit], picks)
        unit *= 2
    return [rows[index] for index in _reversed_bits(side)]


def _reversed_bits(count: int) -> list[int]:
    """The numbers below ``count``, a power of two, each with its bits from behind."""
    numbers = [0]
    while len(numbers) < count:
        numbers = [2 * x for x in numbers] + [2 * x + 1 for x in numbers]
    return numbers


def shuffle(ops: LlvmScalarOps, x: LlvmScalar, y: LlvmScalar, picks: list[int]) -> LlvmScalar:
    """The elements ``picks`` of ``x`` with ``y`` behind it."""
    mask = ", ".join(f"i32 {pick}" for pick in picks)
    return ops.make(f"shufflevector {x}, {y}, <{len(picks)} x i32> <{mask}>", x.dtype, len(picks))


def _load(ops: LlvmScalarOps, dtype: DType, address: str, lanes: int) -> LlvmScalar:
    type = ops.type(dtype, lanes)
    return ops.make(f"load {type}, ptr {address}, align {dtype.itemsize}", dtype, lanes)


def _store(ops: LlvmScalarOps, value: LlvmScalar, address: str) -> None:
    ops.function.do(f"store {value}, ptr {address}, align {value.dtype.itemsize}")


def _steps(
    ops: LlvmScalarOps,
    panels: Tile,
    tile: Tile,
    dtype: DType,
    left: LlvmValue,
    right: LlvmValue,
    depth: LlvmValue,
    totals: list[LlvmScalar],
) -> list[LlvmScalar]:
    """``totals`` after all steps of k. Unrolling the loop would gain nothing: a step fills the ports."""
    function = ops.function
    before, loop, after = function.block, function.label("loop"), function.label("after")
    any_ = function.emit("i1", f"icmp sgt {depth}, 0")
    function.branch(any_.name, loop, after)
    function.start_block(loop)
    k = function.phi("i64")
    k.add("0", before)
    phis = [function.phi(total.type) for total in totals]
    for phi, total in zip(phis, totals, strict=True):
        phi.add(total.name, before)
    current = [total._replace(name=phi.value.name) for phi, total in zip(phis, totals, strict=True)]
    left_row = _scaled(ops, dtype, left, k.value, panels.rows)
    right_row = _scaled(ops, dtype, right, k.value, panels.columns)
    current = _step(ops, panels, tile, dtype, left_row, right_row, current)
    stepped = function.emit("i64", f"add nsw {k.value}, 1")
    k.add(stepped.name, loop)
    for phi, total in zip(phis, current, strict=True):
        phi.add(total.name, loop)
    more = function.emit("i1", f"icmp slt {stepped}, {depth.name}")
    function.branch(more.name, loop, after)
    function.start_block(after)
    merged = []
    for initial, total in zip(totals, current, strict=True):
        phi = function.phi(total.type)
        phi.add(initial.name, before)
        phi.add(total.name, loop)
        merged.append(total._replace(name=phi.value.name))
    return merged


def _step(
    ops: LlvmScalarOps,
    panels: Tile,
    tile: Tile,
    dtype: DType,
    left: LlvmValue,
    right: LlvmValue,
    totals: list[LlvmScalar],
) -> list[LlvmScalar]:
    """One multiply-add of every accumulator."""
    vectors = []
    for vector in range(tile.vectors):
        fetch_line(ops.function, _beyond(ops, dtype, right, AHEAD * panels.columns + vector * tile.lanes))
        vectors.append(_load(ops, dtype, _address(ops, dtype, right, str(vector * tile.lanes)), tile.lanes))
    fetch_line(ops.function, _beyond(ops, dtype, left, AHEAD * panels.rows))
    results = []
    for row in range(tile.rows):
        spread = ops.splat(_load(ops, dtype, _address(ops, dtype, left, str(row)), 1), tile.lanes)
        own = totals[row * tile.vectors : (row + 1) * tile.vectors]
        results += [ops.fma(spread, vector, total) for vector, total in zip(vectors, own, strict=True)]
    return results


def _scaled(ops: LlvmScalarOps, dtype: DType, base: LlvmValue, k: LlvmValue, width: int) -> LlvmValue:
    offset = ops.function.emit("i64", f"mul nsw {k}, {width}")
    return ops.function.emit("ptr", f"getelementptr inbounds {ops.type(dtype)}, {base}, {offset}")


def _address(ops: LlvmScalarOps, dtype: DType, base: LlvmValue, offset: str) -> str:
    return ops.function.emit("ptr", f"getelementptr inbounds {ops.type(dtype)}, {base}, i64 {offset}").name


def _beyond(ops: LlvmScalarOps, dtype: DType, base: LlvmValue, offset: int) -> str:
    """An address that may be past the end of its memory: for ``fetch_line`` alone."""
    return ops.function.emit("ptr", f"getelementptr {ops.type(dtype)}, {base}, i64 {offset}").name
