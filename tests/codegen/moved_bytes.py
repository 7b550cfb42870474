"""Bytes that a schedule reads and writes in all of its turns, counted in its kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from jitgraph.codegen.kernels.kernel import Body, Load, Loop, Store
from jitgraph.codegen.kernels.schedule import (
    Branch,
    HostStep,
    Launch,
    Pop,
    PrintStep,
    Push,
    Schedule,
    Step,
    While,
    copied,
)
from jitgraph.ir import dims


def moved_bytes(
    schedule: Schedule, sizes: Mapping[str, int] | None = None, turns: int = 0, *, donated: bool = False
) -> int:
    """The bytes for these sizes, both sides of branches; ``turns`` are those of a loop whose number is not known.

    With ``donated`` outputs are the memory of the inputs that the plan gives them, and no input is copied to itself.
    """
    if donated:
        assert schedule.plan is not None
        donations = schedule.plan.donations.items()
        steps = [step for step in schedule.steps if (copied(step) or ())[::-1] not in donations]
        schedule = replace(schedule, steps=tuple(steps))
    buffers = {buffer.name: dims.evaluate(buffer.bytes, sizes or {}) for buffer in schedule.buffers}
    return _of_steps(schedule.steps, buffers, sizes or {}, turns)


def _of_steps(steps: Iterable[Step], buffers: Mapping[str, int], sizes: Mapping[str, int], turns: int) -> int:
    total = 0
    for step in steps:
        match step:
            case Launch(kernel, _):
                widths = {param.name: param.dtype.itemsize for param in kernel.params}
                total += _of_body(kernel.body, widths, sizes)
            case Branch(_, then, otherwise):
                total += _of_steps((*then, *otherwise), buffers, sizes, turns)
            case While(condition, _, body, count):
                many = turns if count is None else dims.evaluate(count, sizes)
                total += many * _of_steps((*condition, *body), buffers, sizes, turns)
            case Push(_, buffer) | Pop(_, buffer):
                total += buffers[buffer]
            case PrintStep(_, names):
                total += sum(buffers[name] for name in names)
            case HostStep():
                total += sum(buffers[name] for name in step.buffers)
    return total


def _of_body(body: Body, widths: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    total = 0
    for statement in body:
        match statement:
            case Load(_, buffer, _, _) | Store(buffer, _, _, _, _):
                total += widths.get(buffer, 0)
            case Loop():
                total += dims.evaluate(statement.extent, sizes) * _of_body(statement.body, widths, sizes)
    return total
