"""What targets have in common: the lowerings of ops with nests of their own, and the axes of independent elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from jitgraph.codegen.kernels.kernel import LoopKind
from jitgraph.codegen.lower.contraction import lower_conv, lower_dot
from jitgraph.codegen.lower.cumulative import lower_cumulative
from jitgraph.codegen.lower.gathering import lower_check
from jitgraph.codegen.lower.scattering import lower_scatter
from jitgraph.codegen.lower.schedules.nests import LowerRoot
from jitgraph.codegen.lower.sorting import lower_sort
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Nest

ROOTS: Final[Mapping[Nest, LowerRoot]] = {
    "dot": lower_dot,
    "conv": lower_conv,
    "scatter": lower_scatter,
    "cumulative": lower_cumulative,
    "sort": lower_sort,
    "check": lower_check,
}


def innermost_in_lanes(extents: Sequence[DimLike]) -> list[LoopKind]:
    """Outer axes are parallel, the innermost a vector."""
    outer: list[LoopKind] = ["parallel"] * (len(extents) - 1)
    return [*outer, "vector"] if extents else []
