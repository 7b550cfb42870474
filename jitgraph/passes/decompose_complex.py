"""Complex values replaced by pairs of real ones, their parts: no later pass and no kernel meets a complex number.

A buffer of complex numbers is one of floats with a last axis of two, which inputs and outputs of the graph become: a
part of an input is a slice of it, and an output its parts put together along that axis. Inside, in regions and on
stacks, the parts of a value go apart. An op that is planewise is applied to each; what is not was written over parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from jitgraph import ops
from jitgraph.dtypes import DType, is_complex, part_of
from jitgraph.errors import UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.constraints import Constraints
from jitgraph.ir.control import CarriedLoop, structure_of
from jitgraph.ir.graph import Attr, Graph, Node, Value
from jitgraph.ir.target import Target
from jitgraph.ir.types import StackType, TensorType, Type

Pair: TypeAlias = "tuple[Value, Value]"


def decompose_complex(graph: Graph, target: Target) -> Graph:
    """``graph`` on the parts of its complex values; itself where it has none."""
    values = (value for node in graph.walk() for value in node.outputs)
    if not any(_is_complex(value.type) for value in (*graph.inputs, *values)):
        return graph
    known = Constraints(graph.constraints, frozen=True)
    builder = GraphBuilder()
    builder.constraints = known
    split = _Split(builder, known)
    for value in graph.inputs:
        if _is_complex(value.type):
            packed = builder.input(_with_parts(value.type), value.hint)
            with context.using(emitter=builder, constraints=known):
                split.pairs[value] = split.parts_of(packed)
        else:
            builder.inputs.append(value)
    split.run(graph)
    with context.using(emitter=builder, constraints=known):
        outputs = [split.joined(split.pairs[v]) if v in split.pairs else split.value(v) for v in graph.outputs]
    return Graph(tuple(builder.inputs), tuple(builder.nodes), tuple(outputs), graph.constraints, graph.name)


def _dtype(type: Type) -> DType | None:
    if isinstance(type, StackType):
        return type.element.dtype
    return type.dtype if isinstance(type, TensorType) else None


def _is_complex(type: Type) -> bool:
    dtype = _dtype(type)
    return dtype is not None and is_complex(dtype)


def _part(type: Type) -> Type:
    """The type of one part."""
    if isinstance(type, StackType):
        return StackType(TensorType(part_of(type.element.dtype), type.element.shape))
    assert isinstance(type, TensorType)
    return TensorType(part_of(type.dtype), type.shape)


def _with_parts(type: Type) -> TensorType:
    assert isinstance(type, TensorType)
    return TensorType(part_of(type.dtype), (*type.shape, 2))


def _part_slice(packed: Value, number: int) -> Value:
    shape = packed.shape[:-1]
    starts, stops = (0,) * len(shape), shape
    cut = ops.slice(packed, starts=(*starts, number), stops=(*stops, number + 1), strides=(1,) * len(packed.shape))
    plane: Value = ops.reshape(cut, shape=shape)
    return plane


class _Split:
    """Copies the nodes of a graph or region, the parts of complex values in their places."""

    def __init__(self, builder: GraphBuilder, known: Constraints) -> None:
        self.builder = builder
        self.known = known
        self.pairs: dict[Value, Pair] = {}
        self._packed: dict[Pair, Value] = {}  # what both parts of a value are slices of
        self._replaced: dict[Value, Value] = {}

    def parts_of(self, packed: Value) -> Pair:
        """The parts that stand along the last axis of ``packed``."""
        pair = _part_slice(packed, 0), _part_slice(packed, 1)
        self._packed[pair] = packed
        return pair

    def joined(self, pair: Pair) -> Value:
        """The parts along a last axis."""
        packed = self._packed.get(pair)
        if packed is None:
            rows = [ops.reshape(part, shape=(*part.shape, 1)) for part in pair]
            packed = self._packed[pair] = ops.concat(*rows, axis=len(pair[0].shape))
        return packed

    def value(self, old: Value) -> Value:
        """The value that stands for a real one."""
        return self._replaced.get(old, old)

    def run(self, graph: Graph) -> None:
        """Copy all nodes; the inputs stand already."""
        for node in graph.nodes:
            self.builder.location = node.location
            with context.using(emitter=self.builder, constraints=self.known):
                self._node(node)
        self.builder.location = None

    def flat(self, values: Iterable[Value]) -> list[Value]:
        """The values, two for each complex one."""
        return [part for value in values for part in self.pairs.get(value, (self.value(value),))]

    def _node(self, node: Node) -> None:
        touched = [value for value in (*node.inputs, *node.outputs) if _is_complex(value.type)]
        inner = [value for each in node.regions for part in each.walk() for value in part.outputs]
        if not touched and not any(_is_complex(value.type) for value in inner):
            self._copied(node)
        elif structure_of(node) is not None:
            self._control(node)
        elif node.op is ops.as_pairs:
            self._replaced[node.output] = self.joined(self.pairs[node.inputs[0]])
        elif node.op is ops.of_pairs:
            self.pairs[node.output] = self.parts_of(self.value(node.inputs[0]))
        elif node.op.parts is not None:
            operands = [self.pairs.get(value, self.value(value)) for value in node.inputs]
            self._made(node, node.op.parts(*operands, **node.attrs))
        else:
            self._planewise(node)

    def _made(self, node: Node, parts: Value | Sequence[Value]) -> None:
        """The values that stand for the outputs of a node: two for each complex one."""
        remaining = iter(parts if isinstance(parts, Sequence) else (parts,))
        for value in node.outputs:
            if _is_complex(value.type):
                self.pairs[value] = next(remaining), next(remaining)
            else:
                self._replaced[value] = next(remaining)

    def _copied(self, node: Node) -> None:
        inputs = tuple([self.value(value) for value in node.inputs])
        same = all(new is old for new, old in zip(inputs, node.inputs, strict=True))
        self.builder.nodes.append(
            node if same else Node(node.op, inputs, node.attrs, node.outputs, node.regions, node.location)
        )

    def _planewise(self, node: Node) -> None:
        op = node.op
        alike = op.kind in ("movement", "indexing") or "planewise" in op.traits
        if not alike or not all(_is_complex(value.type) for value in node.outputs):
            raise UnsupportedOp(f"{op.name} of complex numbers in compiled code", hint="compute with x.real and x.imag")
        attrs = {name: _of_part(attr) for name, attr in node.attrs.items()}
        part_outputs = []
        for number in (0, 1):
            inputs = [self.pairs[value][number] if value in self.pairs else self.value(value) for value in node.inputs]
            part_outputs.append(self.builder.emit(op, inputs, attrs, ()))
        self.pairs.update(zip(node.outputs, zip(*part_outputs, strict=True), strict=True))

    def _control(self, node: Node) -> None:
        """Control flow whose regions take and give two values for each complex one."""
        structure, attrs = structure_of(node), dict(node.attrs)
        if isinstance(structure, CarriedLoop):
            widths = [2 if value in self.pairs else 1 for value in node.inputs]
            carries, xs, _ = structure.parts(widths)
            attrs["num_carries"] = sum(carries)
            if structure.condition is None:
                attrs["num_xs"] = sum(xs)
        regions = [self._region(region) for region in node.regions]
        self._made(node, self.builder.emit(node.op, self.flat(node.inputs), attrs, regions))

    def _region(self, region: Graph) -> Graph:
        inner = GraphBuilder()
        inner.constraints = self.known
        split = _Split(inner, self.known)
        for value in region.inputs:
            if _is_complex(value.type):
                part = _part(value.type)
                split.pairs[value] = inner.input(part, value.hint), inner.input(part, value.hint)
            else:
                inner.inputs.append(value)
        split.run(region)
        return Graph(tuple(inner.inputs), tuple(inner.nodes), tuple(split.flat(region.outputs)), (), region.name)


def _of_part(attr: Attr) -> Attr:
    return part_of(attr) if isinstance(attr, np.dtype) else attr
