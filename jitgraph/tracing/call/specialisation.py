"""A specialisation: one plan, compiled, with the check that it fits a call and what happens after the graph ran."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jitgraph import ops
from jitgraph.eager import placement
from jitgraph.eager.tape import EagerValue, Record
from jitgraph.ir import context
from jitgraph.ir.context import Context
from jitgraph.ir.graph import Graph
from jitgraph.location import Location
from jitgraph.once import cached_property
from jitgraph.records import NamedTuple, dataclass
from jitgraph.runtime import imports, shared
from jitgraph.runtime.buffer import CPU
from jitgraph.runtime.compile_events import WATCHERS, tell
from jitgraph.runtime.executable import Executable
from jitgraph.tracing.call import backend, invocation
from jitgraph.tracing.call.arguments import LeafKey
from jitgraph.tracing.call.backend import Runnable
from jitgraph.tracing.call.code import Match, arrays_of, call_code
from jitgraph.tracing.call.invocation import Alias, DeviceInvocation, Invocation
from jitgraph.tracing.call.plan import CallPlan
from jitgraph.tracing.guards.source import World
from jitgraph.tree import TreeDef

if TYPE_CHECKING:
    from jitgraph.passes.autodiff import Vjp

Compile = Callable[..., Runnable]
"""From a graph, pairs that may share memory, and for a GPU its name."""
Invoke = Callable[[Sequence[Any], list[EagerValue]], list[EagerValue]]


class Cause(NamedTuple):
    """Why no specialisation fitted a call, in words, and as data.

    ``source`` is where what differs stands, as people would write it, with what was ``expected`` there and what is
    there, the line that read it, and what of the function needs its very value, where that is known.
    """

    text: str
    kind: Literal["first call", "context", "structure", "guard", "relation", "operand"]
    source: str = ""
    predicate: str = ""
    expected: str = ""
    actual: str = ""
    read_at: Location | None = None
    pinned_by: str = ""
    pinned_at: Location | None = None


@dataclass(frozen=True, slots=True)
class Retrace:
    """One line of the ledger: who called, why no specialisation fitted, and what it cost in milliseconds."""

    location: Location | None
    cause: Cause
    trace_ms: float
    compile_ms: float

    @property
    def reason(self) -> str:
        """Why no specialisation fitted, in words."""
        return self.cause.text

    def __str__(self) -> str:
        return f"{self.location}: {self.reason} (trace {self.trace_ms:.1f} ms, compile {self.compile_ms:.1f} ms)"


class Specialisation:
    """One compiled plan of ``function``. ``compile`` turns a graph into something that runs; gradients are compiled
    when needed."""

    def __init__(
        self,
        function: Callable[..., Any],
        structure: TreeDef,
        keys: Sequence[LeafKey],
        plan: CallPlan,
        ambient: Context,
        compile: Compile,
    ) -> None:
        self.function = function
        self.structure = structure
        self.keys = tuple(keys)
        self.plan = plan
        self.ambient = ambient
        self.compile = compile
        self.match, self.epilogue, self.extra = call_code(plan, function)
        self.taped = plan.differentiable and ambient.grad_enabled
        self._invoke: Invoke | None = None
        self.in_place: tuple[Alias, ...] = ()  # state that may be overwritten

    def world(self, values: Sequence[Any] = ()) -> World:
        """Where the sources of the plan are found, for bound arguments."""
        return World(self.function, values, self.plan.objects)

    @cached_property
    def vjp(self) -> Vjp:
        """The forward graph with residuals and the backward graph, for a caller who may ask for gradients."""
        with imports.importing():
            from jitgraph.ir.fault import faults_reported  # here: compiled code found in the cache needs no pass
            from jitgraph.passes.autodiff import vjp_halves
        graph, plan = self.plan.graph, self.plan
        wrt = [
            i
            for i, plan_input in enumerate(plan.inputs)
            if plan_input.kind == "handle"
            and plan.handles[plan_input.at].requires_grad
            and graph.inputs[i].dtype.kind not in "biu"
        ]
        with faults_reported(graph, "gradient"), shared.PAUSED.inside():  # finalisers may run ops
            return vjp_halves(graph, wrt)

    @cached_property
    def forward(self) -> Runnable:
        """What a call runs. State is updated in place only where no gradient may need its old value."""
        if self.taped:
            return self.adopt(self._compiled(self.vjp.forward, ()))
        return self.adopt(self._compiled(self.plan.graph, invocation.candidates(self.plan)))

    def _compiled(self, graph: Graph, donate: Sequence[tuple[int, int]]) -> Runnable:
        device = self.plan.device
        return self.compile(graph, donate, device)

    def adopt(self, runnable: Runnable) -> Runnable:
        """Take code that was compiled for the plan's graph with its donations."""
        replaced = invocation.replacements(self.plan)
        self.in_place = tuple(
            Alias(o, i, self.plan.inputs[i].at, (o, i) in replaced) for o, i in backend.aliases(runnable)
        )
        if self.plan.device != CPU:
            self._invoke = DeviceInvocation(runnable, self.plan, self.in_place)
        elif isinstance(runnable, Executable):
            self._invoke = Invocation(runnable.entry, self.in_place, recycle=not self.taped)
        else:
            self._invoke = partial(_by_arrays, runnable)
        self.__dict__["forward"] = runnable
        return runnable

    @cached_property
    def backward(self) -> Runnable:
        """What gradients through a call run."""
        begin = time.perf_counter()
        runnable = self._compiled(self.vjp.backward, ())
        if WATCHERS:
            tell(lambda watcher: watcher.gradient_compiled(self, runnable, begin))
        return runnable

    def run(self, match: Match) -> Any:
        """Run the graph and then, after success, write back and build the result."""
        handles, operands, extra = match
        if self._invoke is None:
            self.forward  # noqa: B018 - compiled now
            assert self._invoke is not None
        invoke, profile = self._invoke, context.current().profile
        if profile is not None:
            invoke = profile.invocation(self, invoke)
        outputs = invoke(handles, operands)
        if self.taped:
            self.record(handles, operands, outputs)
        return self.epilogue(handles, operands, outputs, extra)

    def record(self, handles: Sequence[Any], operands: Sequence[EagerValue], outputs: list[EagerValue]) -> None:
        """Put the outputs through which gradients flow on the tape."""
        if self.plan.device == CPU:
            record = CallRecord(self, handles, arrays_of(operands), outputs)
        else:
            assert isinstance(self._invoke, DeviceInvocation)
            record = DeviceCallRecord(self, handles, self._invoke.on_device(operands), outputs)
        for value in self.plan.computed:
            if value.kind == "output" and value.differentiable and outputs[value.number].record is not record:
                outputs[value.number] = outputs[value.number].part_of(record, value.number)


def _by_arrays(runnable: Runnable, handles: Sequence[Any], operands: Sequence[EagerValue]) -> list[EagerValue]:
    """The call of what is no native code."""
    return [EagerValue(array) for array in runnable.run(arrays_of(operands))]


class CallRecord(Record):
    """A compiled call on the tape: its backward is the compiled backward graph."""

    name = "traced call"
    replays = True

    def __init__(
        self, owner: Specialisation, handles: Sequence[Any], buffers: Sequence[Any], outputs: Sequence[EagerValue]
    ) -> None:
        plan, vjp = owner.plan, owner.vjp
        values = tuple(handles[plan.inputs[i].at].value for i in vjp.wrt)
        count = plan.output_count
        super().__init__(values, tuple(outputs[:count]))
        self.name = plan.name
        self.owner = owner
        self.buffers: Sequence[Any] = buffers
        self.saved: Sequence[EagerValue] = outputs[count:]

    def payload(self, value: Any) -> Any:
        """What the compiled code takes for a value."""
        return value.array

    def zeros(self, like: Any) -> Any:
        """Zeros for the compiled code."""
        return np.zeros(like.shape, like.dtype)

    def values(self, results: Sequence[Any]) -> list[Any]:
        """What the compiled code gave, as values."""
        return [EagerValue(array) for array in results]

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        inputs = self.live_inputs()
        now = context.current()
        if now.anomaly or now.trace is not None:
            return self._watched(inputs, cotangents)
        vjp = self.owner.vjp
        cotangent_args = []
        for number in vjp.seeds:
            cotangent, like = cotangents[number], self.outputs[number]
            cotangent_args.append(self.zeros(like) if cotangent is None else self.payload(cotangent))
        saved = [self.buffers[i] for i in vjp.saved_inputs] + [self.payload(self.outputs[i]) for i in vjp.saved_outputs]
        code = self.owner.backward
        run = code.run if now.profile is None else now.profile.gradient(code)
        gradients = run([*saved, *map(self.payload, self.saved), *cotangent_args])
        if not now.grad_enabled:
            return self.values(gradients)
        with imports.importing():
            from jitgraph.eager.replay import GradientRecord  # here: a gradient is seldom differentiated again
        seeds = [i for i in vjp.seeds if cotangents[i] is not None]
        replay = partial(self._replay, seeds)
        record = GradientRecord(inputs, [cotangents[i] for i in seeds], gradients, replay)
        return [value.part_of(record, number) for number, value in enumerate(self.values(gradients))]

    def _watched(self, inputs: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
        """The cotangents of the inputs by ops, which are watched or recorded one by one."""
        with imports.importing():
            from jitgraph.eager.replay import watched  # here: seldom needed
        seeds = [i for i in self.owner.vjp.seeds if cotangents[i] is not None]
        return watched(inputs, [cotangents[i] for i in seeds], partial(self._replay, seeds))

    def _replay(self, seeds: Sequence[int], inputs: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """``_by_ops`` for the cotangents ``values`` of the outputs ``seeds``."""
        weights: list[Any] = [None] * len(self.outputs)
        for number, value in zip(seeds, values, strict=True):
            weights[number] = value
        return self._by_ops(inputs, weights)

    def _by_ops(self, inputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Gradients that can be differentiated again: the graph runs once more, op by op, on a tape of its own."""
        with imports.importing():
            from jitgraph.eager.replay import gradients_by_ops
        vjp, graph = self.owner.vjp, self.owner.plan.graph
        with context.outside():
            variables = [ops.reshape(value, shape=value.shape) for value in inputs]
        operands: list[Any] = self.values(self.buffers)
        for number, variable in zip(vjp.wrt, variables, strict=True):
            operands[number] = variable
        weights = {i: cotangents[i] for i in vjp.seeds if cotangents[i] is not None}
        return gradients_by_ops(graph, operands, variables, weights)

    def release(self) -> None:
        super().release()
        self.buffers = ()
        self.saved = ()


class DeviceCallRecord(CallRecord):
    """A compiled call on a GPU, where its backward runs as well; gradients of numbers of the CPU go back there."""

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        inputs, gradients = self.live_inputs(), super().backward(cotangents)
        return [
            None if gradient is None else placement.moved(gradient, value.device)
            for value, gradient in zip(inputs, gradients, strict=True)
        ]

    def payload(self, value: Any) -> Any:
        return placement.copied(value, self.owner.plan.device) if isinstance(value, EagerValue) else value

    def zeros(self, like: Any) -> Any:
        return placement.zeros(like.shape, like.dtype, self.owner.plan.device)

    def values(self, results: Sequence[Any]) -> list[Any]:
        return list(results)
