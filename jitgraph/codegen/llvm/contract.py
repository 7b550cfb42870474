"""Contractions: packed where there is work enough (``packed.py``), else a tile straight from the operands.

The order of summation is that of ``kernel.Contract``: it depends on k alone, never on tiles or lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitgraph.codegen.kernel import Contract, Operand
from jitgraph.codegen.llvm import body as bodies
from jitgraph.codegen.llvm import loops, packed, parallel
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, index_value, multiply, subtract
from jitgraph.codegen.llvm.scalars import Scalar
from jitgraph.codegen.llvm.structure import work

ROWS: Final = 4
"""Rows of the tile that reads its operands directly."""

FEW_ROWS: Final = 8
"""Up to this many rows a packed right panel would not be used often enough to pay."""

LITTLE_WORK: Final = 4096
"""Multiply-adds up to which one call is over before panels are packed."""


def emit_contract(contract: Contract, env: Environment) -> None:
    """Emit ``contract``, its epilogue included; rows are shared among threads where it is outermost."""
    rows = index_value(env, contract.extents[0])
    known = constant_of(rows)
    if _is_thin(contract, env) or (known is not None and known <= FEW_ROWS):
        _share_rows(contract, env, rows, ROWS, _emit_rows)
        return
    plan = packed.plan_of(contract, env)

    def emit_packed(contract: Contract, inner: Environment, begin: Scalar, end: Scalar) -> None:
        packed.emit_rows(contract, inner, plan, begin, end)

    if known is not None:
        _share_rows(contract, env, rows, plan.rows, emit_packed)
        return
    function = env.function
    few, many, after = function.label("few"), function.label("many"), function.label("after")
    function.branch(env.words.cmp("le", rows, integer(FEW_ROWS)).name, few, many)
    function.start_block(few)
    _emit_rows(contract, env.inner(), integer(0), rows)
    function.jump(after)
    function.start_block(many)
    _share_rows(contract, env, rows, plan.rows, emit_packed)
    function.jump(after)
    function.start_block(after)


def _is_thin(contract: Contract, env: Environment) -> bool:
    """Whether packing cannot pay: hardly any columns, or next to no work."""
    m, n, k = (constant_of(index_value(env, extent)) for extent in contract.extents)
    if n is not None and n < env.target.lanes(contract.acc.dtype.itemsize) // 2:
        return True
    return m is not None and n is not None and k is not None and m * n * k <= LITTLE_WORK


def _share_rows(
    contract: Contract,
    env: Environment,
    rows: Scalar,
    unit: int,
    emit: Callable[[Contract, Environment, Scalar, Scalar], None],
) -> None:
    """``emit`` for ranges of rows that begin at multiples of ``unit``, on several threads where that is possible."""
    if not env.outermost:
        emit(contract, env.inner(), integer(0), rows)
        return
    whole = parallel.total_work(env, work((contract,), env))
    env.bind("$rows", rows)
    units = parallel.ceil_div(env, rows, integer(unit))

    def unit_range(inner: Environment, begin: Scalar, end: Scalar) -> None:
        first = multiply(inner, begin, integer(unit))
        last = inner.words.min(multiply(inner, end, integer(unit)), inner["$rows"])
        emit(contract, inner, first, last)

    parallel.parallel_range(env, units, parallel.share(env, whole, units), unit_range)


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
