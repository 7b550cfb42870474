"""The one pipeline: ``compile(graph, target)`` takes a graph through passes, fusion, selection and memory to code.

    graph -> gradients expanded -> passes/pipeline.py -> fuse -> schedule -> memory plan -> code -> executable

A backend (``codegen/backend.py``) makes the schedule and the code; all else is shared.

Every stage is kept on the result for inspection. Compiled graphs are remembered by canonical text, names, lines, target
and flags in a ``Cache`` that the caller passes in.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any, Final, TypeAlias

from jitgraph import config, ir
from jitgraph.codegen.backend import Backend
from jitgraph.codegen.cpu.backend import CpuBackend
from jitgraph.codegen.kernels.memory import plan_memory
from jitgraph.codegen.kernels.schedule import MemoryPlan, Schedule
from jitgraph.errors import CompileError
from jitgraph.ir import dims
from jitgraph.ir.fault import faults_reported
from jitgraph.ir.graph import Graph, Value
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.passes import pipeline
from jitgraph.passes.autodiff import expand_grads
from jitgraph.passes.fuse import MissedFusion, fuse, fuse_with_reasons
from jitgraph.records import dataclass
from jitgraph.runtime import collector, forks, loader
from jitgraph.runtime.executable import Executable

Donation: TypeAlias = "int | tuple[int, int]"
"""An input whose memory an output may take over, or a pair (output, input)."""

_BEFORE_FUSION: Final = tuple(step for step in pipeline.PIPELINE if step is not fuse)  # whose reasons are kept, too


@dataclass
class Stages:
    """What the graph became on its way, and how long each stage took in milliseconds."""

    graph: Graph
    optimized: Graph
    fused: Graph
    apart: tuple[MissedFusion, ...]  # neighbours that fusion kept apart, and why
    schedule: Schedule
    code_bytes: int = 0
    milliseconds: dict[str, float] = field(default_factory=dict)

    @property
    def plan(self) -> MemoryPlan | None:
        """The memory plan of the schedule."""
        return self.schedule.plan


class Interpreted:
    """A graph that the NumPy interpreter runs: under JITGRAPH_INTERPRET=1."""

    llvm_ir = ""
    asm = ""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.signature = signature_of(graph, None)

    def run(self, buffers: Sequence[Any], donate: Iterable[int] = ()) -> list[loader.Array]:
        """The outputs for these inputs, in arrays of their own; nothing is taken over."""
        return [array.copy() for array in ir.interpret(self.graph, buffers)]

    def __call__(self, *args: Any) -> Any:
        """The outputs for these inputs: one array, or a tuple."""
        outputs = self.run(args)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


class Cache:
    """Compiled graphs of this process; safe to use from several threads.

    The key holds names and source lines too, which errors and the stages show. What was used least recently goes where
    code and its texts together pass ``limit`` bytes.
    """

    def __init__(self, limit: int = 64 << 20) -> None:
        self._made: OrderedDict[tuple[Any, ...], Executable] = OrderedDict()
        self._limit = limit
        self._bytes = 0
        self._lock = forks.lock()

    def find(self, key: tuple[Any, ...]) -> Executable | None:
        """What was compiled for ``key``."""
        with self._lock:
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
            return found

    def keep(self, key: tuple[Any, ...], compiled: Executable) -> Executable:
        """Remember ``compiled``; where another thread was faster, what it made."""
        with self._lock:
            found = self._made.setdefault(key, compiled)
            if found is compiled:
                self._bytes += compiled.stages.code_bytes
                while self._bytes > self._limit:
                    self._bytes -= self._made.popitem(last=False)[1].stages.code_bytes
            return found

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._made.clear()
            self._bytes = 0


def _key(graph: Graph, *others: Any) -> tuple[Any, ...]:
    hints = tuple([value.hint for value in (*graph.inputs, *graph.outputs)])
    locations = tuple([node.location for node in graph.walk()])
    return (graph.canonical, graph.name, hints, locations, *others)


def compile(
    graph: Graph,
    target: Target | None = None,
    *,
    donate: Sequence[Donation] = (),
    fastmath: bool = False,
    cache: Cache | None = None,
    backend: Backend | None = None,
) -> Executable | Interpreted:
    """Native code for ``graph``, by default for this machine and by the backend of its processor.

    ``donate`` lists inputs whose memory outputs may take over, where the memory plan finds that safe. ``fastmath``
    allows contraction and reassociation. CompileError or UnsupportedOp where code cannot be had. Under
    JITGRAPH_INTERPRET=1 the result runs in the interpreter.
    """
    if config.INTERPRET.is_on():
        with faults_reported(graph, "passes"):
            return Interpreted(expand_grads(graph))
    target = target or Target.host()
    target = replace(target, fastmath=target.fastmath or fastmath)
    backend = backend or _CPU
    if cache is None:
        return _compile(graph, target, donate, backend)
    key = _key(graph, target, tuple(donate), config.VERIFY.is_on(), backend.name)
    found = cache.find(key)
    return found if found is not None else cache.keep(key, _compile(graph, target, donate, backend))


_CPU: Final = CpuBackend()


def _compile(graph: Graph, target: Target, donate: Sequence[Donation], backend: Backend) -> Executable:
    with collector.PAUSED.inside():
        return _compile_stages(graph, target, donate, backend)


def _compile_stages(graph: Graph, target: Target, donate: Sequence[Donation], backend: Backend) -> Executable:
    clock = _Clock(graph)
    with clock.stage("passes"):
        optimized = pipeline.run(graph, target, _BEFORE_FUSION)
    with clock.stage("fuse"):
        fused, apart = fuse_with_reasons(optimized, target)
    with clock.stage("select"):
        schedule = backend.schedule(fused, target)
    with clock.stage("memory"):
        schedule = plan_memory(schedule, donate, backend.alignment)
    if config.VERIFY.is_on():
        with faults_reported(graph, "verify"):
            _verify(fused, schedule)
    if config.logs("memory"):
        config.log("memory", _memory_text(schedule))
    stages = Stages(graph, optimized, fused, apart, schedule, milliseconds=clock.milliseconds)
    code = backend.emit(schedule, target, clock.stage)
    stages.code_bytes = code.bytes
    with faults_reported(graph, "signature"):
        signature = signature_of(graph, schedule)
    with faults_reported(graph, "load"):
        executable = backend.load(code, signature, target)
    executable.stages = stages
    return executable


def _verify(graph: Graph, schedule: Schedule) -> None:
    from jitgraph.codegen.kernels.schedule_verifier import verify_schedule  # here: most processes never verify

    ir.verify(graph)
    verify_schedule(schedule)


def _memory_text(schedule: Schedule) -> str:
    plan = schedule.plan
    assert plan is not None
    lines = [f"{schedule.name}: arena {plan.arena_bytes} bytes, {plan.unplanned} without the plan"]
    lines += [f"  {name} at {offset}" for name, offset in plan.offsets.items()]
    lines += [f"  {output} takes over {given}" for output, given in plan.donations.items()]
    return "\n".join(lines)


class _Clock:
    """The stages of the compilation of ``graph``, each timed; what nobody foresaw in one becomes a CompileError."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.milliseconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        with faults_reported(self.graph, name):
            yield
        self.milliseconds[name] = 1e3 * (time.perf_counter() - start)


def signature_of(graph: Graph, schedule: Schedule | None) -> loader.Signature:
    """What the entry of a graph takes and gives; with a schedule its checks, sizes and donations too."""
    names: dict[str, int] = {}
    inputs = tuple(_spec(value, f"x{i}", names) for i, value in enumerate(graph.inputs))
    outputs = tuple(_spec(value, f"out{i}", {}) for i, value in enumerate(graph.outputs))
    if schedule is None:
        sizes = sorted({name for value in graph.inputs for extent in value.shape for name in dims.names(extent)})
        return loader.Signature(
            inputs, outputs, dims=tuple(sizes), constraints=tuple(map(str, graph.constraints)), name=graph.name
        )
    positions = {buffer.name: buffer.position for buffer in schedule.buffers}
    donations = schedule.plan.donations if schedule.plan else {}
    return loader.Signature(
        inputs,
        outputs,
        aliases=tuple((positions[output], positions[given]) for output, given in donations.items()),
        dims=schedule.sizes,
        constraints=tuple(map(str, schedule.constraints)),
        checks=tuple(
            loader.Check(site.message, site.kind, str(site.location) if site.location else "")
            for site in schedule.checks
        ),
        prints=schedule.prints,
        name=graph.name,
    )


def _spec(value: Value, fallback: str, names: dict[str, int]) -> loader.ValueSpec:
    if not isinstance(value.type, TensorType):
        raise CompileError(f"a {value.type} is no input or output of compiled code")
    name = value.hint or fallback
    names[name] = names.get(name, 0) + 1
    if names[name] > 1:
        name = f"{name}_{names[name] - 1}"
    shape = tuple(extent if isinstance(extent, int) else str(extent) for extent in value.shape)
    return loader.ValueSpec(name, value.dtype.name, shape)
