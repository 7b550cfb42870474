"""Which contractions a library computes, where a target has one."""

from __future__ import annotations

from typing import Final

from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass


@dataclass(frozen=True)
class LibraryProducts:
    """Those of sides and steps of ``least_side`` or more, and of ``least_work`` multiply-adds."""

    least_side: int
    least_work: int


LARGE: Final = LibraryProducts(least_side=64, least_work=1 << 27)
"""Of a product of 512 x 512 x 512 a kernel's start and end are a small part."""


def is_large(sizes: LibraryProducts, around: DimLike, extents: tuple[DimLike, DimLike, DimLike]) -> bool:
    """Whether as many contractions as ``around``, of these extents, are such ones."""
    sides, total = [extent for extent in extents if isinstance(extent, int)], dims.product((around, *extents))
    return isinstance(total, int) and len(sides) == 3 and min(sides) >= sizes.least_side and total >= sizes.least_work
