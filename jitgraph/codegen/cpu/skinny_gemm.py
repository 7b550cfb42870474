"""Products of few rows: the right factor, far the larger one, is read once, where it lies, in its own order.

Nothing of it is packed. Where it runs through memory along its columns, vectors of some steps of k at a time are
multiplied and added into sums that stay in the first-level cache. Where a plain matrix runs along k, a library function
(``transposed_kernel.py``) transposes squares in registers; the few rows of the left factor are laid out for it. The
order of summation is that of ``kernel.Contract``.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from jitgraph.codegen.cpu import merging, panels, parallel, serial, transposed_kernel, vectors
from jitgraph.codegen.cpu.work import work
from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import Contract, Load
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, index_value, least, multiply, subtract
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.codegen.llvm.structure import length
from jitgraph.ir.dims import DimLike

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
    few = m is not None and 0 < m <= transposed_kernel.MOST_ROWS
    return few and env.lanes is None and _transposed_source(contract, env) is not None


def _transposed_source(contract: Contract, env: Environment) -> tuple[Load, DimLike] | None:
    """The load of a plain right factor along k, and the elements between its columns."""
    dtype = contract.acc.dtype
    source = panels.plain_load(contract.right, contract.n, env, dtype) if dtype in transposed_kernel.DTYPES else None
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
    blocks = merging.block_count(contract, env)
    level = rows * width
    # A block's sums grow in the free place on the stack, and merge into the places below it.
    room = merging.most_waiting(contract, env) + 1 if constant_of(blocks) != 1 else 1
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
            height = merging.height(env, number)
            sums = panels.part(env, stack, multiply(env, height, integer(level)))

            def clear(offset: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
                panels.store_vector(env, sums, offset, zero)
                return []

            def steps(count: int) -> loops.Emit:
                def step(at: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
                    depths = [add(env, at, integer(ahead)) for ahead in range(count)]
                    _emit_steps(contract, env, (first, last), depths, sums, width, rows)
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
            merges = merging.merges(env, number, blocks)
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

        asking = serial.polled(env, block, serial.POLL_LENGTH) if constant_of(blocks) != 1 else block
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
        right = panels.element_address(env, env["&" + load.buffer], index_value(there, load.index))
        arguments = (
            *(self.left, integer(self.length), f"ptr {right}", index_value(env, between), sums, integer(width)),
            *(subtract(env, columns[1], columns[0]), subtract(env, depths[1], depths[0])),
        )
        env.function.do(env.function.call_of("void", transposed_kernel.function_for(env, dtype, self.rows), *arguments))


def _emit_steps(
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
