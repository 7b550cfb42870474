"""Which lowering makes kernels of which op, and how each op's value is computed at an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from jitgraph.codegen.lower.building import Group, ScheduleBuilder
from jitgraph.codegen.lower.contraction import lower_conv, lower_dot
from jitgraph.codegen.lower.cumulative import CUMULATIVE, lower_cumulative
from jitgraph.codegen.lower.indexing import INDEXING, check_indices, lower_check
from jitgraph.codegen.lower.movement import MOVEMENT
from jitgraph.codegen.lower.pointwise import lower_pointwise
from jitgraph.codegen.lower.reduction import REDUCTION
from jitgraph.codegen.lower.rows import lower_rows
from jitgraph.codegen.lower.scattering import lower_scatter
from jitgraph.codegen.lower.sorting import lower_sort
from jitgraph.codegen.lower.values import CREATION, Inline, elementwise_at

Lower: TypeAlias = Callable[[ScheduleBuilder, Group], None]

INLINE: Final[Mapping[str, Inline]] = {
    "elementwise": elementwise_at,
    **CREATION,
    **MOVEMENT,
    **INDEXING,
    **REDUCTION,
}

ROOTS: Final[Mapping[str, Lower]] = {
    "dot": lower_dot,
    "conv": lower_conv,
    "scatter": lower_scatter,
    "scatter_add": lower_scatter,
    **dict.fromkeys(CUMULATIVE, lower_cumulative),
    "sort": lower_sort,
    "check": lower_check,
}


def lower_group(builder: ScheduleBuilder, group: Group) -> None:
    """Append the kernels of a group: by its root op where it has one, else as rows or pointwise."""
    group = check_indices(builder, group)
    roots = [node.op.name for node in group.graph.nodes if node.op.name in ROOTS]
    if roots:
        (root,) = roots
        ROOTS[root](builder, group)
    elif any(node.op.kind == "reduce" for node in group.graph.nodes):
        lower_rows(builder, group)
    else:
        lower_pointwise(builder, group)
