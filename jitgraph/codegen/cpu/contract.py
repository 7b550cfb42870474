"""Contractions: packed (``packed.py``), but next to no work by a tile straight from the operands.

The order of summation is that of ``kernel.Contract``: it depends on k alone, never on tiles or lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from jitgraph.codegen.cpu import merging, packed, panels, parallel, serial, skinny_gemm, vectors
from jitgraph.codegen.cpu.work import work
from jitgraph.codegen.kernels.kernel import Contract, Operand
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, index_value, least, multiply, subtract
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.errors import UnsupportedOp

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
        raise UnsupportedOp(f"kernel {env.kernel.name}: a contraction over some of its steps, on a processor")
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
    plan = packed.plan_of(contract, env)
    down, across = packed.unit_counts(contract, env, plan)
    env.bind("$across", across)
    units = multiply(env, down, across)
    _share(contract, env, units, lambda c, inner, *part: packed.emit_units(c, inner, plan, inner["$across"], *part))


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
        loops.counted(env, begin, middle, height, [], lambda m, _: _emit_columns(contract, env, m, height))
    loops.counted(env, middle, end, 1, [], lambda m, _: _emit_columns(contract, env, m, 1))


def _emit_columns(contract: Contract, env: Environment, m: LlvmScalar, rows: int) -> list[LlvmScalar]:
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
    blocks = merging.block_count(contract, env)
    level = rows * lanes
    # What merges is loaded, and the last block's sums stay in registers: one block needs no memory.
    several = constant_of(blocks) != 1
    stack = env.private(dtype, merging.most_waiting(contract, env) * level) if several else None

    def block(number: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        start = multiply(env, number, integer(contract.block_k))
        stop = least(env, add(env, start, integer(contract.block_k)), depth)
        sums = loops.counted(env, start, stop, 1, zero, lambda k, sums: _step(contract, env, row_indices, k, sums))
        if stack is None:
            return sums
        height, merges = merging.height(env, number), merging.merges(env, number, blocks)

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

    asking = serial.polled(env, block, contract.block_k * rows) if several else block
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
