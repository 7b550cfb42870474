"""GraphBuilder: the emitter that records ops into a graph. It builds what it is asked; simplifying is a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jitgraph.ir import context
from jitgraph.ir.constraints import Constraints, SizeConstraint
from jitgraph.ir.graph import Attrs, Graph, Node, Value
from jitgraph.ir.running import run_graph
from jitgraph.ir.types import Type
from jitgraph.location import Location

if TYPE_CHECKING:
    from jitgraph.ir.op import Op


class GraphBuilder:
    """Records nodes in order; ``location`` is stamped on each new node where it is set."""

    def __init__(self, constraints: Iterable[SizeConstraint] = ()) -> None:
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.constraints = Constraints(constraints)
        self.location: Location | None = None

    def input(self, type: Type, hint: str | None = None) -> Value:
        """A new input of the graph."""
        value = Value(type, hint)
        self.inputs.append(value)
        return value

    def emit(self, op: Op, inputs: Sequence[Value], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Value, ...]:
        """Append one node and return its outputs; ShapeError or DTypeError where the op's rule refuses the operands.

        A composite's decomposition is attached as its region where it has none yet.
        """
        if op.decompose is not None and not regions:
            regions = (decomposition(op, tuple(value.type for value in inputs), attrs, self.constraints),)
        with context.using(constraints=self.constraints):
            types = op.output_types([value.type for value in inputs], attrs, regions)
        outputs = tuple(Value(type) for type in types)
        self.nodes.append(Node(op, tuple(inputs), dict(attrs), outputs, tuple(regions), self.location))
        return outputs

    def copy(self, node: Node, inputs: Sequence[Value]) -> tuple[Value, ...]:
        """Append ``node`` over other operands and return its outputs, values of their own; its location is kept."""
        outputs = tuple(Value(value.type, value.hint) for value in node.outputs)
        location = node.location or self.location
        self.nodes.append(Node(node.op, tuple(inputs), node.attrs, outputs, node.regions, location))
        return outputs

    def inline(self, graph: Graph, operands: Sequence[Value]) -> tuple[Value, ...]:
        """Append copies of the nodes of ``graph`` for these operands and return what its outputs became."""
        return tuple(run_graph(graph, operands, self.copy))

    def graph(self, outputs: Sequence[Value], name: str = "graph") -> Graph:
        """The graph recorded so far with these outputs."""
        return Graph(tuple(self.inputs), tuple(self.nodes), tuple(outputs), tuple(self.constraints), name)


def build(
    function: Callable[..., Any],
    types: Sequence[Type],
    name: str = "graph",
    *,
    constraints: Iterable[SizeConstraint] = (),
) -> Graph:
    """The graph of ``function`` (over Op calls) for operands of these types; it returns one value or a tuple."""
    return _built(GraphBuilder(constraints), function, types, name)


def _built(builder: GraphBuilder, function: Callable[..., Any], types: Sequence[Type], name: str) -> Graph:
    inputs = [builder.input(type) for type in types]
    with context.using(emitter=builder, constraints=builder.constraints):
        result = function(*inputs)
    return builder.graph(result if isinstance(result, tuple | list) else (result,), name)


def decomposition(op: Op, types: Sequence[Type], attrs: Attrs, constraints: Constraints) -> Graph:
    """The closed region of a composite; what it asks about sizes is asked of the surrounding graph's constraints."""
    assert op.decompose is not None
    decompose = op.decompose
    builder = GraphBuilder()
    builder.constraints = constraints
    region = _built(builder, lambda *values: decompose(*values, **attrs), types, op.name)
    return Graph(region.inputs, region.nodes, region.outputs, (), op.name)
