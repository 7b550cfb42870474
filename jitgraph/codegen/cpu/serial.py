"""Loops of one thread, which ask the host now and then whether to stop."""

from __future__ import annotations

from functools import partial
from typing import Final

from jitgraph.codegen.cpu import pool
from jitgraph.codegen.cpu.vectors import emit_vector
from jitgraph.codegen.kernels.kernel import Body, Loop
from jitgraph.codegen.llvm.builder import check
from jitgraph.codegen.llvm.environment import Environment
from jitgraph.codegen.llvm.loops import Emit, emit_serial, window
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.codegen.llvm.structure import turn_length

POLL_LENGTH: Final = 4096
"""Instructions of a serial loop between two questions to the host whether to stop."""


def emit_loop(loop: Loop, env: Environment) -> None:
    """Emit a loop that is no reduction, all of it on this thread, and bind the results of its carries."""
    begin, end = window(loop, env)
    if loop.kind == "vector":
        emit_vector(loop, env, begin, end)
    else:
        emit_serial(loop, env, begin, end, partial(_asking, loop))


def _asking(loop: Loop, env: Environment, step: Emit, body: Body, count: int | None) -> Emit:
    """``step`` of a serial loop, which asks the host where the loop is long and stands outside of lanes."""
    if env.lanes is not None or (count is not None and count * turn_length(loop.body) <= POLL_LENGTH):
        return step
    return polled(env, step, turn_length(body))


def polled(env: Environment, step: Emit, size: int) -> Emit:
    """``step``, after which the host is asked whether to stop, once in about POLL_LENGTH instructions."""
    every = 1 << max(0, (POLL_LENGTH // max(1, size)).bit_length() - 1)
    function = env.function

    def asking(axis: LlvmScalar, carries: list[LlvmScalar]) -> list[LlvmScalar]:
        results = step(axis, carries)
        pool.declare(env.module)
        question = f"call i32 @jg_poll_anywhere({env['$host']}, {env['$call']}, {env['$scratch']})"
        if every == 1:
            check(function, question)
            return results
        ask, go_on = function.label("ask"), function.label("go_on")
        low = function.emit("i64", f"and {axis}, {every - 1}")
        due = function.emit("i1", f"icmp eq {low}, {every - 1}")
        function.branch(due.name, ask, go_on, likely=False)
        known = function.known
        function.start_block(ask)
        check(function, question)
        function.jump(go_on)
        function.start_block(go_on, known)
        return results

    return asking
