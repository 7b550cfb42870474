"""How many rows and columns a block has of sums by weights: what shared memory, registers and the lengths allow."""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cuda.attend_products import ROWS, layout_of, weights_pitch
from jitgraph.codegen.cuda.unravel import ceil_div
from jitgraph.codegen.cuda.warp import WARP
from jitgraph.codegen.kernels.kernel import Attend
from jitgraph.codegen.llvm.structure import length
from jitgraph.dtypes import DType, float32
from jitgraph.errors import CompileError
from jitgraph.ir.dims import DimLike
from jitgraph.ir.target import Target
from jitgraph.records import dataclass


@dataclass(frozen=True)
class AttendTiles:
    """A block of ``warps``, each with sixteen rows, that takes ``inner`` columns at a time."""

    warps: int
    inner: int

    @property
    def rows(self) -> int:
        return ROWS * self.warps

    @property
    def threads(self) -> int:
        return WARP * self.warps


_TILES: Final = tuple(
    AttendTiles(warps, inner) for warps in (4, 2, 1) for inner in (64, 32, 16, 8) if (warps, inner) != (4, 8)
)
"""The best first: more rows for each column that is read, then more columns for each barrier."""

_MOST_NUMBERS: Final = 160
"""Of sums and products in a thread, so that they stay in registers."""

_MOST_INSTRUCTIONS: Final = 1024
"""That weigh the products of a tile in a thread, one by one: random numbers take many."""


def tiles_of(attend: Attend, target: Target) -> tuple[AttendTiles, DimLike]:
    """The best tiles for which there are shared memory, registers and rows, and how many of them there are."""
    layout, itemsize, rows = layout_of(dtype_of(attend)), dtype_of(attend).itemsize, attend.extents[0]
    weighing = length(attend.score.body) + length(attend.derived)
    for tiles in _TILES:
        short = isinstance(rows, int) and rows <= tiles.rows - ROWS
        long = tiles.inner > layout.step and tiles.inner // 2 * weighing > _MOST_INSTRUCTIONS
        if tiles.inner % layout.step or short or long:
            continue
        elements = sum(tiles.rows * layout.pitch(one.extent) for one in attend.rows)
        elements += sum(tiles.inner * layout.pitch(one.extent) for one in attend.columns)
        elements += tiles.rows * weights_pitch(tiles.inner) if dtype_of(attend) == float32 else 0
        numbers = sum(layout.filled(attend.columns[one.factor].extent) // 2 for one in attend.sums)
        numbers += len(attend.products) * tiles.inner // 2
        if elements * itemsize <= target.l1_bytes and numbers <= _MOST_NUMBERS:
            return tiles, ceil_div(rows, tiles.rows)
    raise CompileError("a block has too little shared memory for rows of this many columns")


def dtype_of(attend: Attend) -> DType:
    """That of all factors."""
    return attend.rows[0].operand.value.dtype
