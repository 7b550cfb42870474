"""The slow executor of schedules: every step in order, temporaries at their planned places in one poisoned arena."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jitgraph import dtypes
from jitgraph.codegen.backend import run_host_call
from jitgraph.codegen.kernels.schedule import (
    Branch,
    Exchange,
    HostStep,
    Launch,
    MemoryPlan,
    ParallelCopy,
    Pop,
    PrintStep,
    Push,
    Schedule,
    ScheduleBuffer,
    Step,
    While,
)
from jitgraph.errors import ArgumentError, GraphError
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike, parse_dim
from jitgraph.records import dataclass
from jitgraph.runtime.loader import CHECK_KINDS
from jitgraph_testing.kernels.executor import POISON, CheckFailedError, execute_kernel

Array = NDArray[Any]


def execute_schedule(
    schedule: Schedule,
    inputs: Sequence[Array],
    *,
    sizes: dict[str, int] | None = None,
    donate: bool = False,
    vectorise: bool = True,
) -> list[Array]:
    """The outputs, in the order of their positions, for these inputs (one array for each input buffer, by position).

    ``sizes`` are found in the inputs' shapes where not given. Inputs are copied first, so they are never changed. With
    a plan, temporaries lie in one arena at their offsets; memory is poisoned before it is first written and when a
    temporary is used no more. With ``donate`` an output takes the memory of the input that the plan gives it.
    ArgumentError for inputs that do not fit, GraphError for a fault of the schedule, and the kind of error that a
    failed check names.
    """
    run = _ScheduleRun(schedule, vectorise)
    run.take_inputs(inputs, sizes)
    run.bind_buffers(donate)
    try:
        run.steps(schedule.steps, top=True)
    except CheckFailedError as failed:
        site = schedule.checks[failed.check]
        message = site.message.replace("{index}", str(failed.value)).replace("{bound}", str(failed.bound))
        where = f"\n  at {site.location}" if site.location else ""
        raise CHECK_KINDS[site.kind](message + where) from failed
    outputs = sorted((b for b in schedule.buffers if b.role == "output"), key=lambda buffer: buffer.position)
    return [run.memory[buffer.name].reshape(run.shape(buffer)) for buffer in outputs]


def _as_stored(array: Array) -> Array:
    """Complex numbers as buffers have them: floats with a last axis of two."""
    if array.dtype.kind != "c":
        return array
    return array.reshape(-1).view(array.real.dtype).reshape(*array.shape, 2)


@dataclass(slots=True)
class _ScheduleRun:
    schedule: Schedule
    vectorise: bool
    sizes: dict[str, int] = field(default_factory=dict)
    memory: dict[str, Array] = field(default_factory=dict)  # flat
    stacks: dict[str, list[Array]] = field(default_factory=dict)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)  # bytes of the arena
    arena: Array = field(default_factory=lambda: np.empty(0, np.uint8))

    def shape(self, buffer: ScheduleBuffer) -> tuple[int, ...]:
        return tuple(dims.evaluate(dim, self.sizes) for dim in buffer.type.shape)

    def take_inputs(self, inputs: Sequence[Array], sizes: dict[str, int] | None) -> None:
        expected = sorted((b for b in self.schedule.buffers if b.role == "input"), key=lambda buffer: buffer.position)
        if len(expected) != len(inputs):
            raise ArgumentError(f"{self.schedule.name} takes {len(expected)} inputs, not {len(inputs)}")
        arrays = [_as_stored(np.array(array, order="C")) for array in inputs]
        self.sizes = dict(sizes or {})
        for buffer, array in zip(expected, arrays, strict=True):
            for dim, extent in zip(buffer.type.shape, array.shape, strict=False):
                if not isinstance(dim, int) and (name := dim.as_name):
                    self.sizes.setdefault(name, extent)
        for buffer, array in zip(expected, arrays, strict=True):
            if array.dtype != buffer.type.dtype or array.shape != self.shape(buffer):
                raise ArgumentError(
                    f"input {buffer.name} should be {buffer.type}, not {array.dtype}{list(array.shape)}"
                )
            self.memory[buffer.name] = array.reshape(-1)
        for constraint in self.schedule.constraints:
            if not constraint.holds(self.sizes):
                raise ArgumentError(f"{self.schedule.name} requires {constraint}, which does not hold here")
        for extent in self.schedule.extents:
            if dims.evaluate(extent, self.sizes) >= 1 << 63:
                raise ArgumentError(f"{self.schedule.name}: the size {extent} leaves 64 bits")
        self.sizes |= {number.name: number.value(self.sizes) for number in self.schedule.numbers}

    def bind_buffers(self, donate: bool) -> None:
        plan = self.schedule.plan
        if plan:
            self.arena = np.full(dims.evaluate(plan.arena_bytes, self.sizes), POISON, np.uint8)
        for buffer in self.schedule.buffers:
            if buffer.value is not None:
                self.memory[buffer.name] = buffer.value.value.reshape(-1)
            elif buffer.role == "temporary":
                self.memory[buffer.name] = self.temporary(buffer, plan)
            elif buffer.role == "output":
                donor = plan.donations.get(buffer.name) if plan and donate else None
                self.memory[buffer.name] = self.memory[donor] if donor else self.fresh(buffer)

    def fresh(self, buffer: ScheduleBuffer) -> Array:
        array = np.empty(int(np.prod(self.shape(buffer))), buffer.type.dtype)
        _poison(array)
        return array

    def temporary(self, buffer: ScheduleBuffer, plan: MemoryPlan | None) -> Array:
        if plan is None:
            return self.fresh(buffer)
        if buffer.name not in plan.offsets:
            raise GraphError(f"{self.schedule.name}: the memory plan has no place for {buffer.name}")
        start = self.size(plan.offsets[buffer.name])
        length = self.size(buffer.bytes)
        if start % 64 or start < 0 or start + length > self.arena.size:
            raise GraphError(
                f"{self.schedule.name}: {buffer.name} has {length} bytes at {start}, which is no place of 64-byte "
                f"alignment in an arena of {self.arena.size}"
            )
        self.spans[buffer.name] = (start, start + length)
        return self.arena[start : start + length].view(buffer.type.dtype)

    def size(self, dim: DimLike) -> int:
        return dims.evaluate(dim, self.sizes)

    def steps(self, steps: Sequence[Step], *, top: bool = False) -> None:
        mentioned = [_mentioned((step,)) for step in steps] if top and self.spans else []
        last = {name: number for number, names in enumerate(mentioned) for name in names}
        live: set[str] = set()
        for number, step in enumerate(steps):
            self.step(step)
            if mentioned:
                live |= mentioned[number]
                done = {name for name in live if last[name] == number}
                live -= done
                self.release(done, live)

    def release(self, done: set[str], live: set[str]) -> None:
        """Poison the bytes of the temporaries ``done`` that no temporary in ``live`` shares."""
        live_spans = [self.spans[name] for name in live if name in self.spans]
        for name in done & self.spans.keys():
            free = np.zeros(self.arena.size, np.bool_)
            free[slice(*self.spans[name])] = True
            for span in live_spans:
                free[slice(*span)] = False
            self.arena[free] = POISON

    def step(self, step: Step) -> None:
        match step:
            case Launch(kernel, names):
                params = [param.name for param in kernel.params]
                if len(params) != len(names):
                    raise GraphError(f"kernel {kernel.name} takes {len(params)} buffers, not {len(names)}")
                buffers = {param: self.buffer(name) for param, name in zip(params, names, strict=True)}
                execute_kernel(kernel, buffers, self.sizes, vectorise=self.vectorise)
            case Branch(predicate, then, otherwise):
                self.steps(then if self.buffer(predicate)[0] else otherwise)
            case While(condition, predicate, body, count):
                turns = 0
                self.steps(condition)
                while self.buffer(predicate)[0]:
                    self.steps(body)
                    self.steps(condition)
                    turns += 1
                if count is not None and turns != self.size(count):
                    raise GraphError(f"{self.schedule.name}: a loop of {self.size(count)} turns ended after {turns}")
            case Push(stack, name):
                self.stacks.setdefault(stack, []).append(self.buffer(name).copy())
            case Pop(stack, name):
                if not self.stacks.get(stack):
                    raise GraphError(f"{self.schedule.name}: {stack} is popped while it is empty")
                self.buffer(name)[...] = self.stacks[stack].pop()
            case PrintStep(site, names):
                printed = self.schedule.prints[site]
                shapes = [[self.size(parse_dim(str(n))) for n in operand.shape] for operand in printed.operands]
                printed.write([self.buffer(name).reshape(shape) for name, shape in zip(names, shapes, strict=True)])
            case HostStep(site, reads, writes):
                host = self.schedule.calls[site]
                shapes = [[self.size(extent) for extent in type.shape] for type in host.operands]
                operands = [self.buffer(name).reshape(shape) for name, shape in zip(reads, shapes, strict=True)]
                results = run_host_call(host, operands, self.sizes)
                for name, array in zip(writes, results, strict=True):
                    self.buffer(name)[...] = array.reshape(-1)
            case ParallelCopy(copies):
                contents = [self.buffer(copy.buffers[0]).copy() for copy in copies]
                for copy, array in zip(copies, contents, strict=True):
                    self.buffer(copy.buffers[1])[...] = array
            case Exchange(names, _):
                following = (*names[1:], names[0])
                self.memory |= dict(zip(names, [self.buffer(name) for name in following], strict=True))
                if self.spans:
                    self.spans |= dict(zip(names, [self.spans[name] for name in following], strict=True))

    def buffer(self, name: str) -> Array:
        if name not in self.memory:
            raise GraphError(f"{self.schedule.name}: there is no buffer {name}")
        return self.memory[name]


def _poison(array: Array) -> None:
    array.view(np.uint8)[...] = 1 if dtypes.is_bool(array.dtype) else POISON


def _mentioned(steps: Iterable[Step]) -> set[str]:
    mentioned: set[str] = set()
    for step in steps:
        match step:
            case Launch(_, names):
                mentioned.update(names)
            case Branch(predicate, then, otherwise):
                mentioned |= {predicate} | _mentioned(then) | _mentioned(otherwise)
            case While(condition, predicate, body):
                mentioned |= {predicate} | _mentioned(condition) | _mentioned(body)
            case Push(_, name) | Pop(_, name):
                mentioned.add(name)
            case PrintStep(_, names):
                mentioned.update(names)
            case HostStep(_, reads, writes):
                mentioned.update((*reads, *writes))
            case ParallelCopy(copies):
                mentioned |= _mentioned(copies)
            case Exchange(names, _):
                mentioned.update(names)
    return mentioned
