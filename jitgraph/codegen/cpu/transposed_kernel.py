"""Sums of a block of k for few rows by a right factor that lies along k, such as the ``w`` of ``x @ w.T``.

A column of the product is a chain of multiply-adds in order of k, so columns are the lanes, across which the right
factor lies. Squares of it are transposed in registers on the way and used at once: it is read once, nothing of it is
packed, and the more rows there are, the less a square costs each. The function depends on the target, the dtype and the
number of rows alone: it is compiled once a process and linked into images.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from jitgraph.codegen.cpu.panels import load_vector, part, store_vector
from jitgraph.codegen.cpu.scratch import Scratch
from jitgraph.codegen.cpu.tile import PART_BYTES, shuffle, transposed
from jitgraph.codegen.kernels.kernel import Kernel, Statement
from jitgraph.codegen.llvm import loops, machine
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule
from jitgraph.codegen.llvm.environment import Environment, Names, integer
from jitgraph.codegen.llvm.index import add, multiply, subtract
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import SHORT_NAMES, DType, bool_, float32, float64, int64
from jitgraph.ir.target import Target

DTYPES: Final = frozenset((float32, float64))

MOST_ROWS: Final = 3
"""Rows for which the sums of a group of columns stay in registers."""

_VECTORS: Final = 2
"""Vectors of columns at a time. With more, the lines of so many rows of the factor push each other out of the cache."""


_PAGE_BYTES: Final = 4096


class _Factors(NamedTuple):
    """The function's arguments: the rows of the left factor, each dense, and where sums and columns lie."""

    left: LlvmScalar
    left_stride: LlvmScalar
    right: LlvmScalar
    right_stride: LlvmScalar
    sums: LlvmScalar
    sums_stride: LlvmScalar
    columns: LlvmScalar
    depth: LlvmScalar


def function_for(env: Environment, dtype: DType, rows: int) -> str:
    """The name of ``void f(left, i64 stride, right, i64 stride, sums, i64 stride, i64 columns, i64 depth)``, declared.

    ``sums[row, column]`` becomes the sum of ``left[row, k] * right[column, k]`` over ``depth`` steps, from zero in
    order. Elements lie side by side along the last of these axes, ``stride`` apart along the first.
    """
    name = f"jg_crossed_{SHORT_NAMES[dtype]}_{rows}"
    env.module.declare(f"declare hidden void @{name}(ptr, i64, ptr, i64, ptr, i64, i64, i64) nounwind\n")
    env.module.require("crossed", dtype, rows)
    return name


def transposed_module(target: Target, dtype: DType, rows: int) -> LlvmModule:
    """A module that defines the function for so many rows."""
    module = LlvmModule(machine.TRIPLE)
    name = f"jg_crossed_{SHORT_NAMES[dtype]}_{rows}"
    function = LlvmFunction(module, name, "void", linkage="hidden", attributes="nounwind")
    env = Environment(function, Kernel(name, (), ()), target, Names(), Scratch(name), _no_statement)
    values = []
    for attributes in ("noalias readonly", "noalias readonly", "noalias"):
        values.append(LlvmScalar(function.argument("ptr", attributes).name, "ptr", dtype, 1))
        values.append(LlvmScalar(function.argument("i64").name, "i64", int64, 1))
    values += [LlvmScalar(function.argument("i64").name, "i64", int64, 1) for _ in range(2)]
    _emit_columns(env, _Factors(*values), rows)
    function.ret()
    function.finish()
    return module


def _no_statement(statement: Statement, env: Environment) -> None:
    raise AssertionError(statement)


def _emit_columns(env: Environment, factors: _Factors, rows: int) -> None:
    """All columns, in groups of two vectors; where there are too few for that, in ever narrower groups.

    Lines of columns that are a whole number of pages apart share so few places in the first-level cache that a group of
    two vectors would read each from the next level several times, so there is one vector then.
    """
    itemsize = factors.left.dtype.itemsize
    lanes = env.target.lanes(itemsize)
    low = env.ops.and_(factors.right_stride, integer(_PAGE_BYTES // itemsize - 1))
    wide = env.ops.and_(
        env.ops.cmp("ge", factors.columns, integer(_VECTORS * lanes)), env.ops.cmp("ne", low, integer(0))
    )
    with loops.only_if(env, wide):
        _emit_groups(env, factors, rows, _VECTORS, lanes)
    narrow = env.ops.cmp("eq", wide, env.ops.const(False, bool_))
    while lanes:
        enough = env.ops.cmp("ge", factors.columns, integer(lanes))
        with loops.only_if(env, env.ops.and_(narrow, enough)):
            _emit_groups(env, factors, rows, 1, lanes)
        narrow = env.ops.and_(narrow, env.ops.cmp("eq", enough, env.ops.const(False, bool_)))
        lanes = lanes // 2 if lanes * itemsize > PART_BYTES else int(lanes > 1)


def _emit_groups(env: Environment, factors: _Factors, rows: int, vectors: int, lanes: int) -> None:
    """Groups of ``vectors`` of ``lanes`` columns. The last one moves back over columns that were summed before, with
    the same result."""
    width = vectors * lanes
    last = subtract(env, factors.columns, integer(width))

    def group(begin: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        first = env.ops.min(begin, last)
        right = part(env, factors.right, multiply(env, first, factors.right_stride))
        totals = _group_sums(env, factors._replace(right=right), rows, vectors, lanes)
        for row in range(rows):
            start = add(env, multiply(env, integer(row), factors.sums_stride), first)
            for vector in range(vectors):
                offset = add(env, start, integer(vector * lanes))
                store_vector(env, factors.sums, offset, totals[row * vectors + vector])
        return []

    loops.counted(env, integer(0), factors.columns, width, [], group)


def _group_sums(env: Environment, factors: _Factors, rows: int, vectors: int, lanes: int) -> list[LlvmScalar]:
    """The sums of a group of columns, row by row: squares, then what is left of k step by step."""
    dtype = factors.left.dtype
    chunk = PART_BYTES // dtype.itemsize if lanes > 1 else 1
    totals = [env.ops.splat(env.ops.const(0, dtype), lanes)] * (rows * vectors)
    middle = env.ops.and_(factors.depth, integer(-chunk))
    for begin, end, steps in ((integer(0), middle, chunk), (middle, factors.depth, 1)):
        step = partial(_emit_steps, env, factors, rows, vectors, lanes, steps)
        totals = loops.counted(env, begin, end, steps, totals, step)
    return totals


def _emit_steps(
    env: Environment,
    factors: _Factors,
    rows: int,
    vectors: int,
    lanes: int,
    chunk: int,
    k: LlvmScalar,
    totals: list[LlvmScalar],
) -> list[LlvmScalar]:
    """``chunk`` multiply-adds of every sum, in order of k."""
    dtype = factors.left.dtype
    columns = _columns(env, factors, k, vectors, lanes, chunk)
    totals = list(totals)
    for step in range(chunk):
        for row in range(rows):
            offset = add(env, multiply(env, integer(row), factors.left_stride), add(env, k, integer(step)))
            spread = env.ops.splat(load_vector(env, factors.left, offset, dtype, 1), lanes)
            for vector in range(vectors):
                at = row * vectors + vector
                totals[at] = env.ops.fma(spread, columns[vector][step], totals[at])
    return totals


def _columns(
    env: Environment, factors: _Factors, k: LlvmScalar, vectors: int, lanes: int, chunk: int
) -> list[list[LlvmScalar]]:
    """For each vector of columns and each of ``chunk`` steps from ``k`` on, the right factor in lanes.

    Lines of a square are reached from a pointer to its first one by a few multiples of the stride, which all squares
    share: there are too few registers for a pointer a line.
    """
    dtype, stride = factors.right.dtype, factors.right_stride
    side = max(1, min(lanes, PART_BYTES // dtype.itemsize))
    squares = lanes // side
    pointers = [part(env, factors.right, k)]
    for _ in range(vectors * squares - 1):
        pointers.append(part(env, pointers[-1], multiply(env, integer(side), stride)))
    columns = []
    for vector in range(vectors):
        own = pointers[vector * squares : (vector + 1) * squares]
        starts = [multiply(env, integer(line), stride) for line in range(side)]
        if chunk == 1:
            columns.append([_gathered(env, [load_vector(env, at, start, dtype, 1) for at in own for start in starts])])
            continue
        lines = [_joined(env, [load_vector(env, at, start, dtype, chunk) for at in own]) for start in starts]
        columns.append(transposed(env.ops, lines))
    return columns


def _gathered(env: Environment, elements: list[LlvmScalar]) -> LlvmScalar:
    """Single elements as one vector."""
    lanes, dtype = len(elements), elements[0].dtype
    if lanes == 1:
        return elements[0]
    type = env.ops.type(dtype, lanes)
    vector = LlvmScalar("poison", type, dtype, lanes)
    for lane, element in enumerate(elements):
        vector = env.ops.make(f"insertelement {vector}, {element}, i32 {lane}", dtype, lanes)
    return vector


def _joined(env: Environment, parts: list[LlvmScalar]) -> LlvmScalar:
    """Vectors one behind the other; their number is a power of two."""
    while len(parts) > 1:
        picks = list(range(2 * parts[0].lanes))
        parts = [shuffle(env.ops, *pair, picks) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]
