"""Differentiation of graphs: the pass that expands ``grad`` nodes, the transforms vjp, grad and jvp, and which
values matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from jitgraph.dtypes import is_float, is_inexact
from jitgraph.errors import DTypeError, GraphError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.control import CarriedLoop, Conditional, structure_of
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.target import Target
from jitgraph.ir.types import StackType, TensorType, Type, is_inexact_tensor
from jitgraph.ops import full
from jitgraph.records import dataclass
from jitgraph.runtime import imports

# ----------------------------------------------------------------------
# Which values a gradient passes through: forwards from the inputs asked for, backwards from the outputs given.
#
# Both analyses look at structure alone, so they may say "yes" where the gradient is then found to be zero, never "no"
# where it is not. They keep loops from carrying cotangents that nobody needs.

Flags = tuple[bool, ...]


def carries_gradient(type: Type) -> bool:
    """True for tensors of floats and complex numbers and stacks of them; ints, bools and tokens have no cotangent."""
    if isinstance(type, StackType):
        return is_inexact(type.element.dtype)
    return is_inexact_tensor(type)


def passes_gradient(node: Node) -> bool:
    """Whether a gradient is meant to pass the node; where one arrives and the op has no rule, that is an error."""
    return "nondifferentiable" not in node.op.traits


def spread(nodes: Iterable[Node], active: set[Value]) -> None:
    """Add to ``active`` every value of ``nodes`` (in order) that depends on it in a differentiable way."""
    for node in nodes:
        flags = tuple(value in active for value in node.inputs)
        if any(flags):
            active.update(value for value, flag in zip(node.outputs, active_outputs(node, flags), strict=True) if flag)


def active_outputs(node: Node, flags: Flags) -> Flags:
    """For each output of ``node``, whether it depends on the inputs flagged."""
    match structure_of(node):
        case Conditional():
            branches = [_through(region, flags[1:]) for region in node.regions]
            return tuple(any(pair) for pair in zip(*branches, strict=True))
        case CarriedLoop() as loop:
            settled = _active_carries(loop, flags)
            _, xs, invariants = loop.parts(flags)
            _, ys = loop.results(_through(loop.body, (*settled, *xs, *invariants)))
            return (*settled, *ys)
    is_active = any(flags) and passes_gradient(node)
    return tuple(is_active and carries_gradient(value.type) for value in node.outputs)


def useful_inputs(node: Node, flags: Flags) -> Flags:
    """For each input of ``node``, whether a cotangent of the outputs flagged can reach it."""
    match structure_of(node):
        case Conditional():
            branches = [reaching(region, flags) for region in node.regions]
            return (False, *(any(pair) for pair in zip(*branches, strict=True)))
        case CarriedLoop() as loop:
            return _useful_of_loop(loop, flags)
    is_useful = any(flags) and passes_gradient(node)
    return tuple(is_useful and carries_gradient(value.type) for value in node.inputs)


def reaching(graph: Graph, flags: Flags) -> Flags:
    """For each input of ``graph``, whether a cotangent of the outputs flagged can reach it."""
    useful = {value for value, flag in zip(graph.outputs, flags, strict=True) if flag and carries_gradient(value.type)}
    for node in reversed(graph.nodes):
        needed = tuple(value in useful for value in node.outputs)
        if any(needed):
            useful.update(v for v, flag in zip(node.inputs, useful_inputs(node, needed), strict=True) if flag)
    return tuple(value in useful for value in graph.inputs)


def loop_carries(loop: CarriedLoop, varied: Sequence[bool], needed: Flags) -> Flags:
    """For each carry of a loop, whether it needs a cotangent: it depends on the inputs and reaches the outputs.

    ``varied`` has a flag for each operand of the loop, ``needed`` for each output of the body.
    """
    depends = _active_carries(loop, varied)
    reaches, _, _ = loop.parts(_useful_of_loop(loop, needed))
    return tuple(a and b for a, b in zip(depends, reaches, strict=True))


def _through(region: Graph, flags: Flags) -> Flags:
    active = {value for value, flag in zip(region.inputs, flags, strict=True) if flag}
    spread(region.nodes, active)
    return tuple(value in active for value in region.outputs)


def _active_carries(loop: CarriedLoop, flags: Sequence[bool]) -> list[bool]:
    settled, xs, invariants = loop.parts(flags)
    while True:
        after, _ = loop.results(_through(loop.body, (*settled, *xs, *invariants)))
        grown = [a or b for a, b in zip(settled, after, strict=True)]
        if grown == settled:
            return settled
        settled = grown


def _useful_of_loop(loop: CarriedLoop, flags: Flags) -> Flags:
    carried, ys = loop.results(flags)
    outputs, _ = loop.results(loop.body.outputs)
    settled = [flag and carries_gradient(value.type) for flag, value in zip(carried, outputs, strict=True)]
    while True:
        reached, xs, invariants = loop.parts(reaching(loop.body, (*settled, *ys)))
        grown = [a or b for a, b in zip(settled, reached, strict=True)]
        if grown == settled:
            return (*settled, *xs, *invariants)
        settled = grown


# ----------------------------------------------------------------------
# Differentiation of graphs: the pass that expands ``grad`` nodes, and the transforms vjp, grad and jvp.
#
# Everything is reverse mode by the gradient rules of the ops (``reverse.py``), residuals chosen by a minimum cut
# (``partition.py``). Derivatives of higher order come by differentiating what an earlier one recorded.


def backward(
    builder: GraphBuilder, outputs: Sequence[Value], cotangents: Sequence[Value], wrt: Sequence[Value]
) -> tuple[Value, ...]:
    """Record the cotangents of ``wrt`` for these cotangents of ``outputs``: one value each, of the type of ``wrt``.

    All are values of the graph being built. Zeros stand where no gradient arrives (integers too). Loops on the way are
    replaced by ones that yield their residuals; no value changes its identity.
    """
    reverse = _reverse()
    input_cts = reverse.Reverse(builder).run(outputs, cotangents, wrt)
    with context.using(emitter=builder, constraints=builder.constraints):
        return tuple(reverse.zeros(value.type) if ct is None else ct for value, ct in zip(wrt, input_cts, strict=True))


def _reverse() -> Any:
    """What walks back over nodes, which the first gradient imports: many graphs have none."""
    return imports.module("jitgraph.passes.reverse")


def has_gradients(graph: Graph) -> bool:
    """Whether a gradient stands in the graph or in a region, not yet written out."""
    return any(node.op.kind == "gradient" for node in graph.walk())


def expand_grads(graph: Graph, target: Target | None = None) -> Graph:
    """``graph`` with every ``grad`` node, those in regions too, replaced by the computation of the gradients.

    A grad node differentiates what stands before it in its own graph, the gradients of earlier ones included.
    """
    if not has_gradients(graph):
        return graph
    builder = GraphBuilder(graph.constraints)
    expanded = _expanded(graph, builder)
    return replace(expanded, constraints=tuple(builder.constraints))


def _expanded(graph: Graph, builder: GraphBuilder) -> Graph:
    builder.inputs = list(graph.inputs)
    env: dict[Value, Value] = {}
    for node in graph.nodes:
        inputs = tuple(env.get(value, value) for value in node.inputs)
        if node.op.kind == "gradient":
            count = node.attrs["num_outputs"]
            assert isinstance(count, int)
            builder.location = node.location
            input_cts = backward(builder, inputs[:count], inputs[count : 2 * count], inputs[2 * count :])
            env.update(zip(node.outputs, input_cts, strict=True))
        else:
            regions = tuple(expand_region_grads(region, builder) for region in node.regions)
            builder.nodes.append(replace(node, inputs=inputs, regions=regions))
    outputs = tuple(env.get(value, value) for value in graph.outputs)
    return replace(graph, nodes=tuple(builder.nodes), outputs=outputs)


def expand_region_grads(region: Graph, parent: GraphBuilder) -> Graph:
    """``expand_grads`` of a closed region of the graph that ``parent`` builds."""
    if not has_gradients(region):
        return region
    builder = GraphBuilder()
    builder.constraints = parent.constraints
    return _expanded(region, builder)


@dataclass(frozen=True, slots=True)
class Vjp:
    """A graph and its reverse derivative, as two graphs that may run apart.

    forward: inputs -> outputs + residuals.
    backward: inputs at ``saved_inputs`` + outputs at ``saved_outputs`` + residuals + cotangents -> input cotangents.
    The cotangents are those of the outputs at ``seeds`` (its float outputs), the results those of the inputs ``wrt``.
    """

    forward: Graph
    backward: Graph
    saved_inputs: tuple[int, ...]
    saved_outputs: tuple[int, ...]
    seeds: tuple[int, ...]
    wrt: tuple[int, ...]


def vjp_graph(graph: Graph, wrt: Sequence[int] | None = None) -> tuple[Graph, Graph]:
    """``(forward, backward)``: inputs -> outputs + residuals, and residuals + cotangents -> cotangents of the inputs.

    The cotangents are those of the float outputs, the results those of the inputs that ``wrt`` numbers (all float ones
    by default). Inputs and outputs that backward reads are among the residuals; see ``vjp_halves`` for a pair that does
    without handing them out twice.
    """
    both = vjp_halves(graph, wrt)
    forward = both.forward
    count = len(graph.outputs)
    again = (
        *(forward.inputs[i] for i in both.saved_inputs),
        *(forward.outputs[i] for i in both.saved_outputs),
    )
    outputs = (*forward.outputs[:count], *again, *forward.outputs[count:])
    return replace(forward, outputs=outputs), both.backward


def vjp_halves(graph: Graph, wrt: Sequence[int] | None = None) -> Vjp:
    """The forward graph with residuals, and the backward graph; ``wrt`` numbers inputs, all float ones by default.

    Residuals are the cheapest to hold in bytes beside inputs and outputs. A while loop is run again in the backward
    graph, as the stacks of its residuals do not leave a call. DTypeError for an input in ``wrt`` that is no float.
    """
    graph = expand_grads(graph)
    numbers = _differentiable(graph, wrt)
    seeds = tuple(i for i, value in enumerate(graph.outputs) if carries_gradient(value.type))
    parent = GraphBuilder(graph.constraints)
    both = _reverse().halves(
        graph,
        seeds,
        numbers,
        parent,
        free_inputs=range(len(graph.inputs)),
        free_outputs=range(len(graph.outputs)),
        with_stacks=False,
    )
    constraints = tuple(parent.constraints)
    return Vjp(
        forward=replace(both.forward, constraints=constraints, name=f"{graph.name}_forward"),
        backward=replace(both.backward, constraints=constraints),
        saved_inputs=both.saved_inputs,
        saved_outputs=both.saved_outputs,
        seeds=seeds,
        wrt=numbers,
    )


def grad_graph(graph: Graph, wrt: Sequence[int] | None = None) -> Graph:
    """``graph`` with the gradients of its first output, a float scalar, as further outputs; one for each of ``wrt``.

    ``wrt`` numbers inputs, all float ones by default. ShapeError where the first output is not a float scalar.
    """
    graph = expand_grads(graph)
    numbers = _differentiable(graph, wrt)
    first = graph.outputs[0].type if graph.outputs else None
    if not isinstance(first, TensorType) or first.shape != () or not is_float(first.dtype):
        raise ShapeError(
            f"a gradient is taken of a float scalar, not of {first}",
            hint="reduce it with .sum() or .mean(), or use jg.vjp",
        )
    builder, inputs = _builder_for(graph)
    outputs = builder.inline(graph, inputs)
    with context.using(emitter=builder, constraints=builder.constraints):
        one = full(shape=(), value=1.0, dtype=first.dtype)
    gradients = backward(builder, outputs[:1], [one], [inputs[i] for i in numbers])
    return builder.graph((*outputs, *gradients), f"{graph.name}_grad")


def jvp_graph(graph: Graph) -> Graph:
    """Inputs, then a tangent of each float input -> outputs, then a tangent of each float output.

    Computed as the vjp of the vjp: the reverse derivative is linear in its cotangents, and its own reverse derivative
    with respect to them is the forward one. What it does not need is dead code.
    """
    reverse = _reverse()
    graph = expand_grads(graph)
    builder, inputs = _builder_for(graph)
    varied = [value for value in inputs if carries_gradient(value.type)]
    tangents = [builder.input(value.type, value.hint and f"d_{value.hint}") for value in varied]
    outputs = builder.inline(graph, inputs)
    seeds = [value for value in outputs if carries_gradient(value.type)]
    with context.using(emitter=builder, constraints=builder.constraints):
        # Any values do: only the derivative by them is used.
        cotangents = [reverse.zeros(value.type) for value in seeds]
    pulled = reverse.Reverse(builder).run(seeds, cotangents, varied)
    reached = [(ct, tangent) for ct, tangent in zip(pulled, tangents, strict=True) if ct is not None]
    pushed = backward(builder, [ct for ct, _ in reached], [tangent for _, tangent in reached], cotangents)
    return builder.graph((*outputs, *pushed), f"{graph.name}_jvp")


def _builder_for(graph: Graph) -> tuple[GraphBuilder, list[Value]]:
    builder = GraphBuilder(graph.constraints)
    return builder, [builder.input(value.type, value.hint) for value in graph.inputs]


def _differentiable(graph: Graph, wrt: Sequence[int] | None) -> tuple[int, ...]:
    if wrt is None:
        return tuple(i for i, value in enumerate(graph.inputs) if carries_gradient(value.type))
    for i in wrt:
        if not 0 <= i < len(graph.inputs):
            raise GraphError(f"{graph.name} has {len(graph.inputs)} inputs; there is no input {i}")
        if not carries_gradient(graph.inputs[i].type):
            raise DTypeError(
                f"input {i} of {graph.name} is {graph.inputs[i].type}, which has no gradient", hint="use a float dtype"
            )
    return tuple(wrt)
