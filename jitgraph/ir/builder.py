"""GraphBuilder, the emitter that records ops into a graph without simplifying, and the one walk that runs a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from jitgraph.ir import context
from jitgraph.ir.constraints import Constraints, SizeConstraint
from jitgraph.ir.graph import Attrs, Graph, Node, Value
from jitgraph.ir.types import Type
from jitgraph.location import Location

if TYPE_CHECKING:
    from jitgraph.ir.op import Op

# ----------------------------------------------------------------------
# Running a graph over an ``apply``: the one walk that gives each node the values of its operands.
#
# What ``apply`` makes of a node is the caller's: arrays (``interpreter.py``), ops of the current emitter, copies of the
# nodes in another graph.

_T = TypeVar("_T")
Apply: TypeAlias = Callable[[Node, "list[_T]"], "Sequence[_T]"]


def run_graph(
    graph: Graph, arguments: Sequence[_T], apply: Apply[_T], dying: Sequence[Sequence[Value]] | None = None
) -> list[_T]:
    """The outputs of ``graph`` for these arguments, where ``apply(node, inputs)`` gives a node's outputs.

    ``dying``, which ``deaths_of(graph)`` gives, lets go of each value where nothing after reads it.
    """
    env = dict(zip(graph.inputs, arguments, strict=True))
    run_nodes(graph.nodes, env, apply, dying)
    return [env[value] for value in graph.outputs]


def run_nodes(
    nodes: Iterable[Node],
    env: dict[Value, _T],
    apply: Apply[_T],
    dying: Sequence[Sequence[Value]] | None = None,
) -> None:
    """Apply nodes in order; ``env``, which has what stands for their operands, grows by their outputs.

    A value that ``env`` has before its node comes stays what it is there.
    """
    for position, node in enumerate(nodes):
        outputs = apply(node, [env[value] for value in node.inputs])
        for value, output in zip(node.outputs, outputs, strict=True):
            env.setdefault(value, output)
        for value in dying[position] if dying is not None else ():
            del env[value]


def deaths_of(graph: Graph) -> list[list[Value]]:
    """For each node, the values that nothing after it reads."""
    live = set(graph.outputs)
    dead: list[list[Value]] = []
    for node in reversed(graph.nodes):
        last = [value for value in dict.fromkeys((*node.inputs, *node.outputs)) if value not in live]
        live.update(last)
        dead.append(last)
    return dead[::-1]


# ----------------------------------------------------------------------
# GraphBuilder: the emitter that records ops into a graph. It builds what it is asked; simplifying is a pass.


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
