"""How each op's value is computed at an index, and which of a target's lowerings makes kernels of a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jitgraph.codegen.lower.building import Group, ScheduleBuilder
from jitgraph.codegen.lower.movement import MOVEMENT
from jitgraph.codegen.lower.schedules.strategies import LoweringStrategies
from jitgraph.codegen.lower.values import CREATION, Inline, elementwise_at
from jitgraph.ir.graph import Graph, Node
from jitgraph.ir.op import Kind, Lowering
from jitgraph.runtime import imports

_UPDATING: Final = "jitgraph.codegen.lower.updating"
_GATHERING: Final = "jitgraph.codegen.lower.gathering"  # imported, as reductions are, by the first graph that has some

INLINE: Final[Mapping[Kind | Lowering, Inline]] = {
    "elementwise": elementwise_at,
    **CREATION,
    **MOVEMENT,
    "gather": imports.function(_GATHERING, "gather_at"),
    "dynamic_slice": imports.function(_GATHERING, "dynamic_slice_at"),
    "dynamic_update_slice": imports.function(_GATHERING, "dynamic_update_slice_at"),
    "reduce": imports.function("jitgraph.codegen.lower.reduction", "reduced_at"),
}


def anchors_of(graph: Graph, strategies: LoweringStrategies) -> list[Node]:
    """The nodes of a group that have a loop nest of their own, which the nest of the group then is."""
    return [node for node in graph.nodes if node.op.lowering in strategies.anchors]


def lower_group(builder: ScheduleBuilder, group: Group, strategies: LoweringStrategies) -> None:
    """Append the kernels of a group: by its root op where it has one, else as rows or pointwise."""
    if any("bounds_checked" in node.op.traits for node in group.graph.nodes):
        group = imports.module(_GATHERING).check_indices(builder, group)
    roots = anchors_of(group.graph, strategies)
    if not roots and any(node.op.lowering == "dynamic_update_slice" for node in group.graph.nodes):
        updating = imports.module(_UPDATING)
        update = updating.slice_update_of(group)
        if update is not None and updating.is_copied_first(builder, group, update):
            updating.lower_slice_update(builder, group, update)
            return
    if roots:
        (root,) = roots
        strategies.anchors[root.op.lowering](builder, group, root)  # type: ignore[index]
    elif any(node.op.kind == "reduce" for node in group.graph.nodes):
        strategies.rows(builder, group)
    else:
        strategies.pointwise(builder, group)
