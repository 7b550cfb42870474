"""Loops of one thread, which ask the host now and then whether to stop."""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cpu import pool
from jitgraph.codegen.cpu.vectors import emit_vector
from jitgraph.codegen.kernels.kernel import Loop
from jitgraph.codegen.llvm.builder import check
from jitgraph.codegen.llvm.environment import Environment, constant_of
from jitgraph.codegen.llvm.index import subtract
from jitgraph.codegen.llvm.loops import Emit, carried, counted, hoist, window, written_out
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.codegen.llvm.structure import length, turn_length

_UNROLLED_BODY: Final = 24
"""Length up to which all steps of a serial loop are written out."""

POLL_LENGTH: Final = 4096
"""Instructions of a serial loop between two questions to the host whether to stop."""


def emit_loop(loop: Loop, env: Environment) -> None:
    """Emit a loop that is no reduction, all of it on this thread, and bind the results of its carries."""
    begin, end = window(loop, env)
    if loop.kind == "vector":
        emit_vector(loop, env, begin, end)
    else:
        _emit_serial(loop, env, begin, end)


def _emit_serial(loop: Loop, env: Environment, begin: LlvmScalar, end: LlvmScalar) -> None:
    inner = env.inner()
    init = [carried(env, env[carry.init.name]) for carry in loop.carries]
    count = subtract(env, end, begin)
    rest = hoist(loop, inner, count)

    def step(axis: LlvmScalar, carries: list[LlvmScalar]) -> list[LlvmScalar]:
        inner.bind(loop.axis, axis)
        for carry, value in zip(loop.carries, carries, strict=True):
            inner.bind(carry.var.name, value)
        inner.emit(rest)
        return [carried(env, inner[carry.next.name]) for carry in loop.carries]

    known = constant_of(count)
    asks = env.lanes is None and (known is None or known * turn_length(loop.body) > POLL_LENGTH)
    few = loop.span if known is None else known
    if loop.carries and few is not None and few * length(rest) <= _UNROLLED_BODY:
        results = written_out(inner, begin, end, few, init, step)
    else:
        results = counted(inner, begin, end, 1, init, polled(inner, step, turn_length(rest)) if asks else step)
    for carry, result in zip(loop.carries, results, strict=True):
        env.bind(carry.result.name, result)


def polled(env: Environment, step: Emit, size: int) -> Emit:
    """``step``, after which the host is asked whether to stop, once in about POLL_LENGTH instructions."""
    every = 1 << max(0, (POLL_LENGTH // max(1, size)).bit_length() - 1)
    function = env.function

    def asking(axis: LlvmScalar, carries: list[LlvmScalar]) -> list[LlvmScalar]:
        results = step(axis, carries)
        pool.declare(env.module)
        ask, go_on = function.label("ask"), function.label("go_on")
        low = function.emit("i64", f"and {axis}, {every - 1}")
        due = function.emit("i1", f"icmp eq {low}, {every - 1}")
        function.branch(due.name, ask, go_on, likely=False)
        known = function.known
        function.start_block(ask)
        check(function, f"call i32 @jg_poll_anywhere({env['$host']}, {env['$call']}, {env['$scratch']})")
        function.jump(go_on)
        function.start_block(go_on, known)
        return results

    return asking
