"""Timed code: a second image of a compiled graph, whose entry notes how long launches take (``cpu/launch_times.py``).

Its results have the bits of the first: the kernels are the same, and the counter is read between them.
"""

from __future__ import annotations

import ctypes
import struct
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from jitgraph import ops
from jitgraph.codegen.cpu import native
from jitgraph.codegen.cpu.launch_times import BEGIN, FIRST_STEP, WORDS_OF_STEP, timed_steps
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.types import TensorType
from jitgraph.profiler.work import TimedStep
from jitgraph.runtime import loader
from jitgraph.runtime.executable import Executable
from jitgraph.tracing import backend

_CALIBRATION: Final = 0.02  # seconds
_made: Final[WeakKeyDictionary[Executable, TimedEntry]] = WeakKeyDictionary()


class TimedEntry(loader.Entry):
    """An entry that tells the profile in force of each call, with the table that the call filled."""

    def __init__(self, made: Executable) -> None:
        schedule, entry = made.stages.schedule, made.entry
        super().__init__(
            loader.Image(native.build_image(schedule, made.target, timed=True)),
            made.signature,
            runtime=entry.runtime,
            callback=made.callback,
            threads=entry.threads,
        )
        self.sites = [TimedStep(schedule, step) for step in timed_steps(schedule.steps)]

    def call(self, plan: loader.ShapePlan, buffers: bytes) -> None:
        table = (ctypes.c_uint64 * (FIRST_STEP + WORDS_OF_STEP * len(self.sites)))()
        profile = context.current().profile
        begin = time.perf_counter_ns()
        try:
            super().call(plan, buffers + struct.pack("P", ctypes.addressof(table)))
        finally:
            if profile is not None:
                profile.called(self, plan, begin, time.perf_counter_ns(), table)

    def sizes(self, plan: loader.ShapePlan) -> dict[str, int]:
        """The named sizes of a call."""
        return dict(zip(self.signature.dims, plan.dims, strict=False))


def timed_entry(made: Any) -> TimedEntry | None:
    """Timed code of what was compiled; None where launches cannot be timed: on GPUs, and in the interpreter."""
    if not isinstance(made, Executable) or made.target is None or made.target.sm is not None or made.stages is None:
        return None
    found = _made.get(made)
    if found is None:
        found = _made[made] = TimedEntry(made)
    return found


class _Noting:
    """A profile that keeps when the last call entered native code, by the clock and by the counter."""

    clock = ticks = 0

    def called(self, entry: TimedEntry, plan: loader.ShapePlan, begin: int, end: int, table: Sequence[int]) -> None:
        self.clock, self.ticks = begin, table[BEGIN]


@lru_cache(maxsize=1)
def nanoseconds_per_tick() -> float:
    """How long a tick of the time stamp counter is, measured against the clock once in a process, in 20 ms."""
    builder = GraphBuilder()
    x = builder.input(TensorType(np.dtype(np.float32), (1,)))
    made = backend.compile_graph(builder.graph(builder.emit(ops.neg, [x], {}, ()), "ticks"))
    assert isinstance(made, Executable)
    entry, noting, given = TimedEntry(made), _Noting(), [np.ones(1, np.float32)]
    with context.using(profile=noting):
        entry.run(given)
        entry.run(given)
        clock, ticks = noting.clock, noting.ticks
        time.sleep(_CALIBRATION)
        entry.run(given)
    return (noting.clock - clock) / (noting.ticks - ticks)
