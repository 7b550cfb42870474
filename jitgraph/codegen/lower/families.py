"""Which lowering makes kernels of which op, and how each op's value is computed at an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from jitgraph.codegen.lower.building import Group, ScheduleBuilder
from jitgraph.codegen.lower.contraction import lower_conv, lower_dot
from jitgraph.codegen.lower.cumulative import lower_cumulative
from jitgraph.codegen.lower.indexing import INDEXING, check_indices, lower_check
from jitgraph.codegen.lower.movement import MOVEMENT
from jitgraph.codegen.lower.pointwise import lower_pointwise
from jitgraph.codegen.lower.reduction import REDUCTION
from jitgraph.codegen.lower.rows import lower_rows
from jitgraph.codegen.lower.scattering import lower_scatter
from jitgraph.codegen.lower.sorting import lower_sort
from jitgraph.codegen.lower.values import CREATION, Inline, elementwise_at
from jitgraph.ir.graph import Graph, Node
from jitgraph.ir.op import Kind, Lowering, Nest

LowerNest: TypeAlias = Callable[[ScheduleBuilder, Group, Node], None]

INLINE: Final[Mapping[Kind | Lowering, Inline]] = {
    "elementwise": elementwise_at,
    **CREATION,
    **MOVEMENT,
    **INDEXING,
    **REDUCTION,
}

NESTS: Final[Mapping[Nest, LowerNest]] = {
    "dot": lower_dot,
    "conv": lower_conv,
    "scatter": lower_scatter,
    "cumulative": lower_cumulative,
    "sort": lower_sort,
    "check": lower_check,
}


def roots_of(graph: Graph) -> list[Node]:
    """The nodes of a group that have a loop nest of their own, which the nest of the group then is."""
    return [node for node in graph.nodes if node.op.lowering in NESTS]


def lower_group(builder: ScheduleBuilder, group: Group) -> None:
    """Append the kernels of a group: by its root op where it has one, else as rows or pointwise."""
    group = check_indices(builder, group)
    roots = roots_of(group.graph)
    if roots:
        (root,) = roots
        NESTS[root.op.lowering](builder, group, root)  # type: ignore[index]
    elif any(node.op.kind == "reduce" for node in group.graph.nodes):
        lower_rows(builder, group)
    else:
        lower_pointwise(builder, group)
