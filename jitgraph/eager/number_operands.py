"""Numbers among the attributes of an op as operands of its kernel, so that another slope or bound needs no other code.

An op is what its definition makes of it with its attributes in place: a graph, in which a number that an attribute
gives, or that Python computes from one, stands as ``full``. Two graphs that differ in such numbers alone are one graph
with the numbers as operands. Which numbers these are, a second graph tells, with other numbers for the attributes; what
else depends on them (a branch that Python takes for 0) makes another graph, whose code has the numbers in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgraph import ops
from jitgraph.eager.native import owned_value
from jitgraph.eager.tape import EagerValue, native_type
from jitgraph.errors import JitgraphError
from jitgraph.ir import context
from jitgraph.ir.graph import Attrs, Graph, Node
from jitgraph.ir.op import Op
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.passes.decompose import decompose
from jitgraph.passes.rewriter import Rewriter
from jitgraph.records import NamedTuple
from jitgraph.runtime import loader

Build = Callable[[Attrs], Graph]
"""The graph of a kernel for some attributes."""


def is_number(attr: Any) -> bool:
    """Whether an attribute may be an operand: a Python number, and no choice."""
    return attr.__class__ is float or attr.__class__ is int


class WithOperands(NamedTuple):
    """A graph whose last inputs are numbers of rank 0, and what they are for certain attributes."""

    graph: Graph
    numbers: tuple[EagerValue, ...]


class NumberOperands:
    """How the graphs of one op on operands of the same types differ where only numbers among its attributes do."""

    def __init__(self, build: Build, target: Target) -> None:
        self._build = build
        self._target = target
        self._places: dict[tuple[Op, ...], tuple[int, ...]] = {}  # of the numbers among the nodes, by their ops

    def apply(self, attrs: Attrs) -> WithOperands | None:
        """The graph for these attributes with numbers as operands; None where none can be one."""
        graph = self._expanded(attrs)
        structure = tuple([node.op for node in graph.nodes])
        if structure not in self._places:
            self._places[structure] = self._places_in(graph, attrs)
        places = self._places[structure]
        return _with_operands(graph, places) if places else None

    def _expanded(self, attrs: Attrs) -> Graph:
        return decompose(self._build(attrs), self._target)

    def _places_in(self, graph: Graph, attrs: Attrs) -> tuple[int, ...]:
        """Where nodes stand that give other numbers for other attributes, while all else stays the same."""
        places: set[int] = set()
        numbers: dict[str, Any] = {name: attr for name, attr in attrs.items() if is_number(attr)}
        for name, number in numbers.items():
            another = number + 1 if number.__class__ is int else number * 0.8125 + 0.0712890625
            try:  # which leaves a probability one
                other = self._expanded({**attrs, name: another})
            except (JitgraphError, ArithmeticError, LookupError, TypeError, ValueError):
                continue  # it is a choice, as an axis is
            differing = _differing(graph.nodes, other.nodes)
            if differing and _with_operands(graph, differing).graph == _with_operands(other, differing).graph:
                places.update(differing)
        return tuple(sorted(places))


def _is_number(node: Node) -> bool:
    """Whether a node gives one Python number, in the shape of an operand."""
    return node.op.kind == "creation" and is_number(node.attrs.get("value"))


def _differing(nodes: Sequence[Node], others: Sequence[Node]) -> tuple[int, ...]:
    if len(nodes) != len(others):
        return ()
    pairs = enumerate(zip(nodes, others, strict=True))
    return tuple(
        [
            place
            for place, (node, other) in pairs
            if _is_number(node) and _is_number(other) and _bits(node) != _bits(other)
        ]
    )


def _bits(node: Node) -> tuple[str, str]:
    value = node.attrs["value"]
    return value.__class__.__name__, repr(value)


def _with_operands(graph: Graph, places: Sequence[int]) -> WithOperands:
    """The graph with the numbers that stand in these places as inputs behind its own."""
    rewriter, numbers = Rewriter(graph), []
    builder = rewriter.builder
    for place, node in enumerate(graph.nodes):
        if place not in places:
            rewriter.copy(node, node.regions)
            continue
        type = node.output.tensor
        operand = builder.input(TensorType(type.dtype, ()))
        with context.using(emitter=builder, constraints=builder.constraints):
            rewriter.replace(node.output, ops.broadcast(operand, shape=type.shape, axes=()) if type.shape else operand)
        numbers.append(_value(node))
    outputs = tuple([rewriter.value(value) for value in graph.outputs])
    inputs = (*graph.inputs, *builder.inputs)
    return WithOperands(Graph(inputs, tuple(builder.nodes), outputs, graph.constraints, graph.name), tuple(numbers))


def _value(node: Node) -> EagerValue:
    """The number as an operand, rounded as ``full`` rounds it."""
    assert node.op.evaluate is not None
    dtype: Any = node.attrs["dtype"]
    array = node.op.evaluate(shape=(), value=node.attrs["value"], dtype=dtype)
    array = np.ascontiguousarray(array).reshape(())
    return owned_value(array, native_type(dtype, ()), loader.address_of(array))
