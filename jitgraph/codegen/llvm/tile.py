"""The register tile of packed contractions, and the transposed square of packing: functions of a small library.

The tile multiplies rows of a packed left panel with vectors of a packed right panel and sums in registers. Sources of
the scheme: Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"; Van Zee and van de Geijn
2015 (BLIS). The library of a dtype depends on the target alone: it is compiled once a process and linked into images.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import Function, Module, Value
from jitgraph.codegen.llvm.environment import Environment
from jitgraph.codegen.llvm.scalars import Scalar, Words
from jitgraph.dtypes import BY_SHORT_NAME, SHORT_NAMES, DType
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


def tile_function(env: Environment, dtype: DType) -> str:
    """The name of ``void f(i64 depth, ptr left, ptr right, ptr sums, i64 stride, i1 first)``, declared in the module.

    It sums ``left[k, row] * right[k, column]`` over k from zero in order, and stores the sums to ``sums`` (rows
    ``stride`` elements apart) where ``first``, else adds them to what is there.
    """
    name = f"jg_tile_{SHORT_NAMES[dtype]}"
    env.module.declare(f"declare void @{name}(i64, ptr, ptr, ptr, i64, i1) nounwind\n")
    return name


def square_function(env: Environment, dtype: DType) -> str:
    """The name of ``void f(ptr square, ptr to, i64 width)``, declared in the module.

    It writes the columns of a dense square of lanes by lanes to rows ``width`` elements apart.
    """
    name = f"jg_square_{SHORT_NAMES[dtype]}"
    env.module.declare(f"declare void @{name}(ptr, ptr, i64) nounwind\n")
    return name


def library_objects(llvm_ir: str, target: Target) -> list[bytes]:
    """The objects that define what ``llvm_ir`` declares of the above; made once a process."""
    found = sorted(set(re.findall(r"declare void @jg_(?:tile|square)_(\w+)\(", llvm_ir)))
    return [_library_object(target, BY_SHORT_NAME[short]) for short in found]


@cache
def _library_object(target: Target, dtype: DType) -> bytes:
    module = Module(machine.TRIPLE)
    _emit_tile(module, tile_of(target, dtype), dtype)
    _emit_square(module, target.lanes(dtype.itemsize), dtype)
    return machine.assemble(module.text(), target)


def _emit_tile(module: Module, tile: Tile, dtype: DType) -> None:
    function = Function(module, f"jg_tile_{SHORT_NAMES[dtype]}", "void", linkage="hidden", attributes="nounwind")
    depth, left, right = function.argument("i64"), *(function.argument("ptr", "noalias readonly") for _ in range(2))
    sums, stride, first = function.argument("ptr", "noalias"), function.argument("i64"), function.argument("i1")
    words = Words(function, dtype)
    zero = words.splat(words.const(0, dtype), tile.lanes)
    totals = [zero] * (tile.rows * tile.vectors)
    whole = function.emit("i64", f"and {depth}, {-UNROLL}")
    totals = _steps(words, tile, dtype, left, right, Value("0", "i64"), whole, UNROLL, totals)
    totals = _steps(words, tile, dtype, left, right, whole, depth, 1, totals)
    store, accumulate = function.label("store"), function.label("accumulate")
    function.branch(first.name, store, accumulate)
    for label in (store, accumulate):
        function.start_block(label)
        row = sums
        for number, total in enumerate(totals):
            if number and number % tile.vectors == 0:
                row = function.emit("ptr", f"getelementptr inbounds {words.type(dtype)}, {row}, {stride}")
            address = _address(words, dtype, row, str(number % tile.vectors * tile.lanes))
            if label == accumulate:
                total = words.add(_load(words, dtype, address, tile.lanes), total)
            _store(words, total, address)
        function.ret()
    function.finish()


def _emit_square(module: Module, lanes: int, dtype: DType) -> None:
    function = Function(module, f"jg_square_{SHORT_NAMES[dtype]}", "void", linkage="hidden", attributes="nounwind")
    square, to = function.argument("ptr", "noalias readonly"), function.argument("ptr", "noalias")
    width = function.argument("i64")
    words = Words(function, dtype)
    rows = [_load(words, dtype, _address(words, dtype, square, str(row * lanes)), lanes) for row in range(lanes)]
    for row in _transposed(words, rows):
        _store(words, row, to.name)
        to = function.emit("ptr", f"getelementptr inbounds {words.type(dtype)}, {to}, {width}")
    function.ret()
    function.finish()


def _transposed(words: Words, rows: list[Scalar]) -> list[Scalar]:
    """The columns of a square, by swapping the off-diagonal quarters of ever smaller blocks."""
    lanes = len(rows)
    block = lanes // 2
    while block:
        for row in range(lanes):
            if row & block:
                continue
            upper, lower = rows[row], rows[row + block]
            left = [j if not j & block else lanes + j - block for j in range(lanes)]
            right = [j + block if not j & block else lanes + j for j in range(lanes)]
            rows[row], rows[row + block] = (_shuffle(words, upper, lower, picks) for picks in (left, right))
        block //= 2
    return rows


def _shuffle(words: Words, x: Scalar, y: Scalar, picks: list[int]) -> Scalar:
    mask = ", ".join(f"i32 {pick}" for pick in picks)
    return words.make(f"shufflevector {x}, {y}, <{len(picks)} x i32> <{mask}>", x.dtype, x.lanes, x.type)


def _load(words: Words, dtype: DType, address: str, lanes: int) -> Scalar:
    type = words.type(dtype, lanes)
    return words.make(f"load {type}, ptr {address}, align {dtype.itemsize}", dtype, lanes)


def _store(words: Words, value: Scalar, address: str) -> None:
    words.function.do(f"store {value}, ptr {address}, align {value.dtype.itemsize}")


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
    vectors = []
    for vector in range(tile.vectors):
        address = _address(words, dtype, right, str(step * tile.columns + vector * tile.lanes))
        vectors.append(_load(words, dtype, address, tile.lanes))
    results = []
    for row in range(tile.rows):
        address = _address(words, dtype, left, str(step * tile.rows + row))
        spread = words.splat(_load(words, dtype, address, 1), tile.lanes)
        sums = totals[row * tile.vectors : (row + 1) * tile.vectors]
        results += [words.fma(spread, vector, total) for vector, total in zip(vectors, sums, strict=True)]
    return results


def _scaled(words: Words, dtype: DType, base: Value, k: Value, width: int) -> Value:
    place = words.function.emit("i64", f"mul nsw {k}, {width}")
    return words.function.emit("ptr", f"getelementptr inbounds {words.type(dtype)}, {base}, {place}")


def _address(words: Words, dtype: DType, base: Value, offset: str) -> str:
    return words.function.emit("ptr", f"getelementptr inbounds {words.type(dtype)}, {base}, i64 {offset}").name
