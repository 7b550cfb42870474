"""What targets have in common: the lowerings of ops with nests of their own, and the axes of independent elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jitgraph.codegen.kernels.kernel import LoopKind
from jitgraph.codegen.lower.schedules.strategies import LowerGroup, LowerRoot
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Nest
from jitgraph.runtime import imports


def _by(module: str, name: str) -> Any:
    """A lowering whose module is imported by the first op that has such a nest; most graphs have few kinds."""
    return imports.function(f"jitgraph.codegen.lower.{module}", name)


ROOTS: Final[Mapping[Nest, LowerRoot]] = {
    "dot": _by("contraction", "lower_dot"),
    "conv": _by("contraction", "lower_conv"),
    "scatter": _by("scattering", "lower_scatter"),
    "cumulative": _by("cumulative", "lower_cumulative"),
    "sort": _by("sorting", "lower_sort"),
    "check": _by("gathering", "lower_check"),
}
ROWS: Final[LowerGroup] = _by("rows", "lower_rows")


def innermost_in_lanes(extents: Sequence[DimLike]) -> list[LoopKind]:
    """Outer axes are parallel, the innermost a vector."""
    outer: list[LoopKind] = ["parallel"] * (len(extents) - 1)
    return [*outer, "vector"] if extents else []
