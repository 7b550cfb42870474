"""Requests for memory that is read some turns later, where a turn has too many instructions to wait for it itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import Body, Load
from jitgraph.codegen.llvm.access import memory_type
from jitgraph.codegen.llvm.environment import Environment
from jitgraph.codegen.llvm.index import index_value
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.codegen.llvm.structure import defined
from jitgraph.ir.dims import names as names_of

AHEAD_BYTES: Final = 2560
LINE_BYTES: Final = 64


def contiguous_loads(body: Body, axis: str, around: Body) -> Iterator[Load]:
    """Loads of neighbours along ``axis`` in ``body``, whose places do not depend on what ``around`` computes."""
    inside = {var.name for var in defined(around)}
    for load in body:
        if not isinstance(load, Load) or load.mask is not None or not inside.isdisjoint(names_of(load.index)):
            continue
        if coefficient(load.index, axis) == 1:
            yield load


def prefetch(env: Environment, load: Load, distances: Iterable[LlvmScalar]) -> None:
    """Ask for the lines so many bytes beyond what ``load`` reads; ``env`` is at one step of each loop around.

    Beyond the operand's end the processor ignores what it is asked for.
    """
    buffer = env["&" + load.buffer]
    env.module.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)\n")
    index = index_value(env, load.index)
    address = env.function.emit("ptr", f"getelementptr {memory_type(buffer.dtype)}, ptr {buffer.name}, {index}")
    for distance in distances:
        line = env.function.emit("ptr", f"getelementptr i8, {address}, {distance}")
        env.function.do(f"call void @llvm.prefetch.p0({line}, i32 0, i32 3, i32 1)")
