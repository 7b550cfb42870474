"""The register tile: rows of a packed left panel times vectors of a packed right panel, summed in registers.

Sources of the scheme: Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"; Van Zee and van
de Geijn 2015 (BLIS). The tile is emitted once a module as a function of its own, so that LLVM allocates its registers
apart from everything around.
"""

from __future__ import annotations

from typing import NamedTuple

from jitgraph.codegen.llvm.builder import Function, Value
from jitgraph.codegen.llvm.environment import Environment
from jitgraph.codegen.llvm.scalars import Scalar, Words
from jitgraph.dtypes import SHORT_NAMES, DType
from jitgraph.ir.target import Target

UNROLL = 4


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


def micro_kernel(env: Environment, tile: Tile, dtype: DType, stride: int) -> str:
    """The name of ``void f(i64 depth, ptr left, ptr right, ptr sums, i1 first)`` in the module of ``env``.

    It sums ``left[k, row] * right[k, column]`` over k from zero in order, and stores the sums to ``sums`` (rows
    ``stride`` elements apart) where ``first``, else adds them to what is there.
    """
    name = f"jg_tile_{SHORT_NAMES[dtype]}_{tile.rows}x{tile.columns}_{stride}{'_fast' if env.words.fastmath else ''}"
    if env.module.claim(name):
        _emit(env, name, tile, dtype, stride)
    return name


def _emit(env: Environment, name: str, tile: Tile, dtype: DType, stride: int) -> None:
    function = Function(env.module, name, "void", attributes="nounwind noinline")
    depth, left, right = function.argument("i64"), *(function.argument("ptr", "noalias readonly") for _ in range(2))
    sums, first = function.argument("ptr", "noalias"), function.argument("i1")
    words = Words(function, dtype, fastmath=env.words.fastmath)
    zero = words.splat(words.const(0, dtype), tile.lanes)
    totals = [zero] * (tile.rows * tile.vectors)
    whole = function.emit("i64", f"and {depth}, {-UNROLL}")
    totals = _steps(words, tile, dtype, left, right, Value("0", "i64"), whole, UNROLL, totals)
    totals = _steps(words, tile, dtype, left, right, whole, depth, 1, totals)
    store, accumulate = function.label("store"), function.label("accumulate")
    function.branch(first.name, store, accumulate)
    for label in (store, accumulate):
        function.start_block(label)
        for number, total in enumerate(totals):
            row, vector = divmod(number, tile.vectors)
            address = _address(words, dtype, sums, str(row * stride + vector * tile.lanes))
            if label == accumulate:
                before = words.make(f"load {total.type}, ptr {address}, align {dtype.itemsize}", dtype, tile.lanes)
                total = words.add(before, total)
            function.do(f"store {total}, ptr {address}, align {dtype.itemsize}")
        function.ret()
    function.finish()


def _steps(
    words: Words,
    tile: Tile,
    dtype: DType,
    left: Value,
    right: Value,
    begin: Value,
    end: Value,
    unroll: int,
    totals: list[Scalar],
) -> list[Scalar]:
    """``totals`` after the steps from ``begin`` to ``end``, ``unroll`` at a time."""
    function = words.function
    before, loop, after = function.block, function.label("loop"), function.label("after")
    any_ = function.emit("i1", f"icmp slt {begin}, {end.name}")
    function.branch(any_.name, loop, after)
    function.start_block(loop)
    k = function.phi("i64")
    k.add(begin.name, before)
    phis = [function.phi(total.type) for total in totals]
    for phi, total in zip(phis, totals, strict=True):
        phi.add(total.name, before)
    current = [total._replace(name=phi.value.name) for phi, total in zip(phis, totals, strict=True)]
    left_row = _scaled(words, dtype, left, k.value, tile.rows)
    right_row = _scaled(words, dtype, right, k.value, tile.columns)
    for step in range(unroll):
        current = _step(words, tile, dtype, left_row, right_row, step, current)
    stepped = function.emit("i64", f"add nsw {k.value}, {unroll}")
    k.add(stepped.name, loop)
    for phi, total in zip(phis, current, strict=True):
        phi.add(total.name, loop)
    more = function.emit("i1", f"icmp slt {stepped}, {end.name}")
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
    words: Words, tile: Tile, dtype: DType, left: Value, right: Value, step: int, totals: list[Scalar]
) -> list[Scalar]:
    """One multiply-add of every accumulator."""
    type = words.type(dtype, tile.lanes)
    vectors = []
    for vector in range(tile.vectors):
        address = _address(words, dtype, right, str(step * tile.columns + vector * tile.lanes))
        vectors.append(words.make(f"load {type}, ptr {address}, align {dtype.itemsize}", dtype, tile.lanes))
    results = []
    for row in range(tile.rows):
        address = _address(words, dtype, left, str(step * tile.rows + row))
        one = words.make(f"load {words.type(dtype)}, ptr {address}, align {dtype.itemsize}", dtype, 1)
        spread = words.splat(one, tile.lanes)
        for vector in range(tile.vectors):
            results.append(words.fma(spread, vectors[vector], totals[row * tile.vectors + vector]))
    return results


def _scaled(words: Words, dtype: DType, base: Value, k: Value, width: int) -> Value:
    place = words.function.emit("i64", f"mul nsw {k}, {width}")
    return words.function.emit("ptr", f"getelementptr inbounds {words.type(dtype)}, {base}, {place}")


def _address(words: Words, dtype: DType, base: Value, offset: str) -> str:
    return words.function.emit("ptr", f"getelementptr inbounds {words.type(dtype)}, {base}, i64 {offset}").name
