"""The one pipeline: a graph goes through passes, fusion, selection and memory to code.

    graph -> gradients expanded -> passes/pipeline.py -> fuse -> schedule -> memory plan -> code -> executable

A backend (``codegen/backend.py``) makes the schedule and the code; all else is shared. Every stage is stored on
the result for inspection. ``compiler.py`` is the entry point, and loads this where no cache has the graph.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Final

from jitgraph import config, ir
from jitgraph.code_cache import Donation, signature_of
from jitgraph.codegen.backend import Backend
from jitgraph.codegen.cpu.backend import CpuBackend
from jitgraph.codegen.kernels.memory import plan_memory
from jitgraph.codegen.kernels.schedule import MemoryPlan, Schedule
from jitgraph.codegen.kernels.step_order import checks_first, order_steps
from jitgraph.ir.fault import faults_reported
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.passes import pipeline
from jitgraph.passes.autodiff import expand_grads
from jitgraph.passes.fuse import MissedFusion, fuse, fuse_with_reasons
from jitgraph.records import dataclass
from jitgraph.runtime import imports, shared
from jitgraph.runtime.executable import Executable

_BEFORE_FUSION: Final = tuple(step for step in pipeline.PIPELINE if step is not fuse)  # whose reasons are kept, too
_CPU: Final = CpuBackend()


@dataclass
class Stages:
    """What the graph became on its way, and how long each stage took in milliseconds."""

    graph: Graph
    optimized: Graph
    fused: Graph
    unfused: tuple[MissedFusion, ...]  # neighbours that fusion kept apart, and why
    schedule: Schedule
    milliseconds: dict[str, float] = field(default_factory=dict)

    @property
    def plan(self) -> MemoryPlan | None:
        """The memory plan of the schedule."""
        return self.schedule.plan


def without_gradients(graph: Graph) -> Graph:
    """The graph with its gradients written out, for the interpreter."""
    with faults_reported(graph, "passes"):
        return expand_grads(graph)


def compiled(graph: Graph, target: Target, donate: Sequence[Donation], backend: Backend | None) -> Executable:
    """Native code for ``graph``, by default by the backend of the target; errors as of ``compiler.compile``."""
    with shared.PAUSED.inside():
        return _compiled(graph, target, donate, backend or _backend_of(target))


def staged(graph: Graph, target: Target, donate: Sequence[Donation]) -> Stages:
    """The stages of ``graph`` up to the memory plan, for those who ask about code that came from the cache."""
    with shared.PAUSED.inside():
        return _staged(_Clock(graph), target, donate, _backend_of(target))


def _backend_of(target: Target) -> Backend:
    """Who makes code for a target."""
    if target.sm is None:
        return _CPU
    backend: Backend = imports.module("jitgraph.codegen.cuda.backend").CUDA  # here: most processes have no GPU
    return backend


def _compiled(graph: Graph, target: Target, donate: Sequence[Donation], backend: Backend) -> Executable:
    clock = _Clock(graph)
    stages = _staged(clock, target, donate, backend)
    code = backend.emit(stages.schedule, target, clock.stage)
    with faults_reported(graph, "signature"):
        signature = signature_of(graph, stages.schedule)
    with faults_reported(graph, "load"):
        executable = backend.load(code, signature, target)
    executable.stages = stages
    return executable


def _staged(clock: _Clock, target: Target, donate: Sequence[Donation], backend: Backend) -> Stages:
    graph = clock.graph
    with clock.stage("passes"):
        optimized = pipeline.run(graph, target, _BEFORE_FUSION)
    with clock.stage("fuse"):
        given_away = {wish if isinstance(wish, int) else wish[1] for wish in donate}
        fused, unfused = fuse_with_reasons(optimized, target, given_away)
    with clock.stage("select"):
        schedule = backend.schedule(fused, target, given_away)
    with clock.stage("memory"):
        schedule = order_steps(checks_first(schedule, donate), donate)
        schedule = plan_memory(schedule, donate, backend.alignment, reads_again=backend.reads_again)
    if config.VERIFY.is_on():
        with faults_reported(graph, "verify"):
            _verify(fused, schedule)
    if config.logs("memory"):
        config.log("memory", _memory_text(schedule))
    return Stages(graph, optimized, fused, unfused, schedule, milliseconds=clock.milliseconds)


def _verify(graph: Graph, schedule: Schedule) -> None:
    from jitgraph.codegen.kernels.schedule_verifier import verify_schedule  # here: most processes never verify

    ir.verify(graph)
    verify_schedule(schedule)


def _memory_text(schedule: Schedule) -> str:
    plan = schedule.plan
    assert plan is not None
    lines = [f"{schedule.name}: arena {plan.arena_bytes} bytes, {plan.unplanned} without the plan"]
    lines += [f"  {name} at {offset}" for name, offset in plan.offsets.items()]
    lines += [f"  {output} takes over {donor}" for output, donor in plan.donations.items()]
    return "\n".join(lines)


class _Clock:
    """The stages of the compilation of ``graph``, each timed; an unexpected exception in one becomes a CompileError."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.milliseconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        with faults_reported(self.graph, name):
            yield
        self.milliseconds[name] = 1e3 * (time.perf_counter() - start)
