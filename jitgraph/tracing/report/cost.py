"""What a graph costs: floating-point operations and bytes of arguments and results, counted from its nodes."""

from __future__ import annotations

from collections.abc import Mapping

from jitgraph.ir import dims
from jitgraph.ir.control import CarriedLoop, Conditional, structure_of
from jitgraph.ir.graph import Graph, Node
from jitgraph.ir.types import TensorType, Type
from jitgraph.records import dataclass
from jitgraph.tracing.call.backend import tensor_bytes


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of one call. A multiply-add counts as two; a math function as one; the steps of a while loop as one step."""

    flops: int
    bytes_in: int
    bytes_out: int

    def __str__(self) -> str:
        return f"{self.flops} flops, {self.bytes_in} bytes in, {self.bytes_out} bytes out"


def cost(graph: Graph, sizes: Mapping[str, int]) -> Cost:
    """The cost of ``graph`` for these values of its named sizes."""
    return Cost(
        flops=_flops(graph, sizes),
        bytes_in=sum(tensor_bytes(value.type, sizes) for value in graph.inputs),
        bytes_out=sum(tensor_bytes(value.type, sizes) for value in graph.outputs),
    )


def _flops(graph: Graph, sizes: Mapping[str, int]) -> int:
    return sum(_of_node(node, sizes) for node in graph.nodes)


def _of_node(node: Node, sizes: Mapping[str, int]) -> int:
    inside = [_flops(region, sizes) for region in node.regions]
    structure = structure_of(node)
    if isinstance(structure, Conditional):
        return max(inside)
    if isinstance(structure, CarriedLoop) and structure.condition is None:
        return inside[0] * dims.evaluate(structure.length, sizes)
    if inside:
        return sum(inside)
    if node.op.flops is not None:
        types = [value.type for value in node.inputs]
        return dims.evaluate(node.op.flops(node.outputs[0].type, *types, **node.attrs), sizes)
    if node.op.kind == "elementwise" and "no_arithmetic" not in node.op.traits:
        return _size(node.output.type, sizes)
    if node.op.kind == "reduce":
        return _size(node.inputs[0].type, sizes)
    return 0


def _size(type: Type, sizes: Mapping[str, int]) -> int:
    return dims.evaluate(type.size, sizes) if isinstance(type, TensorType) else 0
