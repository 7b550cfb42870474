"""``jg.profiler.profile``: a block whose compiled calls, eager ops and compilations are timed one by one."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import numpy as np

from jitgraph import config, ops
from jitgraph.codegen.cpu import backend
from jitgraph.codegen.cpu.entry import BEGAN, BEGIN, END, FIRST_STEP, RUNS, TICKS, WORDS_OF_STEP, timed_steps
from jitgraph.eager.placement import DeviceValue
from jitgraph.errors import JitgraphError, TraceError
from jitgraph.ir import context
from jitgraph.ir.op import Op
from jitgraph.location import Location, located, user_location
from jitgraph.profiler import limits, report
from jitgraph.profiler.events import Events, Kind, LeastWork, Lines, ProfileEvent, ProfileRow, TimedStep, lines_of
from jitgraph.profiler.limits import compiled
from jitgraph.runtime import imports, loader
from jitgraph.runtime.executable import Executable
from jitgraph.tracing.call.backend import Runnable
from jitgraph.tracing.call.invocation import Invocation
from jitgraph.tracing.call.specialisation import Invoke, Specialisation

# ----------------------------------------------------------------------
# Timed code: a second image of a compiled graph, whose entry notes how long launches take (``cpu/entry.py``).
#
# Its results have the bits of the first: the kernels are the same, and the counter is read between them.

_CALIBRATION: Final = 0.02  # seconds
_MOST_SIZES: Final = 256
_made: Final[WeakKeyDictionary[Executable, TimedEntry]] = WeakKeyDictionary()


class TimedEntry(loader.Entry):
    """An entry that tells the profile in force of each call, with the table that the call filled."""

    def __init__(self, executable: Executable) -> None:
        schedule, entry = executable.stages.schedule, executable.entry
        super().__init__(
            loader.Image(backend.build_image(schedule, executable.target, timed=True)),
            executable.signature,
            runtime=entry.runtime,
            callback=executable.callback,
            threads=entry.threads,
        )
        self.steps = [TimedStep(schedule, step) for step in timed_steps(schedule.steps)]
        self._works: dict[tuple[int, ...], list[LeastWork]] = {}

    def call(self, plan: loader.ShapePlan, buffers: bytes) -> None:
        table = (ctypes.c_uint64 * (FIRST_STEP + WORDS_OF_STEP * len(self.steps)))()
        profile = context.current().profile
        begin = time.perf_counter_ns()
        try:
            super().call(plan, buffers + struct.pack("P", ctypes.addressof(table)))
        finally:
            if profile is not None:
                profile.called(self, plan, begin, time.perf_counter_ns(), table)

    def works(self, plan: loader.ShapePlan) -> list[LeastWork]:
        """What a run of each step does at least in a call with these sizes."""
        sizes = tuple(plan.dims)[: len(self.signature.dims)]
        cached = self._works.get(sizes)
        if cached is None:
            if len(self._works) >= _MOST_SIZES:
                self._works.clear()
            by_name = dict(zip(self.signature.dims, sizes, strict=True))
            cached = self._works[sizes] = [step.work(by_name) for step in self.steps]
        return cached


def timed_entry(executable: Any, tell: Callable[[int, int], None]) -> TimedEntry | None:
    """Timed code of what was compiled; None where launches cannot be timed: on GPUs, and in the interpreter.

    ``tell`` is told from when to when it was made, unless it was there.
    """
    if not isinstance(executable, Executable) or executable.target is None or executable.target.sm is not None:
        return None
    entry = _made.get(executable)
    begin = time.perf_counter_ns()
    if entry is None and executable.stages is not None:
        entry = _made[executable] = TimedEntry(executable)
        tell(begin, time.perf_counter_ns())
    return entry


class _Noting:
    """A profile that keeps when the last call entered native code, by the clock and by the counter."""

    clock = ticks = 0

    def called(self, entry: TimedEntry, plan: loader.ShapePlan, begin: int, end: int, table: Sequence[int]) -> None:
        self.clock, self.ticks = begin, table[BEGIN]


@lru_cache(maxsize=1)
def nanoseconds_per_tick() -> float:
    """How long a tick of the time stamp counter is, measured against the clock once in a process, in 20 ms."""
    inputs = [np.ones(1, np.float32)]
    executable = compiled(ops.neg, inputs)
    assert isinstance(executable, Executable)
    entry, noting = TimedEntry(executable), _Noting()
    with context.using(profile=noting):
        entry.run(inputs)
        entry.run(inputs)
        clock, ticks = noting.clock, noting.ticks
        time.sleep(_CALIBRATION)
        entry.run(inputs)
    return (noting.clock - clock) / (noting.ticks - ticks)


# ----------------------------------------------------------------------
# ``jg.profiler.profile``: a block whose compiled calls, eager ops and compilations are timed one by one.

# ----------------------------------------------------------------------
# Eager ops under a profile, each timed without the ops that it consists of.

Emit = Callable[..., tuple[Any, ...]]
Tell = Callable[[str, Location | None, int, int, int, int], None]
"""Told of each op: its name and line, begin and end, its own nanoseconds, and the bytes that it moves."""


class OpTimer:
    """Times ops as they are applied, and reports each when it has ended."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._inside: list[int] = []  # of each op that is running: nanoseconds of what is told apart
        self._parts: list[bool] = []  # and whether it consists of others

    def exclude(self, nanoseconds: int) -> None:
        """What the running op spent on something that is reported by itself."""
        if self._inside:
            self._inside[-1] += nanoseconds

    def apply(self, emit: Emit, op: Op, inputs: Sequence[Any], *rest: Any) -> tuple[Any, ...]:
        """The outputs of ``emit(op, inputs, *rest)``."""
        outputs: tuple[Any, ...] = ()
        self._inside.append(0)
        self._parts.append(False)
        begin = time.perf_counter_ns()
        try:
            outputs = emit(op, inputs, *rest)
            wait_for(outputs)
            return outputs
        finally:
            end = time.perf_counter_ns()
            inside, has_parts = self._inside.pop(), self._parts.pop()
            if self._inside:
                self._inside[-1] += end - begin
                self._parts[-1] = True
            moved = 0 if has_parts else sum(map(_bytes, (*inputs, *outputs)))
            self._tell(op.name, located(user_location()), begin, end, end - begin - inside, moved)


def wait_for(values: Sequence[Any]) -> None:
    """Wait for the GPUs on which values lie; CudaError where some of their work failed, and errors of checks in it."""
    for name in {value.device for value in values if value.__class__ is DeviceValue}:
        imports.module("jitgraph.runtime.cuda.streams").device_named(name).synchronize()


def _bytes(value: Any) -> int:
    """Bytes of a tensor; 0 for tokens and stacks."""
    type = value.type
    size, dtype = getattr(type, "size", None), getattr(type, "dtype", None)
    return size * dtype.itemsize if isinstance(size, int) and dtype is not None else 0


# ----------------------------------------------------------------------
# ``jg.profiler.profile``: a block whose compiled calls, eager ops and compilations are timed one by one.

MOST_EVENTS: Final = 100_000


class profile:  # noqa: N801 - as in PyTorch
    """Times what the thread that runs the block does in it: each kernel, with the user's line, each eager op, and what
    was recorded and compiled.

    Results have the bits that they have without a profile. Compiled calls run a second image that reads the processor's
    counter between kernels, which is compiled when it is first needed (rows of kind ``profiler``), and both calls and
    eager ops go by way of Python: short ones take some microseconds longer than without a profile. What runs on a GPU
    is waited for, and a compiled call there is one row. ``max_events`` limits what ``export_chrome_trace`` shows; the
    table counts everything. TraceError inside of a traced function, JitgraphError inside of another profile.
    """

    def __init__(self, *, max_events: int = MOST_EVENTS) -> None:
        if max_events < 0:
            raise JitgraphError(f"max_events={max_events} is negative")
        self._events = Events(max_events)
        self._begin = self._end = 0
        self._block = ExitStack()
        self._invocations: dict[int, tuple[Specialisation, Invocation]] = {}
        self._ops = OpTimer(self._op)
        self.around: context.Context
        """The context around the block."""

    def __enter__(self) -> profile:
        around = context.current()
        if self._begin:
            raise JitgraphError("a profile is of one block\n  hint: make another: jg.profiler.profile()")
        if around.trace is not None:
            raise TraceError(
                "a profile cannot begin inside of a traced function",
                location=Location.of_user(),
                hint="profile the code that calls the function",
            )
        if around.profile is not None:
            raise JitgraphError("a profile is running already\n  hint: one block at a time has a profile")
        if not config.INTERPRET.is_on():
            nanoseconds_per_tick()
        self.around = around
        self._block.enter_context(context.using(profile=self))
        self._begin = time.perf_counter_ns()
        return self

    def __exit__(self, *failure: object) -> None:
        self._end = time.perf_counter_ns()
        self._invocations.clear()
        self._block.close()

    # --- what is told -----------------------------------------------------------------------------------------------

    def invocation(self, owner: Specialisation, plain: Invoke) -> Invoke:
        """What a call of a traced function runs in place of ``plain``."""
        known = self._invocations.get(id(owner))
        if known is not None:
            return known[1]
        entry = self._timed(owner.forward, owner.plan.name)
        if entry is None:
            return self._as_a_whole(owner.plan.name, plain)
        invocation = Invocation(entry, owner.in_place, recycle=not owner.taped)
        self._invocations[id(owner)] = owner, invocation
        return invocation

    def gradient(self, runnable: Runnable) -> Callable[..., list[Any]]:
        """What runs in place of ``made.run``, the code of a gradient."""
        entry = self._timed(runnable, "gradient")
        return self._as_a_whole("gradient", runnable.run) if entry is None else entry.run

    def _timed(self, runnable: Runnable, name: str) -> TimedEntry | None:
        return timed_entry(runnable, partial(self._took, "profiler", f"timed code of {name}", ()))

    def _as_a_whole(self, name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            begin = time.perf_counter_ns()
            try:
                result = run(*args)
                wait_for(result)
                return result
            finally:
                self._took("call", name, (), begin, time.perf_counter_ns())

        return timed

    def called(self, entry: TimedEntry, plan: loader.ShapePlan, begin: int, end: int, table: Sequence[int]) -> None:
        """A call of timed code ended, which filled ``table``."""
        per_tick, thread = nanoseconds_per_tick(), threading.get_ident()
        first, last = table[BEGIN], table[END]
        # The entry's own end is what a call waits for; one that failed has none.
        start = max(begin, end - (last - first) * per_tick) if last else begin
        inside, events, loops = 0.0, [], {}
        for number, (step, work) in enumerate(zip(entry.steps, entry.works(plan), strict=True)):
            words = FIRST_STEP + WORDS_OF_STEP * number
            runs = table[words + RUNS]
            if not runs:
                continue
            took = table[words + TICKS] * per_tick
            inside += took
            total = self._events.total("kernel", step.name, step.lines)
            total.add(took, runs, runs * work.bytes, runs * work.flops, work.bits)
            if runs > 1:
                loops[f"{step.name} ({number})"] = f"{runs} runs, {took / 1e3:.3f} us"
                continue
            at = start + (table[words + BEGAN] - first) * per_tick
            details = {"bytes": work.bytes, "flops": work.flops}
            events.append(ProfileEvent("kernel", step.name, step.lines, thread, int(at), int(at + took), details))
        name = entry.signature.name
        self._events.total("call", name, ()).add(end - begin - inside)
        self._events.note([ProfileEvent("call", name, (), thread, begin, end, loops), *events])

    def applied(self, emit: Emit, op: Op, inputs: Sequence[Any], *rest: Any) -> tuple[Any, ...]:
        """The outputs of an eager op that ``emit`` applies."""
        return self._ops.apply(emit, op, inputs, *rest)

    def compiled_op(self, name: str, begin: int, end: int) -> None:
        """Code for an eager op, or its gradient, was compiled or found in the cache."""
        self._took("compile", name, (), begin, end)
        self._ops.exclude(end - begin)

    def _op(self, name: str, location: Location | None, begin: int, end: int, own: int, moved: int) -> None:
        lines = lines_of(location)
        self._events.total("op", name, lines).add(own, 1, moved)
        self._events.note([ProfileEvent("op", name, lines, threading.get_ident(), begin, end, {"bytes": moved})])

    def specialised(self, name: str, location: Location | None, start: float, traced: float, done: float) -> None:
        """A function was recorded and compiled, at these seconds of ``time.perf_counter``."""
        self._took("trace", name, lines_of(location), int(1e9 * start), int(1e9 * traced))
        self._took("compile", name, lines_of(location), int(1e9 * traced), int(1e9 * done))

    def _took(self, kind: Kind, name: str, lines: Lines, begin: int, end: int) -> None:
        self._events.total(kind, name, lines).add(end - begin)
        self._events.note([ProfileEvent(kind, name, lines, threading.get_ident(), begin, end, {})])

    # --- what is shown ----------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """How long the block took, or has taken so far."""
        end = self._end or (time.perf_counter_ns() if self._begin else 0)
        return 1e-9 * (end - self._begin)

    def rows(self, sort_by: Literal["seconds", "runs", "bytes"] = "seconds") -> list[ProfileRow]:
        """The totals by kind, name and line, the greatest first.

        The share of the limit is that of this machine, which is measured when it is first asked for.
        """
        if sort_by not in ("seconds", "runs", "bytes"):
            raise JitgraphError(f"rows are sorted by seconds, runs or bytes, not by {sort_by!r}")
        best = limits.limits()
        table = [
            ProfileRow(*key, total.runs, 1e-9 * total.nanoseconds, total.bytes, total.flops, best.share(total))
            for key, total in self._events.totals.items()
        ]
        return sorted(table, key=lambda row: getattr(row, sort_by), reverse=True)

    def table(self, limit: int = 30, sort_by: Literal["seconds", "runs", "bytes"] = "seconds") -> str:
        """The first ``limit`` rows as text, and what the whole block took."""
        return report.table(self.rows(sort_by), limit, self.seconds, limits.limits())

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as JSON that chrome://tracing and https://ui.perfetto.dev show; OSError as of ``open``.

        Kernels that ran once in a call stand where they ran. Those of loops stand among the call's arguments.
        """
        report.export(path, self._events, self._begin, self.seconds)
