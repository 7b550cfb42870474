"""Timed code: a second image of a compiled graph, whose entry notes how long launches take (``cpu/entry.py``).

Its results have the bits of the first: the kernels are the same, and the counter is read between them.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from jitgraph import ops
from jitgraph.codegen.cpu import native
from jitgraph.codegen.cpu.entry import BEGIN, FIRST_STEP, WORDS_OF_STEP, timed_steps
from jitgraph.ir import context
from jitgraph.profiler.events import LeastWork, TimedStep
from jitgraph.profiler.limits import compiled
from jitgraph.runtime import loader
from jitgraph.runtime.executable import Executable

_CALIBRATION: Final = 0.02  # seconds
_MOST_SIZES: Final = 256
_made: Final[WeakKeyDictionary[Executable, TimedEntry]] = WeakKeyDictionary()


class TimedEntry(loader.Entry):
    """An entry that tells the profile in force of each call, with the table that the call filled."""

    def __init__(self, executable: Executable) -> None:
        schedule, entry = executable.stages.schedule, executable.entry
        super().__init__(
            loader.Image(native.build_image(schedule, executable.target, timed=True)),
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
