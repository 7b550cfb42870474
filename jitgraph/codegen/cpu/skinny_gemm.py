"""Products of few rows: the right factor, far the larger one, is read once, where it lies, in its own order."""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple, TypeAlias

from jitgraph.codegen.cpu import merge_trees, panels, parallel, vectors
from jitgraph.codegen.cpu.kernel_function import Scratch
from jitgraph.codegen.cpu.panels import load_vector, part, store_vector
from jitgraph.codegen.cpu.tile import PART_BYTES, shuffle, transposed
from jitgraph.codegen.cpu.vectors import work
from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import Contract, Kernel, Load, Statement
from jitgraph.codegen.llvm import loops, machine
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmScalar
from jitgraph.codegen.llvm.environment import Environment, Names, constant_of, integer
from jitgraph.codegen.llvm.index import add, element_address, index_value, least, multiply, subtract
from jitgraph.codegen.llvm.loops import length
from jitgraph.dtypes import SHORT_NAMES, DType, bool_, float32, float64, int64
from jitgraph.ir.dims import DimLike
from jitgraph.ir.target import Target

# ----------------------------------------------------------------------
# Sums of a block of k for few rows by a right factor that lies along k, such as the ``w`` of ``x @ w.T``.
#
# A column of the product is a chain of multiply-adds in order of k, so columns are the lanes, across which the right
# factor lies. Squares of it are transposed in registers on the way and used at once: it is read once, nothing of it is
# packed, and the more rows there are, the less a square costs each. The function depends on the target, the dtype and
# the number of rows alone: it is compiled once a process and linked into images.

DTYPES: Final = frozenset((float32, float64))

MOST_TRANSPOSED_ROWS: Final = 3
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


# ----------------------------------------------------------------------
# Products of few rows: the right factor, far the larger one, is read once, where it lies, in its own order.
#
# Nothing of it is packed. Where it runs through memory along its columns, vectors of some steps of k at a time are
# multiplied and added into sums that stay in the first-level cache. Where a plain matrix runs along k, a library
# function (``skinny_gemm.py``) transposes squares in registers; the few rows of the left factor are laid out for it.
# The order of summation is that of ``kernel.Contract``.

MOST_ROWS: Final = 8
"""Up to this many rows the sums of enough columns stay in the first-level cache."""

STEPS: Final = 4
"""Steps of k for which a sum is loaded and stored once."""

LONGEST_BODY: Final = 8
"""Statements of the right factor, which is emitted for each of the steps, or of a left one that is laid out often."""

SHARES: Final = 2
"""Parts of the columns where the work is worth several threads: each is read in runs as long as it is wide."""

LEAST_COLUMNS: Final = 512

CROSSED_COLUMNS: Final = 64
"""Columns of a part of a matrix along k: the blocks of k of so few lines follow one another while their pages are at
hand. The left factor is laid out for each part anew."""

_Range: TypeAlias = "tuple[LlvmScalar, LlvmScalar]"


def suits(contract: Contract, env: Environment) -> bool:
    """Whether ``emit_skinny_gemm`` is for this contraction: few rows, and a right factor that is cheap and runs along
    n, or one that ``crosses``."""
    m = constant_of(index_value(env, contract.extents[0]))
    if m is None or not 0 < m <= MOST_ROWS:
        return False
    along_n, along_k = (panels.unit_accesses(contract.right.body, axis) for axis in (contract.n, contract.k))
    return (along_n > along_k and length(contract.right.body) <= LONGEST_BODY) or crosses(contract, env)


def crosses(contract: Contract, env: Environment) -> bool:
    """Whether the right factor is a plain matrix along k, and rows are few enough for its squares."""
    m = constant_of(index_value(env, contract.extents[0]))
    few = m is not None and 0 < m <= MOST_TRANSPOSED_ROWS
    return few and env.lanes is None and _transposed_source(contract, env) is not None


def _transposed_source(contract: Contract, env: Environment) -> tuple[Load, DimLike] | None:
    """The load of a plain right factor along k, and the elements between its columns."""
    dtype = contract.acc.dtype
    source = panels.plain_load(contract.right, contract.n, env, dtype) if dtype in DTYPES else None
    return source if source is not None and coefficient(source[0].index, contract.k) == 1 else None


def columns_of_unit(contract: Contract, env: Environment) -> int:
    """The columns of a part: as many as leave room in the first-level cache, in equal parts where threads share."""
    dtype = contract.acc.dtype
    m, n = (constant_of(index_value(env, extent)) for extent in contract.extents[:2])
    assert m is not None
    lanes = env.target.lanes(dtype.itemsize)
    most = env.target.l1_bytes // 2 // (m * dtype.itemsize) // lanes * lanes
    if crosses(contract, env) and length(contract.left.body) <= LONGEST_BODY:
        most = min(most, max(1, CROSSED_COLUMNS // lanes) * lanes)
    if n is None:
        return most
    large = env.outermost and parallel.is_worth_sharing(parallel.total_work(env, work((contract,), env)))
    parts = max(-(-n // most), min(SHARES, n // LEAST_COLUMNS) if large else 1, 1)
    return max(1, -(-n // (parts * lanes))) * lanes


def emit_skinny_gemm(contract: Contract, env: Environment, width: int, begin: LlvmScalar, end: LlvmScalar) -> None:
    """Units ``begin .. end`` of ``width`` columns each, epilogue included."""
    dtype = contract.acc.dtype
    rows = constant_of(index_value(env, contract.extents[0]))
    assert rows is not None
    lanes = env.target.lanes(dtype.itemsize)
    columns, depth = index_value(env, contract.extents[1]), index_value(env, contract.extents[2])
    blocks = merge_trees.block_count(contract, env)
    level = rows * width
    # A block's sums grow in the free place on the stack, and merge into the places below it.
    room = merge_trees.most_waiting(contract, env) + 1 if constant_of(blocks) != 1 else 1
    stack = env.private(dtype, room * level)
    across = _TransposedB.of(contract, env, rows) if crosses(contract, env) else None
    zero = env.ops.splat(env.ops.const(0, dtype), lanes)

    def over_sums(step: loops.Emit) -> None:
        loops.counted(env, integer(0), integer(level), lanes, [], step)

    def unit(number: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        first = multiply(env, number, integer(width))
        last = least(env, add(env, first, integer(width)), columns)

        def block(number: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            at = multiply(env, number, integer(contract.block_k))
            stop = least(env, add(env, at, integer(contract.block_k)), depth)
            height = merge_trees.height(env, number)
            sums = panels.part(env, stack, multiply(env, height, integer(level)))

            def clear(offset: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
                panels.store_vector(env, sums, offset, zero)
                return []

            def steps(count: int) -> loops.Emit:
                def step(at: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
                    depths = [add(env, at, integer(ahead)) for ahead in range(count)]
                    _emit_few_rows(contract, env, (first, last), depths, sums, width, rows)
                    return []

                return step

            over_sums(clear)
            if across is not None:
                across.emit(env, (first, last), (at, stop), sums, width)
            else:
                total = subtract(env, stop, at)
                fixed = constant_of(total)
                full = integer(fixed // STEPS * STEPS) if fixed is not None else env.ops.and_(total, integer(-STEPS))
                middle = add(env, at, full)
                loops.counted(env, at, middle, STEPS, [], steps(STEPS))
                loops.counted(env, middle, stop, 1, [], steps(1))
            merges = merge_trees.merges(env, number, blocks)
            loops.counted(env, integer(0), merges, 1, [], lambda above, _: merge(subtract(env, height, above)))
            return []

        def merge(above: LlvmScalar) -> list[LlvmScalar]:
            upper = panels.part(env, stack, multiply(env, above, integer(level)))
            lower = panels.part(env, stack, multiply(env, subtract(env, above, integer(1)), integer(level)))

            def step(offset: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
                left, right = (panels.load_vector(env, sums, offset, dtype, lanes) for sums in (lower, upper))
                panels.store_vector(env, lower, offset, env.ops.add(left, right))
                return []

            over_sums(step)
            return []

        asking = vectors.polled(env, block, vectors.POLL_LENGTH) if constant_of(blocks) != 1 else block
        loops.counted(env, integer(0), blocks, 1, [], asking)
        _emit_epilogue(contract, env, (first, last), stack, width, rows)
        return []

    loops.counted(env, begin, end, 1, [], unit)


class _TransposedB(NamedTuple):
    """A product whose right factor is a plain matrix along k, and memory for a block of k of the left one's rows."""

    contract: Contract
    rows: int
    left: LlvmScalar
    length: int  # of a row of it

    @staticmethod
    def of(contract: Contract, env: Environment, rows: int) -> _TransposedB:
        dtype = contract.acc.dtype
        lanes = env.target.lanes(dtype.itemsize)
        depth = constant_of(index_value(env, contract.extents[2]))
        length = contract.block_k if depth is None else min(contract.block_k, max(depth, 1))
        length = -(-length // lanes) * lanes  # a row's last vector is stored whole
        return _TransposedB(contract, rows, env.private(dtype, rows * length), length)

    def emit(self, env: Environment, columns: _Range, depths: _Range, sums: LlvmScalar, width: int) -> None:
        """The sums of a block of k, for all rows and columns of a unit."""
        contract, dtype = self.contract, self.left.dtype
        lanes = env.target.lanes(dtype.itemsize)
        for row in range(self.rows):
            line = panels.part(env, self.left, integer(row * self.length))

            def step(here: Environment, carries: list[LlvmScalar], line: LlvmScalar = line) -> list[LlvmScalar]:
                base = here.lanes.base if here.lanes is not None else here[contract.k]
                value = panels.value_of(contract.left, here, dtype)
                panels.store_vector(here, line, subtract(env, base, depths[0]), value)
                return carries

            scope = env.at({contract.m: integer(row)})
            vectors.in_lanes(contract.k, contract.left.body, scope, *depths, lanes, [], step)
        source = _transposed_source(contract, env)
        assert source is not None
        load, between = source
        there = env.at({contract.n: columns[0], contract.k: depths[0]})
        right = element_address(env, env["&" + load.buffer], index_value(there, load.index))
        arguments = (
            *(self.left, integer(self.length), f"ptr {right}", index_value(env, between), sums, integer(width)),
            *(subtract(env, columns[1], columns[0]), subtract(env, depths[1], depths[0])),
        )
        env.function.do(env.function.call_of("void", function_for(env, dtype, self.rows), *arguments))


def _emit_few_rows(
    contract: Contract,
    env: Environment,
    columns: _Range,
    depths: list[LlvmScalar],
    sums: LlvmScalar,
    width: int,
    rows: int,
) -> None:
    """The multiply-adds of some steps of k, for all rows and columns of a unit."""
    dtype = contract.acc.dtype
    lanes = env.target.lanes(dtype.itemsize)
    left = [
        [panels.value_of(contract.left, env.at({contract.m: integer(row), contract.k: k}), dtype) for k in depths]
        for row in range(rows)
    ]

    def step(here: Environment, carries: list[LlvmScalar]) -> list[LlvmScalar]:
        base = here.lanes.base if here.lanes is not None else here[contract.n]
        count = here.lanes.width if here.lanes is not None else 1
        right = [panels.value_of(contract.right, here.at({contract.k: k}), dtype) for k in depths]
        offset = subtract(env, base, columns[0])
        for row in range(rows):
            at = add(env, offset, integer(row * width))
            total = panels.load_vector(env, sums, at, dtype, count)
            for x, y in zip(left[row], right, strict=True):
                total = env.ops.fma(env.ops.splat(x, count), y, total)
            panels.store_vector(env, sums, at, total)
        return carries

    vectors.in_lanes(contract.n, contract.right.body, env, *columns, lanes, [], step)


def _emit_epilogue(
    contract: Contract,
    env: Environment,
    columns: _Range,
    totals: LlvmScalar,
    width: int,
    rows: int,
) -> None:
    dtype = contract.acc.dtype
    lanes = env.target.lanes(dtype.itemsize)

    def row(at: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        start = multiply(env, at, integer(width))

        def step(here: Environment, carries: list[LlvmScalar]) -> list[LlvmScalar]:
            base = here.lanes.base if here.lanes is not None else here[contract.n]
            count = here.lanes.width if here.lanes is not None else 1
            scope = here.inner()
            offset = add(env, start, subtract(env, base, columns[0]))
            scope.bind(contract.acc.name, panels.load_vector(here, totals, offset, dtype, count))
            scope.emit(contract.epilogue)
            return carries

        scope = env.at({contract.m: at})
        vectors.in_lanes(contract.n, contract.epilogue, scope, *columns, lanes, [], step)
        return []

    loops.counted(env, integer(0), integer(rows), 1, [], row)
