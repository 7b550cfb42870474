"""The gradient of what is to be computed anew: nothing of its inside is kept for the way back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.types import TensorType
from jitgraph.ops import call, optimization_barrier
from jitgraph.ops.effects import zeros
from jitgraph.passes.activity import carries_gradient
from jitgraph.passes.strip_prints import strip_prints

if TYPE_CHECKING:
    from jitgraph.passes.reverse import Reverse


def recomputed_gradient(reverse: Reverse, node: Node, cotangents: Sequence[Value | None]) -> list[Value | None]:
    """The cotangents of a node's inputs by its region, run once more from the same operands, and its derivative.

    The operands stand behind a barrier: what computes with them waits for a cotangent, and is not taken for what the
    forward computed already. Random numbers are the same, as their streams' states are operands; prints are not
    repeated.
    """
    region = strip_prints(node.regions[0])
    tensor_inputs = [i for i, value in enumerate(node.inputs) if isinstance(value.type, TensorType)]
    tensors = [i for i, value in enumerate(node.outputs) if isinstance(value.type, TensorType)]
    seeds = [(position, ct) for position, i in enumerate(tensors) if (ct := cotangents[i]) is not None]
    wrt = [position for position, i in enumerate(tensor_inputs) if node.inputs[i] in reverse.active]
    after = seeds[0][1]
    operands = [optimization_barrier(node.inputs[i], after) for i in tensor_inputs]
    backward = _backward(reverse, region, [position for position, _ in seeds], wrt)
    gradients = call(*operands, *(ct for _, ct in seeds), regions=(backward,))
    by_input: list[Value | None] = [None] * len(node.inputs)
    for position, gradient in zip(wrt, gradients if len(wrt) > 1 else (gradients,), strict=True):
        by_input[tensor_inputs[position]] = gradient
    return by_input


def _backward(reverse: Reverse, region: Graph, seeds: Sequence[int], wrt: Sequence[int]) -> Graph:
    """Inputs and cotangents of the outputs ``seeds`` to cotangents of the inputs ``wrt``."""
    builder = GraphBuilder()
    builder.constraints = reverse.builder.constraints
    builder.location = reverse.builder.location
    inputs = [builder.input(value.type, value.hint) for value in region.inputs]
    outputs = builder.inline(region, inputs)
    chosen = [outputs[i] for i in seeds]
    cotangents = [builder.input(value.type) for value in chosen]
    assert all(carries_gradient(inputs[i].type) for i in wrt)
    input_cts = type(reverse)(builder).run(chosen, cotangents, [inputs[i] for i in wrt])
    with context.using(emitter=builder, constraints=builder.constraints):
        gradients = [zeros(inputs[i].type) if ct is None else ct for i, ct in zip(wrt, input_cts, strict=True)]
    graph = builder.graph(gradients, f"{region.name}_again")
    return Graph(graph.inputs, graph.nodes, graph.outputs, (), graph.name)
