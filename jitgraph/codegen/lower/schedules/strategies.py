"""The lowering strategies of a target: one for each op with loops of its own, and those of other groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from jitgraph.codegen.kernels.kernel import LoopKind
from jitgraph.codegen.lower.building import Group, ScheduleBuilder
from jitgraph.codegen.lower.schedules.heuristics import Heuristics
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.op import Nest
from jitgraph.records import dataclass
from jitgraph.runtime import imports

# ----------------------------------------------------------------------
# Who writes the loop nests of a target: a lowering for each op that has a nest of its own, and for other groups.

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


# ----------------------------------------------------------------------
# What targets have in common: the lowerings of ops with nests of their own, and the axes of independent elements.


def _by(module: str, name: str) -> Any:
    """A lowering whose module is imported by the first op that has such a nest; most graphs have few kinds."""
    return imports.function(f"jitgraph.codegen.lower.{module}", name)


ROOTS: Final[Mapping[Nest, LowerRoot]] = {
    "dot": _by("contraction", "lower_dot"),
    "conv": _by("convolution", "lower_conv"),
    "scatter": _by("scattering", "lower_scatter"),
    "cumulative": _by("cumulative", "lower_cumulative"),
    "sort": _by("sorting", "lower_sort"),
    "check": _by("gathering", "lower_check"),
}
ON_PROCESSORS: Final[Mapping[Nest, LowerRoot]] = {
    "dft": _by("fourier", "lower_dft"),
    "dft_of_real": _by("fourier", "lower_dft_of_real"),
    "dft_to_real": _by("fourier", "lower_dft_to_real"),
    "search": _by("searching", "lower_search"),
    "slide": _by("sliding", "lower_slide"),
    "first_positions": _by("selecting", "lower_first_positions"),
    "ranked_positions": _by("ranking", "lower_ranked_positions"),
}
ROWS: Final[LowerGroup] = _by("rows", "lower_rows")


def innermost_in_lanes(extents: Sequence[DimLike]) -> list[LoopKind]:
    """Outer axes are parallel, the innermost a vector."""
    outer: list[LoopKind] = ["parallel"] * (len(extents) - 1)
    return [*outer, "vector"] if extents else []
