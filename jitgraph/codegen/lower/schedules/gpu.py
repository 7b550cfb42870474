"""The loop nests of GPUs: a thread for each element, a warp or a block for each row, and no work but what is parallel.

They are the same for every NVIDIA GPU. Sizes are those of one block: its threads and its shared memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from jitgraph.codegen.kernels.library_sizes import LARGE
from jitgraph.codegen.lower.attention import lower_attention, lower_attention_gradient
from jitgraph.codegen.lower.building import lower_pointwise
from jitgraph.codegen.lower.schedules.heuristics import (
    Heuristics,
    RowMaterialisation,
    Scattering,
    SharedTiles,
    SortTiles,
    SplitK,
    SplitReductionSizes,
)
from jitgraph.codegen.lower.schedules.strategies import ROOTS, ROWS, LoweringStrategies, innermost_in_lanes

_SCATTERING: Final = Scattering(few=16, tile=1 << 10, any_order=False)

# A part is a block's, and there are enough of them to fill the device.
_PARTS: Final = SplitReductionSizes(
    few_rows=64,
    least_run=2,
    many_runs=64,
    least_elements=1 << 13,
    max_splits=1 << 10,  # one block merges those of a row
    named_columns=64,
    column_threads=1 << 18,
    folded=False,
    one_pass=True,
    tile=32,  # as many as a warp has lanes
)

GPU: Final = LoweringStrategies(
    anchors={**ROOTS, "attention": lower_attention, "attention_gradient": lower_attention_gradient},
    rows=ROWS,
    pointwise=lower_pointwise,
    heuristics=Heuristics(
        independent=innermost_in_lanes,
        slot_bytes=256,  # of a warp
        row_materialisation=RowMaterialisation(
            most_bytes=24 << 10,  # of shared memory, so that two blocks stand side by side
            lane_bytes=24 << 10,  # a thread has no memory of its own but registers
            least_work=4.0,
            work={"const": 0.0, "call": 20.0, "div": 8.0, "rem": 16.0, "sqrt": 8.0},
        ),
        split_reductions=_PARTS,
        columns=None,
        squares=None,
        tiles=SharedTiles(side=32, most=4),  # as many as a warp has lanes
        sorting=SortTiles(elements=1 << 10),  # with their places they fit a block twice
        scattering=_SCATTERING,
        rows_in_chunks=1 << 15,  # more fill the device
        # A tile's block is one of two or more that stand side by side on each of a hundred processors or so. Merging
        # is one launch more, which takes as long as some hundreds of steps.
        products=SplitK(side=64, tiles=128, least_steps=1536),
        library=None,
        images=None,
        convolutions=None,
        lane_cuts=None,
        random_blocks=False,
    ),
)

GPU_IN_ANY_ORDER: Final = replace(
    GPU,
    heuristics=replace(
        GPU.heuristics, split_reductions=replace(_PARTS, folded=True), scattering=replace(_SCATTERING, any_order=True)
    ),
)
"""For targets whose sums go in any order."""

GPU_WITH_LIBRARY: Final = replace(GPU_IN_ANY_ORDER, heuristics=replace(GPU_IN_ANY_ORDER.heuristics, library=LARGE))
"""For those of them that have a library for large products."""
