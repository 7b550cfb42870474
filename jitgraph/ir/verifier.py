"""The verifier: makes sure that a graph obeys the rules of the IR, deriving every type again by the op's own rule.

It trusts nothing but the ops: a graph may come from a file. The error shows the guilty line among those around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NoReturn

import numpy as np

from jitgraph.dtypes import SHORT_NAMES
from jitgraph.errors import GraphError
from jitgraph.ir import context, dims
from jitgraph.ir.attributes import names_in_attr, names_in_type
from jitgraph.ir.constraints import Constraints
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.printer import Style, is_size_name, lines_of
from jitgraph.ir.types import Constant, StackType, TensorType, TokenType, Type
from jitgraph.runtime.loader.specs import MAX_RANK

MAX_BYTES: Final = 2**62
_LINES_AROUND: Final = 5


def verify(graph: Graph) -> None:
    """GraphError where ``graph``, or a region in it, breaks a rule.

    Every value is defined once, before its uses, in the graph that uses it; the types of all outputs are what the op's
    rule gives under the graph's constraints, and no more may be assumed; regions take and give what their op says;
    tokens and stacks are used at most once; attributes are of the kinds that text can hold; sizes have proper names,
    which come from the inputs.
    """
    names = frozenset().union(*(names_in_type(value.type) for value in graph.inputs))
    _Verifier(graph, names).check(graph)


class _Verifier:
    def __init__(self, root: Graph, names: frozenset[str]) -> None:
        self.root = root
        self.names = names
        self.constraints = Constraints(root.constraints, frozen=True)
        for name in sorted(names):
            if not is_size_name(name):
                self.fail(root, f"{name!r} cannot be the name of a size")
        for constraint in root.constraints:
            self.check_names(dims.names(constraint.left) | dims.names(constraint.right), root)

    def fail(self, guilty: Node | Graph, message: str, cause: Exception | None = None) -> NoReturn:
        lines = list(lines_of(self.root, Style(full=True, lenient=True)))
        marked = next((i for i, (_, shown) in enumerate(lines) if shown is guilty), 0)
        first, last = max(0, marked - _LINES_AROUND), marked + _LINES_AROUND + 1
        excerpt = [f"  {'>' if i == marked else ' '} {lines[i][0]}" for i in range(first, min(last, len(lines)))]
        location = guilty.location if isinstance(guilty, Node) else None
        raise GraphError("\n".join((message, *excerpt)), location=location) from cause

    def check(self, graph: Graph) -> None:
        defined: set[Value] = set()
        self.define(graph.inputs, defined, graph)
        for node in graph.nodes:
            for position, value in enumerate(node.inputs):
                if value not in defined:
                    self.fail(node, f"operand {position} of {node.op.name} is not defined here")
            self.check_node(node)
            self.define(node.outputs, defined, node)
        for position, value in enumerate(graph.outputs):
            if value not in defined:
                self.fail(graph, f"output {position} is not defined here")
        self.check_linear(graph)

    def define(self, values: Sequence[Value], defined: set[Value], guilty: Node | Graph) -> None:
        for value in values:
            if value in defined:
                self.fail(guilty, "a value is defined twice")
            defined.add(value)
            self.check_type(value.type, guilty)

    def check_type(self, value_type: Type, guilty: Node | Graph) -> None:
        if isinstance(value_type, TokenType):
            return
        tensor = value_type.element if isinstance(value_type, StackType) else value_type
        if not isinstance(tensor, TensorType) or tensor.dtype not in SHORT_NAMES:
            self.fail(guilty, f"{tensor!r} is not a type")
        if tensor.ndim > MAX_RANK:
            self.fail(guilty, f"a tensor of rank {tensor.ndim}; at most {MAX_RANK}")
        elements = tensor.dtype.itemsize
        for dim in tensor.shape:
            if isinstance(dim, Dim):
                self.check_names(dims.names(dim), guilty)
            elif type(dim) is not int or dim < 0:
                self.fail(guilty, f"{dim!r} in {tensor} is not a size")
            else:
                elements *= max(dim, 1)
        if elements > MAX_BYTES:
            self.fail(guilty, f"{tensor} is larger than any memory")

    def check_names(self, names: frozenset[str], guilty: Node | Graph) -> None:
        if unknown := names - self.names:
            self.fail(guilty, f"the size {min(unknown)} is not in the type of any input, so it has no value")

    def check_node(self, node: Node) -> None:
        for key, attr in node.attrs.items():
            if not _is_attr(attr):
                self.fail(node, f"the attribute {key} of {node.op.name} is {attr!r}, which no attribute can be")
            self.check_names(names_in_attr(attr), node)
        for region in node.regions:
            if region.constraints:
                self.fail(node, f"a region of {node.op.name} has constraints; they belong to the whole graph")
            self.check(region)
        types = [value.type for value in node.inputs]
        if node.op.decompose is not None and (node.regions or node.op.lowering is None):
            self.check_composite(node)
        try:
            with context.using(constraints=self.constraints):
                expected = node.op.output_types(types, node.attrs, node.regions)
        except Exception as error:  # operands and attributes may be anything: the rule may refuse them in any way
            actual = ", ".join(map(str, types))
            self.fail(node, f"{node.op.name} refuses ({actual}): {getattr(error, 'message', error)}", error)
        actual_types = [value.type for value in node.outputs]
        if len(actual_types) != len(expected) or not all(map(self.same, actual_types, expected)):
            actual, rule = (", ".join(map(str, some)) for some in (actual_types, expected))
            self.fail(node, f"{node.op.name} gives ({rule}), but the graph says ({actual})")

    def check_composite(self, node: Node) -> None:
        if len(node.regions) != (2 if "ruled_by_region" in node.op.traits else 1):
            self.fail(node, f"the composite {node.op.name} has {len(node.regions)} regions; it needs its decomposition")
        region = node.regions[0]
        for what, inside, outside in (("input", region.inputs, node.inputs), ("output", region.outputs, node.outputs)):
            if len(inside) != len(outside):
                self.fail(node, f"the region of {node.op.name} has {len(inside)} {what}s for {len(outside)}")
            for i, (a, b) in enumerate(zip(inside, outside, strict=True)):
                if not self.same(a.type, b.type):
                    self.fail(node, f"{what} {i} of the region of {node.op.name} is {a.type}; outside it is {b.type}")

    def same(self, a: Type, b: Type) -> bool:
        """Equal types, sizes being equal where the constraints say so."""
        if isinstance(a, StackType) and isinstance(b, StackType):
            a, b = a.element, b.element
        if not isinstance(a, TensorType) or not isinstance(b, TensorType):
            return a == b
        return a.dtype == b.dtype and a.ndim == b.ndim and all(map(self.constraints.same, a.shape, b.shape))

    def check_linear(self, graph: Graph) -> None:
        uses = Counter(value for node in graph.nodes for value in node.inputs if not isinstance(value.type, TensorType))
        uses.update(value for value in graph.outputs if not isinstance(value.type, TensorType))
        for value, count in uses.items():
            if count > 1:
                users = [node for node in graph.nodes if value in node.inputs]
                guilty = users[-1] if users and value not in graph.outputs else graph
                self.fail(guilty, f"a {value.type} is used {count} times; tokens and stacks are used once")


def _is_attr(attr: object) -> bool:
    if isinstance(attr, tuple):
        return all(map(_is_attr, attr))
    if isinstance(attr, np.dtype):
        return attr in SHORT_NAMES
    if type(attr) is int:
        return -(2**63) <= attr < 2**64
    return (
        attr is None
        or type(attr) in (bool, float, str)
        or isinstance(attr, Dim)
        or (isinstance(attr, Constant) and attr.value.dtype in SHORT_NAMES)
    )
