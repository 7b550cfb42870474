"""What a loop of the entry function runs is part of it where it is small: kernels inlined, small buffers as values.

A scalar loop is a few instructions an iteration; calls, and carries that go through memory, would take several times as
long. A kernel is inlined where a ``While`` launches it and it is short. A buffer of some bytes that inlined kernels
alone touch lies in the frame of the entry, whence LLVM's passes lift it into registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from jitgraph.codegen.kernels.schedule import (
    Branch,
    Exchange,
    HostStep,
    Launch,
    Pop,
    PrintStep,
    Push,
    Schedule,
    ScheduleBuffer,
    Step,
    While,
    all_steps,
    inner_steps,
)
from jitgraph.codegen.llvm.builder import Definition
from jitgraph.records import dataclass

MOST_LINES: Final = 80
"""Of a kernel, the math functions that it calls included, for it to be inlined into a loop."""

MOST_STRAIGHT_LINES: Final = 400
"""Of a kernel without loops and vectors: all of it is scalars of the loop around it."""

MOST_LINES_TOGETHER: Final = 1600

UNPOLLED_LINES: Final = 10_000_000
"""Instructions that a loop of known length may execute in all its turns without a question to the host: some ms."""

MOST_BYTES: Final = 64
"""Of a buffer that is a value: a vector register."""

_MATH_LINES: Final = 40  # of a math function, about


@dataclass(frozen=True)
class Emitted:
    """A kernel that has been emitted: its function, the scratch memory it takes, its lines, and what is in them."""

    name: str
    scratch_bytes: int
    lines: int
    can_fail: bool
    shares: bool  # work among threads
    loops: bool

    @property
    def is_small(self) -> bool:
        return not self.shares and self.lines <= (MOST_LINES if self.loops else MOST_STRAIGHT_LINES)


def emitted(name: str, scratch_bytes: int, kernel: Definition, math: Collection[str]) -> Emitted:
    """What to know of a kernel whose function is ``kernel``; ``math`` are the names of math functions."""
    lines = kernel.lines + _MATH_LINES * sum(count for used, count in kernel.uses.items() if used in math)
    return Emitted(name, scratch_bytes, lines, kernel.returns > 1, "jg_range" in kernel.uses, kernel.hot)


@dataclass(frozen=True)
class Inlining:
    """The launches whose kernels are inlined, by the names of their functions, and the buffers that become values."""

    functions: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()

    def covers(self, loop: While, functions: Mapping[int, Emitted]) -> bool:
        """Whether all that one turn does is inlined launches; ``functions`` are those of launches, by identity.

        They may stand in branches, and in loops, which ask the host by themselves once in as many turns.
        """
        return all(
            functions[id(step)].name in self.functions
            if isinstance(step, Launch)
            else isinstance(step, Branch | While | Exchange)
            for step in all_steps(inner_steps(loop))
        )

    def asks_nothing(self, loop: While, functions: Mapping[int, Emitted]) -> bool:
        """Whether a loop is of scalars and known to last some milliseconds at most."""
        lines = _all_lines(loop, functions) if self.covers(loop, functions) else None
        return lines is not None and lines <= UNPOLLED_LINES

    def turn_lines(self, loop: While, functions: Mapping[int, Emitted]) -> int:
        """About how many instructions a turn executes between questions to the host."""
        return _turn_lines(inner_steps(loop), functions)


def _all_lines(loop: While, functions: Mapping[int, Emitted]) -> int | None:
    """About how many instructions all turns of a loop execute; None where that is not known, or a kernel loops."""
    for step in all_steps(inner_steps(loop)):
        if isinstance(step, Launch) and functions[id(step)].loops:
            return None
        if isinstance(step, While) and not isinstance(step.count, int):
            return None
    return loop.count * _turn_lines(inner_steps(loop), functions) if isinstance(loop.count, int) else None


def _turn_lines(steps: Sequence[Step], functions: Mapping[int, Emitted]) -> int:
    total = 0
    for step in steps:
        match step:
            case Launch():
                total += functions[id(step)].lines
            case Branch():
                total += _turn_lines(inner_steps(step), functions)
            case While():
                lines = _all_lines(step, functions)
                asks = lines is None or lines > UNPOLLED_LINES
                total += _turn_lines(inner_steps(step), functions) if asks else lines or 0
    return total


def plan_inlining(schedule: Schedule, functions: Mapping[int, Emitted], donated: Collection[str]) -> Inlining:
    """What to inline into the loops of ``schedule``; ``donated`` are outputs that lie in the memory of inputs."""
    loops = [step for step in all_steps(schedule.steps) if isinstance(step, While)]
    if not loops:
        return Inlining()
    inside = [functions[id(launch)] for launch in launches(loops)]
    candidates = {function.name for function in inside if function.is_small}
    readers: dict[str, set[str]] = {}
    written: set[str] = set()
    for launch in launches(schedule.steps):
        for buffer, param in zip(launch.buffers, launch.kernel.params, strict=True):
            readers.setdefault(buffer, set()).add(functions[id(launch)].name)
            if param.access != "read":
                written.add(buffer)
    small = {function.name for function in functions.values() if function.is_small}
    steps = list(all_steps(schedule.steps))
    in_memory = {step.buffer for step in steps if isinstance(step, Push | Pop)}
    in_memory.update(
        name for step in steps if isinstance(step, PrintStep | HostStep | Exchange) for name in step.buffers
    )
    values = frozenset(
        buffer.name
        for buffer in schedule.buffers
        if _may_be_value(buffer, written, donated)
        and buffer.name not in in_memory
        and readers.get(buffer.name, set()) <= small
        and not readers.get(buffer.name, set()).isdisjoint(candidates)
    )
    chosen = frozenset(candidates.union(*(readers[name] for name in values)))
    times = Counter(functions[id(launch)].name for launch in launches(schedule.steps))
    lines = {function.name: function.lines for function in functions.values()}
    if sum(lines[name] * times[name] for name in chosen) > MOST_LINES_TOGETHER:
        return Inlining()
    return Inlining(chosen, values)


def launches(steps: Sequence[Step]) -> list[Launch]:
    """Every launch among ``steps``, those of branches and loops included, in order."""
    return [step for step in all_steps(steps) if isinstance(step, Launch)]


def _may_be_value(buffer: ScheduleBuffer, written: Collection[str], donated: Collection[str]) -> bool:
    if not isinstance(buffer.bytes, int) or not 0 < buffer.bytes <= MOST_BYTES:
        return False
    match buffer.role:
        case "temporary":
            return True
        case "input":
            return buffer.name not in written
        case "output":
            return buffer.name in written and buffer.name not in donated
    return False
