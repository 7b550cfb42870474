"""vmap: a graph run on samples that stand along a first axis of some of its inputs, by the batching rules of its ops.

Every value of the graph either has such an axis, or is one and the same for all samples; what depends on no sample is
computed once. Control flow has its rules in ``batched_control.py``; an op without a rule, and what has ordered effects,
is run for one sample after another by a ``scan``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, cast

from jitgraph.errors import UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder, decomposition
from jitgraph.ir.control import CarriedLoop, Conditional, RegionCall, structure_of
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.running import deaths_of
from jitgraph.ir.types import StackType
from jitgraph.location import Location
from jitgraph.passes import batched_control as control
from jitgraph.passes.active_samples import ActiveSamples
from jitgraph.passes.batched import Lane, batched_type, each
from jitgraph.passes.batching import rule_of


class Batcher:
    """Runs graphs on ``size`` samples; a ``Lane`` stands for each value, and ops are called on what it holds."""

    def __init__(self, size: DimLike) -> None:
        self.size = size
        self.active: ActiveSamples | None = None  # of the region that is being recorded; None where all are

    @contextmanager
    def only(self, active: ActiveSamples | None) -> Iterator[None]:
        """Ops are for these samples alone."""
        before, self.active = self.active, active
        try:
            yield
        finally:
            self.active = before

    def standing_in(self, sample: Lane) -> Lane:
        """The lane, of which ops may compute anything: where it is raw, samples that are not active have stand-ins."""
        return sample if self.active is None else self.active.standing_in(sample)

    def run(self, graph: Graph, arguments: Sequence[Lane]) -> list[Lane]:
        """What the graph gives for these arguments; ops keep the lines and modules of the graph's."""
        emitter = _recorder()
        before = emitter.location
        try:
            return self._run(graph, arguments)
        finally:
            emitter.location = before

    def _run(self, graph: Graph, arguments: Sequence[Lane]) -> list[Lane]:
        wrt_values = {value for node in graph.nodes if node.op.kind == "gradient" for value in wrt_of(node)}
        env: dict[Value, Lane] = {}

        def define(value: Value, sample: Lane) -> None:
            env[value] = each(self.standing_in(sample), self.size) if value in wrt_values else sample

        for value, argument in zip(graph.inputs, arguments, strict=True):
            define(value, argument)
        deaths = deaths_of(graph)
        for node, dead in zip(graph.nodes, deaths, strict=True):
            outputs = self.apply(node, [env[value] for value in node.inputs])
            for value, sample in zip(node.outputs, outputs, strict=True):
                define(value, sample)
            for value in dead:
                del env[value]
        return [env[value] for value in graph.outputs]

    def apply(self, node: Node, inputs: Sequence[Lane]) -> list[Lane]:
        """The outputs of one node."""
        if node.location is not None:
            _recorder().location = node.location
        if not any(sample.varies for sample in inputs):
            return [Lane(value, False) for value in applied(node, [sample.value for sample in inputs])]
        match structure_of(node):
            case RegionCall(body):
                return self.run(body, inputs)
            case Conditional() as branches:
                return control.conditional(self, node, branches, inputs)
            case CarriedLoop() as loop:
                return control.loop(self, node, loop, inputs)
        rule = rule_of(node.op)
        if self.active is not None and any(sample.raw for sample in inputs):
            output = self.active.apply(node, inputs)
            if output is not None:
                return [output]
            if node.op.kind == "composite" and rule is None and "ruled_by_region" not in node.op.traits:
                return self.run(_definition(node), inputs)
        inputs = [self.standing_in(sample) for sample in inputs]
        if any(isinstance(value.type, StackType) for value in (*node.inputs, *node.outputs)):
            raise UnsupportedOp(
                f"vmap of {node.op.name}: the gradient of a while loop was written out before its samples were put "
                "together",
                location=node.location,
                hint="batch the function first and differentiate it then: jg.grad inside of jg.vmap",
            )
        if node.op.kind == "gradient":
            return self._gradient(node, inputs)
        if node.op.effect == "ordered":
            return control.one_by_one(self, node, inputs)
        values, flags = [sample.value for sample in inputs], [sample.varies for sample in inputs]
        result = None if rule is None else rule(node.op, self.size, values, flags, node.attrs)
        if result is not None or (rule is not None and not node.outputs):
            outputs = result if isinstance(result, tuple | list) else (result,) if node.outputs else ()
            return [Lane(value, True) for value in outputs]
        if "ruled_by_region" in node.op.traits or "recomputed" in node.op.traits:
            return control.with_regions(self, node, inputs)
        if node.op.kind == "composite":
            return self.run(_definition(node), inputs)
        return control.one_by_one(self, node, inputs)

    def _gradient(self, node: Node, inputs: Sequence[Lane]) -> list[Lane]:
        """Samples do not depend on each other, so that each gets its own gradient where it has its own variables."""
        values = [each(sample, self.size).value for sample in inputs]
        return [Lane(value, True) for value in applied(node, values)]

    def region(
        self, graph: Graph, operands: Sequence[Lane], varying: Sequence[bool] = (), raw: Sequence[bool] | None = None
    ) -> tuple[Graph, list[Lane]]:
        """The graph for such operands, and its outputs; those ``varying`` vary in any case.

        Where an operand is raw the mask of the active samples is one more input, the last. An output is raw where it
        has an origin, and ``raw`` allows it.
        """
        builder = GraphBuilder()
        builder.constraints = context.constraints()
        inputs = [
            Lane(
                builder.input(batched_type(value.type, self.size) if like.varies else value.type, value.hint),
                like.varies,
                like.raw,
                position if like.raw else None,
            )
            for position, (value, like) in enumerate(zip(graph.inputs, operands, strict=True))
        ]
        active = None
        if self.active is not None and any(like.raw for like in operands):
            active = ActiveSamples(builder.input(self.active.mask.type, "active"), self.size)
        with context.using(emitter=builder, constraints=builder.constraints), self.only(active):
            lanes = self.run(graph, inputs)
            lanes = [self.outgoing(sample, inputs) for sample in lanes]
            if raw is not None:
                lanes = [s if allowed else self.standing_in(s) for s, allowed in zip(lanes, raw, strict=True)]
            outputs = [
                each(sample, self.size) if want else sample
                for sample, want in zip(lanes, varying or [False] * len(lanes), strict=True)
            ]
        region = builder.graph([sample.value for sample in outputs], graph.name)
        return Graph(region.inputs, region.nodes, region.outputs, (), graph.name), outputs

    def outgoing(self, sample: Lane, inputs: Sequence[Lane]) -> Lane:
        """An output of a region: raw where it is the input of its origin but for active samples."""
        if sample.raw and sample.origin is not None and inputs[sample.origin].value.type == sample.value.type:
            return sample
        return self.standing_in(sample)


class _Recorder(Protocol):
    """What builds a graph, and takes the lines of its ops."""

    location: Location | None


def _recorder() -> _Recorder:
    return cast(_Recorder, context.emitter())


def wrt_of(node: Node) -> tuple[Value, ...]:
    """The values with respect to which a gradient node differentiates."""
    count = node.attrs["num_outputs"]
    assert isinstance(count, int)
    return node.inputs[2 * count :]


def applied(node: Node, values: Sequence[Value]) -> tuple[Value, ...]:
    """The node on other values, by the emitter in force; a composite's definition is made where it is wanted."""
    regions = () if node.op.decompose is not None else node.regions
    return tuple(context.emitter().emit(node.op, values, node.attrs, regions))


def _definition(node: Node) -> Graph:
    if node.regions:
        return node.regions[0]
    types = [value.type for value in node.inputs]
    return decomposition(node.op, types, node.attrs, context.constraints())
