"""How many lanes a loop takes on the processor."""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import Body, Let, Load, Loop, Store
from jitgraph.codegen.kernels.traversal import bodies_of
from jitgraph.codegen.llvm.environment import Environment
from jitgraph.codegen.llvm.structure import length
from jitgraph.dtypes import DType, is_bool, is_float

_SCATTERED_LANES: Final = 16
_COLUMN_REGISTERS: Final = 4
_LINE_BYTES: Final = 64
_FEW_ROWS: Final = 8
_SHORT_BODY: Final = 24


def vector_lanes(loop: Loop, env: Environment) -> int:
    """Lanes for a loop: as many as one register holds of its widest values, but few where it gathers narrow ones.

    Sums down columns take several registers: their chains of additions overlap, and more of each row is read at once.
    Where few rows go together, side by side, it is a cache line of each: more would read each row in leaps.
    """
    lanes = env.target.vector_bytes // _widest(loop.body, env)
    if is_scattered(loop.body, loop.axis):
        return min(lanes, _SCATTERED_LANES)
    sums = [statement for statement in loop.body if isinstance(statement, Loop) and statement.carries]
    if loop.kind == "vector" and isinstance(loop.extent, int) and sums and length(loop.body) <= _SHORT_BODY:
        few = all(map(_takes_few_rows, sums))
        lanes *= max(1, _LINE_BYTES // env.target.vector_bytes) if few else _COLUMN_REGISTERS
    return lanes


def _takes_few_rows(loop: Loop) -> bool:
    steps = loop.extent if loop.span is None else loop.span
    return loop.kind == "serial" and isinstance(steps, int) and steps <= _FEW_ROWS


def is_scattered(body: Body, axis: str) -> bool:
    """Whether 8- or 16-bit elements are accessed other than one after another: that goes lane by lane."""
    for statement in body:
        match statement:
            case Load(var=value) | Store(value=value) if value.dtype.itemsize <= 2:
                if coefficient(statement.index, axis) not in (0, 1, -1):
                    return True
        if any(is_scattered(inner, axis) for inner in bodies_of(statement)):
            return True
    return False


def _widest(body: Body, env: Environment) -> int:
    widest = 1
    for statement in body:
        match statement:
            case Let():
                widest = max(widest, _register_bytes(statement.var.dtype, computed=statement.op != "const"))
            case Load():
                widest = max(widest, _register_bytes(statement.var.dtype, computed=False))
            case Store():
                widest = max(widest, _register_bytes(statement.value.dtype, computed=False))
        for inner in bodies_of(statement):
            widest = max(widest, _widest(inner, env))
    return widest


def _register_bytes(dtype: DType, computed: bool) -> int:
    if is_bool(dtype):
        return 1
    return 4 if computed and dtype.itemsize == 2 and is_float(dtype) else dtype.itemsize
