"""A specialisation: one program, compiled, with the check that it fits a call and what happens after the graph ran."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from jitgraph import ops
from jitgraph.autograd import tape
from jitgraph.autograd.tape import Record
from jitgraph.eager import EagerValue
from jitgraph.frontend import backend, donation
from jitgraph.frontend.arguments import LeafKey
from jitgraph.frontend.backend import Runnable
from jitgraph.frontend.dispatch import Match, build_matcher
from jitgraph.frontend.program import Leaf, Program, Source, Template
from jitgraph.ir import context
from jitgraph.ir.context import Context
from jitgraph.ir.graph import Graph, Value
from jitgraph.location import Location
from jitgraph.passes.autodiff import Vjp, vjp_halves
from jitgraph.tensor import Tensor
from jitgraph.tree import TreeDef

Compile = Callable[[Graph, Sequence[tuple[int, int]]], Runnable]


@dataclass(frozen=True, slots=True)
class Retrace:
    """One line of the ledger: who called, why no specialisation fitted, and what it cost in milliseconds."""

    location: Location | None
    reason: str
    trace_ms: float
    compile_ms: float

    def __str__(self) -> str:
        return f"{self.location}: {self.reason} (trace {self.trace_ms:.1f} ms, compile {self.compile_ms:.1f} ms)"


class Specialisation:
    """One compiled program. ``compile`` turns a graph into something that runs; gradients are compiled when needed."""

    def __init__(
        self, structure: TreeDef, keys: Sequence[LeafKey], program: Program, ambient: Context, compile: Compile
    ) -> None:
        self.structure = structure
        self.keys = tuple(keys)
        self.program = program
        self.ambient = ambient
        self.compile = compile
        self.match = build_matcher(structure, keys, program)
        self.taped = program.differentiable and ambient.grad_enabled
        self._simple = _is_simple(program) and not self.taped
        self._in_place: tuple[tuple[int, int], ...] = ()  # (input, slot) of state that may be overwritten

    @cached_property
    def vjp(self) -> Vjp:
        """The forward graph with residuals and the backward graph, for a caller who may ask for gradients."""
        graph, program = self.program.graph, self.program
        wrt = [
            i
            for i, source in enumerate(program.inputs)
            if source.kind == "slot"
            and program.slots[source.at].requires_grad
            and graph.inputs[i].dtype.kind not in "biu"
        ]
        return vjp_halves(graph, wrt)

    @cached_property
    def forward(self) -> Runnable:
        """What a call runs. State is updated in place only where no gradient may need its old value."""
        if self.taped:
            return self.compile(self.vjp.forward, ())
        return self.adopt(self.compile(self.program.graph, donation.candidates(self.program)))

    def adopt(self, made: Runnable) -> Runnable:
        """Take code that was compiled for the program's graph with its donations."""
        self._in_place = tuple((i, self.program.inputs[i].at) for _, i in backend.aliases(made))
        self.__dict__["forward"] = made
        return made

    @cached_property
    def backward(self) -> Runnable:
        """What gradients through a call run."""
        return self.compile(self.vjp.backward, ())

    def run(self, match: Match) -> Any:
        """Run the graph and then, after success, write back and build the result."""
        handles, buffers = match
        if self._in_place:
            outputs = donation.run_in_place(self.forward.run, handles, buffers, self._in_place)
        else:
            outputs = self.forward.run(buffers)
        if self._simple:
            handle = object.__new__(Tensor)
            handle._bind(EagerValue(outputs[0]))
            return handle
        return self._conclude(handles, buffers, outputs)

    def _conclude(self, handles: Sequence[Any], buffers: Sequence[Any], outputs: Sequence[Any]) -> Any:
        program = self.program
        record: CallRecord | None = None
        count = len(program.graph.outputs)
        if self.taped:
            record = CallRecord(self, handles, buffers, outputs)

        def value_of(source: Source) -> EagerValue:
            if source.kind == "input":
                found: EagerValue = handles[program.inputs[source.number].at].value
                return found if source.differentiable else EagerValue(found.array)
            if record is not None and source.differentiable:
                return EagerValue(outputs[source.number], record, source.number)
            return EagerValue(outputs[source.number])

        shared: dict[Source, EagerValue] = {}

        def shared_value(source: Source) -> EagerValue:
            if source not in shared:
                shared[source] = value_of(source)
            return shared[source]

        assert len(outputs) >= count
        fresh = []
        for made in program.fresh:
            handle = Tensor._of(shared_value(made.source), made.requires_grad)
            handle._weak = made.weak
            fresh.append(handle)
        written = [(handles[slot], shared_value(source)) for slot, source in program.writes]
        for place, template in program.effects:
            if template is None:
                place.remove()
            else:
                place.set(_rebuild(template, handles, fresh))
        for handle, value in written:
            handle._value = value
            handle._weak = False
        for slot, leaf in program.grad_writes:
            handles[slot]._grad = None if leaf is None else _leaf(leaf, handles, fresh)
        return _rebuild(program.result, handles, fresh)


def _is_simple(program: Program) -> bool:
    """Whether the result is one plain new tensor and nothing else changes."""
    plain = (
        len(program.fresh) == 1
        and program.result.leaves == (Leaf("fresh", 0),)
        and program.result.structure.kind is None
        and program.fresh[0].source.kind == "output"
        and not program.fresh[0].requires_grad
        and not program.fresh[0].weak
    )
    return plain and not (program.writes or program.grad_writes or program.effects)


def _leaf(leaf: Leaf, handles: Sequence[Any], fresh: Sequence[Tensor]) -> Any:
    if leaf.kind == "slot":
        return handles[leaf.at]
    if leaf.kind == "python":
        return leaf.at
    handle = fresh[leaf.at]
    return float(handle._value.array) if handle._weak else handle


def _rebuild(template: Template, handles: Sequence[Any], fresh: Sequence[Tensor]) -> Any:
    if template.structure.kind is None:
        return _leaf(template.leaves[0], handles, fresh)
    return template.structure.unflatten([_leaf(leaf, handles, fresh) for leaf in template.leaves])


class CallRecord(Record):
    """A compiled call on the tape: its backward is the compiled backward graph."""

    name = "traced call"

    def __init__(
        self, owner: Specialisation, handles: Sequence[Any], buffers: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        program, vjp = owner.program, owner.vjp
        values = tuple(handles[program.inputs[i].at].value for i in vjp.wrt)
        count = len(program.graph.outputs)
        super().__init__(values, tuple(outputs[:count]))
        self.name = program.graph.name
        self.owner = owner
        self.buffers: Sequence[Any] = buffers
        self.saved: Sequence[Any] = outputs[count:]

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        inputs = self.live_inputs()
        vjp = self.owner.vjp
        if context.current().grad_enabled:
            return self._by_ops(inputs, cotangents)
        given = []
        for number in vjp.seeds:
            cotangent, like = cotangents[number], self.arrays[number]
            given.append(np.zeros(like.shape, like.dtype) if cotangent is None else cotangent.array)
        kept = [self.buffers[i] for i in vjp.kept_inputs] + [self.arrays[i] for i in vjp.kept_outputs]
        found = self.owner.backward.run([*kept, *self.saved, *given])
        return [EagerValue(array) for array in found]

    def _by_ops(self, inputs: Sequence[Any], cotangents: Sequence[Any]) -> Sequence[Any]:
        """Gradients that can be differentiated again: the graph runs once more, op by op, on a tape of its own."""
        vjp, graph = self.owner.vjp, self.owner.program.graph
        variables = [ops.reshape(value, shape=value.shape) for value in inputs]
        operands: list[Any] = [EagerValue(np.asarray(buffer)) for buffer in self.buffers]
        for number, variable in zip(vjp.wrt, variables, strict=True):
            operands[number] = variable
        outputs = _evaluate(graph, operands)
        pairs = [(outputs[i], cotangents[i]) for i in vjp.seeds if cotangents[i] is not None]
        live = [(output, cotangent) for output, cotangent in pairs if output.record is not None]
        found = tape.sweep(
            [output for output, _ in live],
            [cotangent for _, cotangent in live],
            targets=variables,
            create_graph=True,
            retain_graph=True,
        )
        return [found.get((variable.record, variable.output)) for variable in variables]

    def release(self) -> None:
        super().release()
        self.buffers = ()
        self.saved = ()


def _evaluate(graph: Graph, operands: Sequence[Any]) -> list[Any]:
    """The outputs of a graph for eager values, each op applied through the current emitter."""
    from jitgraph.ir.attributes import substitute_attrs
    from jitgraph.ir.sizes import bind_sizes
    from jitgraph.passes.autodiff import expand_grads

    expanded = expand_grads(graph)
    sizes = bind_sizes([v.type for v in expanded.inputs], [v.shape for v in operands], expanded.constraints)
    env: dict[Value, Any] = dict(zip(expanded.inputs, operands, strict=True))
    for node in expanded.nodes:
        regions = () if node.op.decompose is not None else node.regions
        attrs: dict[str, Any] = substitute_attrs(node.attrs, sizes)
        result = node.op(*(env[value] for value in node.inputs), regions=regions, **attrs)
        results = result if isinstance(result, tuple | list) else (result,)
        env.update(zip(node.outputs, results, strict=True))
    return [env[value] for value in expanded.outputs]
