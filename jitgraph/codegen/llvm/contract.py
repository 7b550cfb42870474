"""Contractions: a register tile over m and n, straight from the operands.

The order of summation is that of ``kernel.Contract``: it depends on k alone, never on tiles or lanes.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.kernel import Contract, Operand
from jitgraph.codegen.llvm import body as bodies
from jitgraph.codegen.llvm import loops, parallel
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, index_value, multiply, subtract
from jitgraph.codegen.llvm.scalars import Scalar
from jitgraph.codegen.llvm.structure import work

ROWS: Final = 4


def emit_contract(contract: Contract, env: Environment) -> None:
    """Emit ``contract``, its epilogue included; rows of tiles are shared among threads where it is outermost."""
    rows = index_value(env, contract.extents[0])
    if not env.outermost:
        _emit_rows(contract, env.inner(), integer(0), rows)
        return
    whole = parallel.total_work(env, work((contract,), env))
    env.bind("$rows", rows)
    tiles = parallel.ceil_div(env, rows, integer(ROWS))

    def tile_range(inner: Environment, begin: Scalar, end: Scalar) -> None:
        first = multiply(inner, begin, integer(ROWS))
        last = inner.words.min(multiply(inner, end, integer(ROWS)), inner["$rows"])
        _emit_rows(contract, inner, first, last)

    parallel.parallel_range(env, tiles, parallel.share(env, whole, tiles), tile_range)


def _emit_rows(contract: Contract, env: Environment, begin: Scalar, end: Scalar) -> None:
    """Rows ``begin .. end``: ROWS at a time, then one by one."""
    known = constant_of(end)
    full = 0 if known is not None and known < ROWS and begin.name == "0" else ROWS
    middle = begin
    if full:
        total = subtract(env, end, begin)
        fixed = constant_of(total)
        whole = integer(fixed // ROWS * ROWS) if fixed is not None else env.words.and_(total, integer(-ROWS))
        middle = add(env, begin, whole)
        loops.counted(env, begin, middle, ROWS, [], lambda m, _: _emit_columns(contract, env, m, ROWS))
    loops.counted(env, middle, end, 1, [], lambda m, _: _emit_columns(contract, env, m, 1))


def _emit_columns(contract: Contract, env: Environment, m: Scalar, rows: int) -> list[Scalar]:
    columns = index_value(env, contract.extents[1])
    count = env.target.lanes(contract.acc.dtype.itemsize)
    known = constant_of(columns)
    if known is not None and 0 < known < count:
        count = 1 << (known - 1).bit_length()

    def tile(here: Environment, _: list[Scalar]) -> list[Scalar]:
        _emit_tile(contract, here, m, rows)
        return []

    body = (*contract.right.body, *contract.epilogue)
    loops.in_lanes(contract.n, body, env, integer(0), columns, count, [], tile)
    return []


def _emit_tile(contract: Contract, env: Environment, m: Scalar, rows: int) -> None:
    """``rows`` rows from ``m`` of the columns in lanes (or of one column): their sums, and the epilogue."""
    s = env.words
    lanes = env.lanes.width if env.lanes is not None else 1
    places = [add(env, m, integer(row)) for row in range(rows)]
    depth = index_value(env, contract.extents[2])
    zero = [s.splat(s.const(0, contract.acc.dtype), lanes)] * rows

    def block(start: Scalar, totals: list[Scalar]) -> list[Scalar]:
        stop = add(env, start, integer(contract.block_k))
        known, deep = constant_of(stop), constant_of(depth)
        stop = integer(min(known, deep)) if known is not None and deep is not None else s.min(stop, depth)
        sums = loops.counted(env, start, stop, 1, zero, lambda k, sums: _step(contract, env, places, k, sums))
        # The first block's sums are the total as they are: adding them to zero would lose the sign of -0.0.
        first = s.cmp("eq", start, integer(0))
        return [s.select(first, new, s.add(total, new)) for total, new in zip(totals, sums, strict=True)]

    for place, total in zip(places, loops.counted(env, integer(0), depth, contract.block_k, zero, block), strict=True):
        scope = env.at({contract.m: place})
        scope.bind(contract.acc.name, total)
        bodies.emit_body(contract.epilogue, scope)


def _step(contract: Contract, env: Environment, places: list[Scalar], k: Scalar, sums: list[Scalar]) -> list[Scalar]:
    right = _value(contract.right, env.at({contract.k: k}), contract)
    return [
        env.words.fma(_value(contract.left, env.at({contract.m: m, contract.k: k}), contract), right, total)
        for m, total in zip(places, sums, strict=True)
    ]


def _value(operand: Operand, env: Environment, contract: Contract) -> Scalar:
    bodies.emit_body(operand.body, env)
    return env.words.cast(env[operand.value.name], contract.acc.dtype)
