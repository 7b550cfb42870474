"""Copies of squares of a buffer, transposed, into a local buffer: in registers."""

from __future__ import annotations

from typing import Final, NamedTuple

from jitgraph.codegen.cpu.tile import square_function
from jitgraph.codegen.cpu.vectors import LINE_BYTES
from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import Load, Loop, Statement, Store
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import LlvmScalar, fetch_line
from jitgraph.codegen.llvm.environment import Environment, integer
from jitgraph.codegen.llvm.index import add, element_address, index_value, multiply
from jitgraph.ir.dims import DimLike

_SQUARES_AHEAD: Final = 1


class _Square(NamedTuple):
    """``local[row * side + column] = buffer[index]`` for all rows and columns; rows are dense in the buffer."""

    load: Load
    store: Store
    row: str
    column: str
    side: int
    stride: DimLike  # between columns, in the buffer


def emit_transposition(statement: Statement, env: Environment) -> bool:
    """Emit ``statement`` where it is such a copy, as ``lower/transposition.py`` writes them; whether it is one."""
    square = _square(statement, env)
    if square is None:
        return False
    dtype = square.load.var.dtype
    lanes = min(square.side, env.target.lanes(dtype.itemsize))
    transpose = square_function(env, dtype, lanes)
    between = index_value(env, square.stride)
    buffer, local = env["&" + square.load.buffer], env["&" + square.store.buffer]

    def across(row: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        def along(column: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            there = env.at({square.row: row, square.column: column})
            source = element_address(env, buffer, index_value(there, square.load.index))
            place = add(env, multiply(env, row, integer(square.side)), column)
            to = element_address(env, local, place)
            env.function.do(f"call void {transpose}(ptr {source}, {between}, ptr {to}, i64 {square.side})")
            return []

        loops.counted(env, integer(0), integer(square.side), lanes, [], along)
        return []

    _fetch_ahead(square, env)
    loops.counted(env, integer(0), integer(square.side), lanes, [], across)
    return True


def _fetch_ahead(square: _Square, env: Environment) -> None:
    """Ask for the lines of a square to come: where squares follow each other down the buffer, the processor does not
    foresee them. Past the buffer's end nothing happens."""
    buffer, line = env["&" + square.load.buffer], max(1, LINE_BYTES // square.load.var.dtype.itemsize)
    ahead = multiply(env, index_value(env, square.stride), integer(_SQUARES_AHEAD * square.side))

    def column(at: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        for row in range(0, square.side, line):
            there = env.at({square.row: integer(row), square.column: at})
            address = element_address(env, buffer, add(env, index_value(there, square.load.index), ahead))
            fetch_line(env.function, address)
        return []

    loops.counted(env, integer(0), integer(square.side), 1, [], column)


def _square(statement: Statement, env: Environment) -> _Square | None:
    if env.lanes is not None or not isinstance(statement, Loop) or not isinstance(statement.extent, int):
        return None
    if statement.kind != "serial" or statement.carries or not statement.is_whole or len(statement.body) != 1:
        return None
    (inner,) = statement.body
    if (
        not isinstance(inner, Loop)
        or inner.kind != "vector"
        or inner.extent != statement.extent
        or len(inner.body) != 2
    ):
        return None
    load, store = inner.body
    if not isinstance(load, Load) or not isinstance(store, Store) or store.value != load.var or not inner.is_whole:
        return None
    side, stride = statement.extent, coefficient(load.index, statement.axis)
    if load.mask is not None or store.mask is not None or store.update is not None or stride is None:
        return None
    if coefficient(load.index, inner.axis) != 1 or coefficient(store.index, statement.axis) != 1:
        return None
    if coefficient(store.index, inner.axis) != side or env["&" + store.buffer].lanes != 1:
        return None
    dtype = load.var.dtype
    if side % min(side, env.target.lanes(dtype.itemsize)) or side & (side - 1) or side < 4:
        return None
    return _Square(load, store, inner.axis, statement.axis, side, stride)
