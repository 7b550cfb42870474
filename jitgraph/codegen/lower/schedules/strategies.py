"""Who writes the loop nests of a target: a lowering for each op that has a nest of its own, and for other groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from jitgraph.codegen.lower.building import Group, ScheduleBuilder
from jitgraph.codegen.lower.schedules.heuristics import Heuristics
from jitgraph.ir.graph import Node
from jitgraph.ir.op import Nest
from jitgraph.records import dataclass

LowerRoot: TypeAlias = Callable[[ScheduleBuilder, Group, Node], None]
LowerGroup: TypeAlias = Callable[[ScheduleBuilder, Group], None]


@dataclass(frozen=True)
class LoweringStrategies:
    """The lowerings of a target and what they go by.

    ``anchors`` lower a group by the one op in it that has a nest of its own, ``rows`` one of reductions that share
    their rows, ``pointwise`` any other. UnsupportedOp is raised for an op whose nest is not among ``anchors``.
    """

    anchors: Mapping[Nest, LowerRoot]
    rows: LowerGroup
    pointwise: LowerGroup
    heuristics: Heuristics
