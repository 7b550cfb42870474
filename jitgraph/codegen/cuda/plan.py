"""The host's image of a schedule: an entry of the one ABI that puts every launch on the stream of the call.

``host.driver`` is the table of the driver's functions (``runtime/cuda/driver_functions.py``), ``call.stream`` the
stream, ``call.arena`` device memory. Behind inputs and outputs ``buffers`` has the device addresses of the schedule's
constants in order; where a kernel may fail, an address of 40 bytes of pinned host memory to which the error record
(``failures.py``) is copied after the last launch; where the entry waits, the address of pinned host memory that is the
call's until the entry returns, as large as the greatest of ``steps.host_sizes``; the driver's handles of
``function_names`` in order; and for each of ``library_launches`` an address of ``LIBRARY_SLOTS``. Device addresses are
multiples of 16. The record lies behind the temporaries in the arena, and a library's memory between them.

Most entries only ask for work and never wait for it, so they can be captured into a graph. One waits for the stream
where a branch, a loop or a print has to know what is on the device (``steps.py``), and asks the host's ``poll`` in
loops. Where the driver refuses something its ``CUresult`` is returned negated, and ``error.check_id`` says which launch
that was.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from jitgraph.codegen.cuda.host_entry import HostEntry, library_launches
from jitgraph.codegen.cuda.launches import Launches
from jitgraph.codegen.cuda.steps import HostSteps, host_sizes
from jitgraph.codegen.kernels.schedule import Schedule, aligned
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.codegen.llvm.entry import emit_arena_bytes, without_reuse
from jitgraph.runtime.cuda.reports import RECORD_ROOM
from jitgraph.runtime.device_payload import WORKSPACE_BYTES

_WORKSPACE_ALIGNMENT: Final = 256


def emit_plan(schedule: Schedule, launches: Launches) -> tuple[LlvmModule, tuple[str, ...]]:
    """The module of the entry, before any pass, and the driver's functions that it calls."""
    module = LlvmModule(machine.TRIPLE)
    plan = schedule.plan or without_reuse(schedule)
    reports = any(launch.reports for launch in chain.from_iterable(launches.values()))
    workspace_at = end = plan.arena_bytes
    if library_launches(chain.from_iterable(launches.values())):
        workspace_at = aligned(plan.arena_bytes, _WORKSPACE_ALIGNMENT)
        end = workspace_at + WORKSPACE_BYTES
    record_at = aligned(end, RECORD_ROOM)
    waits = bool(host_sizes(schedule, launches))
    error_record = record_at if reports else None
    entry = HostEntry(module, schedule, plan, launches, error_record, waits=waits, workspace_at=workspace_at)
    entry.begin()
    steps = HostSteps(entry)
    entry.begin_steps()
    steps.write(schedule.steps)
    entry.end()
    emit_arena_bytes(module, schedule, record_at + RECORD_ROOM if reports else end)
    return module, tuple(entry.called)
