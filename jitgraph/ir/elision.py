"""Whether the region of a composite is what its op's own decomposition gives: then text may leave it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jitgraph.ir import context
from jitgraph.ir.constraints import Constraints
from jitgraph.ir.literals import format_attr

if TYPE_CHECKING:
    from jitgraph.ir.graph import Attrs, Graph, Value
    from jitgraph.ir.op import Op
    from jitgraph.ir.types import Type


def is_decomposition(
    region: Graph, op: Op, types: Sequence[Type], attrs: Mapping[str, Any], constraints: Constraints
) -> bool:
    """Whether ``ir.builder.decomposition`` of the same arguments equals ``region``; what the op raises is passed on."""
    if op.decompose is None or region.constraints or [value.type for value in region.inputs] != list(types):
        return False
    reading = _Reading(region, constraints)
    try:
        with context.using(emitter=reading, constraints=constraints):
            result = op.decompose(*region.inputs, **attrs)
    except _OtherNodeError:
        return False
    outputs = result if isinstance(result, tuple | list) else (result,)
    return reading.is_done and tuple(outputs) == region.outputs


class _OtherNodeError(Exception):
    """What was emitted is not the next node of the region."""


class _Reading:
    """An emitter that appends nothing: it goes along the nodes of a region, as long as these are what is emitted."""

    def __init__(self, region: Graph, constraints: Constraints) -> None:
        self.nodes = region.nodes
        self.constraints = constraints
        self.position = 0

    @property
    def is_done(self) -> bool:
        return self.position == len(self.nodes)

    def emit(self, op: Op, inputs: Sequence[Value], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Value, ...]:
        if self.is_done:
            raise _OtherNodeError
        node = self.nodes[self.position]
        self.position += 1
        types = [value.type for value in inputs]
        if node.op is not op or node.inputs != tuple(inputs) or _texts(node.attrs) != _texts(attrs):
            raise _OtherNodeError
        if op.decompose is not None and not regions:
            if len(node.regions) != 1 or not is_decomposition(node.regions[0], op, types, attrs, self.constraints):
                raise _OtherNodeError
        elif node.regions != tuple(regions):
            raise _OtherNodeError
        if op.output_types(types, attrs, node.regions) != tuple(value.type for value in node.outputs):
            raise _OtherNodeError
        return node.outputs


def _texts(attrs: Attrs) -> dict[str, str]:
    """The attributes as canonical text has them, in which two zeros differ and a NaN is itself."""
    return {key: format_attr(attr) for key, attr in attrs.items()}
