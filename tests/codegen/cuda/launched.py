"""Runs the launches of a schedule's device code in the simulator, on arrays."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jitgraph.codegen.cuda.backend import CudaBackend, CudaCode
from jitgraph.codegen.cuda.failures import LAUNCH_SHIFT
from jitgraph.codegen.kernels.memory import plan_memory
from jitgraph.codegen.kernels.schedule import Schedule, ScheduleBuffer
from jitgraph.codegen.kernels.step_order import checks_first
from jitgraph.ir import dims
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.passes import pipeline
from jitgraph.passes.autodiff import expand_grads
from jitgraph_testing.simulator.counts import LaunchCounts
from jitgraph_testing.simulator.module import SimulatedModule

Array = NDArray[Any]
SM_90 = Target.named("sm_90")
BACKEND = CudaBackend()


class DeviceCheckError(Exception):
    """A check failed on the device: its number, and what it reports."""

    def __init__(self, check: int, value: int, bound: int) -> None:
        super().__init__(f"check {check} failed (value {value}, bound {bound})")
        self.check, self.value, self.bound = check, value, bound


def schedule_of(graph: Graph, target: Target = SM_90, donate: Sequence[tuple[int, int]] = ()) -> Schedule:
    """The planned schedule of a graph, each op by itself if the graph has no fused ones."""
    optimised = pipeline.run(expand_grads(graph), target)
    schedule = checks_first(BACKEND.schedule(optimised, target, {inputs for _, inputs in donate}), donate)
    return plan_memory(schedule, donate, BACKEND.alignment, reads_again=True)


def code_of(schedule: Schedule, target: Target = SM_90) -> CudaCode:
    """The device code of a schedule."""
    return BACKEND.emit(schedule, target, _untimed)


def _untimed(name: str) -> AbstractContextManager[None]:
    return nullcontext()


def sizes_of(schedule: Schedule, arguments: Sequence[Array]) -> dict[str, int]:
    """The values of named sizes, from the shapes of the arguments."""
    outputs: dict[str, int] = {}
    for buffer, array in zip(_with_role(schedule, "input"), arguments, strict=True):
        for dim, extent in zip(buffer.type.shape, np.shape(array), strict=True):
            if not isinstance(dim, int) and dim.as_name:
                outputs[dim.as_name] = extent
    return outputs


def run(
    schedule: Schedule,
    code: CudaCode,
    arguments: Sequence[Array],
    seed: int | None = None,
    *,
    races: bool = False,
    profile: list[LaunchCounts] | None = None,
) -> list[Array]:
    """The outputs of a schedule for ``arguments``; DeviceCheckError where a check fails.

    With ``races`` two accesses that no barrier orders are an error. What each launch does is added to ``profile``.
    """
    sizes = sizes_of(schedule, arguments)
    sizes |= {number.name: number.value(sizes) for number in schedule.numbers}
    module = SimulatedModule(code.texts["llvm"])
    memory = module.memory

    def size_of(buffer: ScheduleBuffer) -> int:
        return dims.evaluate(buffer.bytes, sizes)

    def put(array: Array, name: str) -> int:
        address = memory.allocate(max(1, array.nbytes), name)
        memory.bytes_at(address, array.nbytes)[:] = np.frombuffer(array.tobytes(), np.uint8)
        return address

    devices = {
        buffer.name: put(np.asarray(array), buffer.name)
        for buffer, array in zip(_with_role(schedule, "input"), arguments, strict=True)
    }
    donations = {} if schedule.plan is None else schedule.plan.donations
    for buffer in schedule.buffers:
        if buffer.value is not None:
            devices[buffer.name] = put(buffer.value.value, buffer.name)
        elif buffer.name in donations:
            devices[buffer.name] = devices[donations[buffer.name]]
        elif buffer.role != "input":
            devices[buffer.name] = memory.allocate(max(1, size_of(buffer)), buffer.name)
    record = put(np.full(5, -1), "error record")
    for number, launch in enumerate(code.launches):
        grid = [dims.evaluate(extent, sizes) for extent in launch.grid]
        if 0 in grid:
            continue
        values = [*(devices[name] for name in launch.buffers), *(sizes[name] for name in launch.sizes)]
        if launch.reports:
            values += [record, number << LAUNCH_SHIFT]
        arguments_bytes = [struct.pack("<q", value) for value in values]
        counts = module.launch(
            launch.function, grid, launch.block, 0, arguments_bytes, seed=seed, races=races, profile=profile is not None
        )
        if profile is not None and counts is not None:
            profile.append(counts)
    _, order, value, bound, check = memory.bytes_at(record, 40).view(np.int64)
    if order != -1:
        raise DeviceCheckError(int(check), int(value), int(bound))
    results = []
    for buffer in _with_role(schedule, "output"):
        shape = tuple(dims.evaluate(extent, sizes) for extent in buffer.type.shape)
        flat = memory.bytes_at(devices[buffer.name], size_of(buffer)).copy().view(buffer.type.dtype)
        results.append(flat.reshape(shape))
    return results


def _with_role(schedule: Schedule, role: str) -> list[ScheduleBuffer]:
    return sorted((b for b in schedule.buffers if b.role == role), key=lambda buffer: buffer.position)
