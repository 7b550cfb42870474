"""The SSA graph: values, nodes, and closed graphs of them. Immutable; a pass builds a new graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from jitgraph.dtypes import DType
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import Dim
from jitgraph.ir.types import Constant, TensorType, Type
from jitgraph.location import Location
from jitgraph.once import cached_property
from jitgraph.records import dataclass

if TYPE_CHECKING:
    from jitgraph.ir.op import Op

Attr: TypeAlias = "int | float | bool | str | DType | Dim | Constant | tuple[Attr, ...] | None"
Attrs: TypeAlias = Mapping[str, Attr]


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """One SSA value; its identity is the object. ``hint`` is a name for printing alone."""

    type: Type
    hint: str | None = None

    @property
    def tensor(self) -> TensorType:
        """The type of a value known to be a tensor."""
        assert isinstance(self.type, TensorType), self.type
        return self.type

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.tensor.shape

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One application of an op. Regions are closed graphs: what they use comes in as operands of the node."""

    op: Op
    inputs: tuple[Value, ...]
    attrs: Attrs
    outputs: tuple[Value, ...]
    regions: tuple[Graph, ...] = ()
    location: Location | None = None

    @property
    def output(self) -> Value:
        """The one output of a node that has one."""
        (output,) = self.outputs
        return output


@dataclass(frozen=True, eq=False)
class Graph:
    """A closed program: inputs, nodes in an order in which every value stands before its uses, and outputs.

    ``constraints`` are what the types assume about symbolic sizes. ``==`` and ``hash`` compare the canonical text, in
    which neither locations nor names stand.
    """

    inputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]
    constraints: tuple[SizeConstraint, ...] = ()
    name: str = "graph"

    @cached_property
    def producers(self) -> Mapping[Value, Node]:
        """The node that makes each value that is not an input."""
        return {output: node for node in self.nodes for output in node.outputs}

    @cached_property
    def uses(self) -> Mapping[Value, tuple[Node, ...]]:
        """The nodes that read each value, in order, once for each operand; values without readers are absent."""
        users: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                users.setdefault(value, []).append(node)
        return {value: tuple(nodes) for value, nodes in users.items()}

    @cached_property
    def canonical(self) -> str:
        """The text without locations and names: equal graphs have equal canonical texts."""
        from jitgraph.ir.printer import canonical_text  # here: eager calls need no text

        return canonical_text(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and (self is other or self.canonical == other.canonical)

    def __hash__(self) -> int:
        return hash(self.canonical)

    def __str__(self) -> str:
        from jitgraph.ir.printer import print_graph

        return print_graph(self)

    def _repr_html_(self) -> str:
        """For notebooks: the nodes folded by the lines that they came from."""
        from jitgraph.ir.graph_html import STYLE, graph_html

        return f"{STYLE}<div class='jitgraph'>{graph_html(self)}</div>"

    def to_networkx(self, *, full: bool = False) -> Any:
        """A ``networkx.MultiDiGraph``: a node for each input, op and the return, an edge for each operand.

        ``jitgraph/ir/drawing.py`` says what attributes they have. ``full`` takes the decompositions of composites in.
        """
        from jitgraph.ir.drawing import to_networkx

        return to_networkx(self, full=full)

    def to_dot(self, *, full: bool = False) -> str:
        """The graph as DOT text for Graphviz, regions in frames; ``full`` draws decompositions, too."""
        from jitgraph.ir.drawing import to_dot

        return to_dot(self, full=full)

    def walk(self) -> Iterator[Node]:
        """Every node, those of regions included, outer before inner."""
        for node in self.nodes:
            yield node
            for region in node.regions:
                yield from region.walk()
