"""Factors of sums by weights on their way into shared memory, several columns of a row at a time.

Rows past the last are read where the last one is, and zero is stored for them: so no branch stands between the loads,
and all of a thread's may be under way at once.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cuda.attend_products import Panel
from jitgraph.codegen.cuda.thread import VECTOR_BYTES, ThreadStatements
from jitgraph.codegen.kernels.kernel import Factor
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.access import memory_type, to_memory
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, least, multiply, subtract
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import int64
from jitgraph.records import dataclass

_MOST_AT_ONCE: Final = 16
"""Elements, side by side or not, that a thread reads without a loop around them, in pieces."""


@dataclass(frozen=True)
class RowRange:
    """Rows ``first`` and after of an axis of ``extent`` of them, ``count`` at a time, read by ``threads``."""

    axis: str
    first: LlvmScalar
    extent: LlvmScalar
    count: int

    def is_whole(self) -> bool:
        """Whether there is no row past the last."""
        known = constant_of(self.extent)
        return known is not None and known % self.count == 0


def stage(
    factor: Factor,
    env: Environment,
    side: RowRange,
    panel: Panel,
    filled: int,
    thread: LlvmScalar,
    threads: int,
    statements: ThreadStatements,
) -> None:
    """Store the rows of ``side`` of a factor, ``filled`` columns of each, in ``panel``."""
    itemsize = factor.operand.value.dtype.itemsize
    several = VECTOR_BYTES // itemsize
    while factor.extent % several:
        several //= 2
    pieces = filled // several

    def piece(number: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        s = env.ops
        row, part = (s.make(f"{name} {number}, {pieces}", int64, 1) for name in ("udiv", "urem"))
        column = multiply(env, part, integer(several))
        global_row = add(env, side.first, row)
        inside: list[LlvmScalar] = []
        read_row, read_column = global_row, column
        if not side.is_whole():
            inside.append(s.cmp("lt", global_row, side.extent))
            read_row = least(env, global_row, subtract(env, side.extent, integer(1)))
        if filled != factor.extent:
            inside.append(s.cmp("lt", column, integer(factor.extent)))
            read_column = least(env, column, integer(factor.extent - several))
        values = [
            _element(factor, env, side.axis, read_row, read_column, one, several, statements) for one in range(several)
        ]
        at = add(env, multiply(env, row, integer(panel.pitch)), column)
        type = memory_type(factor.operand.value.dtype)
        start = env.function.emit("ptr", f"getelementptr {type}, {panel.address}, {at}")
        vector = f"<{several} x {type}>"
        line = "poison"
        for one, value in enumerate(values):
            line = env.function.emit(vector, f"insertelement {vector} {line}, {value}, i32 {one}").name
        for condition in inside:
            line = env.function.emit(vector, f"select {condition}, {vector} {line}, {vector} zeroinitializer").name
        env.function.do(f"store {vector} {line}, {start}, align {several * itemsize}")
        return []

    total = side.count * pieces
    turns = total // threads
    if total % threads or turns * several > _MOST_AT_ONCE * several or several == 1:
        loops.counted(env, thread, integer(total), threads, [], piece)
        return
    for turn in range(turns):
        piece(add(env, thread, integer(turn * threads)), [])


def _element(
    factor: Factor,
    env: Environment,
    axis: str,
    row: LlvmScalar,
    column: LlvmScalar,
    one: int,
    several: int,
    statements: ThreadStatements,
) -> LlvmScalar:
    """One of several neighbours; the first says how they are aligned, from which LLVM makes one access."""
    here = env.at({axis: row, factor.axis: add(env, column, integer(one))})
    statements.first_of = (factor.axis, several) if several > 1 and not one else None
    here.emit(factor.operand.body)
    statements.first_of = None
    return to_memory(env, here[factor.operand.value.name], factor.operand.value.dtype)
