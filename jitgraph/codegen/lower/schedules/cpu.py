"""The processor's loop nests: threads over outer axes, lanes over the innermost, and sizes that fit its caches.

They are the same for every level of x86-64.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.lower.building import lower_pointwise
from jitgraph.codegen.lower.schedules.heuristics import (
    ColumnBlocks,
    ConvolutionCopies,
    Heuristics,
    ImagesTogether,
    IndexSetSplitting,
    RowMaterialisation,
    SortSizes,
    SplitReductionSizes,
    TransposedSquares,
)
from jitgraph.codegen.lower.schedules.strategies import (
    ON_PROCESSORS,
    ROOTS,
    ROWS,
    LoweringStrategies,
    innermost_in_lanes,
)

SQUARE_SIDES: Final = (8, 16, 32)
"""Sides of transposed squares: registers and parts of them, and 8 KB of local memory for 64-bit elements."""

CPU: Final = LoweringStrategies(
    anchors={**ROOTS, **ON_PROCESSORS},
    rows=ROWS,
    pointwise=lower_pointwise,
    heuristics=Heuristics(
        independent=innermost_in_lanes,
        slot_bytes=128,  # some registers
        # With the row that is read and the one written, kept rows fit the second-level cache.
        row_materialisation=RowMaterialisation(
            most_bytes=256 << 10,
            lane_bytes=64,  # a register
            least_work=10.0,  # from which on a store and a load are cheaper
            work={"const": 0.0, "call": 20.0, "div": 8.0, "rem": 16.0, "sqrt": 8.0},
        ),
        split_reductions=SplitReductionSizes(
            few_rows=8,
            least_run=256,
            many_runs=64,  # enough for threads to share
            least_elements=1 << 14,
            max_splits=1 << 12,
            named_columns=64,
            column_threads=None,
            folded=False,
            one_pass=False,
            tile=None,
        ),
        columns=ColumnBlocks(
            least_columns=64,  # from which on the order of memory is worth the accumulators' loads and stores
            rows_together=8,
            chunks=8,  # what a part stores is then less than a hundredth of what it reads
            least_elements=1 << 14,
            most_bytes=192 << 10,  # they stay in the caches
            min_splits=4,
            max_splits=1 << 17,
        ),
        squares=TransposedSquares(sides=SQUARE_SIDES, most=3, most_statements=80),
        tiles=None,
        # The counts of digits take a while to clear.
        sorting=SortSizes(longest_merged=40, digit_bits=8),
        scattering=None,  # updates are made one after another, in few instructions each
        rows_in_chunks=None,
        products=None,  # threads share their steps nowhere
        library=None,
        # Longer runs of places, and elements of 16 bits, are read faster within an image; smaller weights are packed in
        # no time.
        images=ImagesTogether(most_places=16, least_channels=32, least_steps=128, least_bytes=4),
        convolutions=ConvolutionCopies(
            vector=16,
            least_vector=4,
            least_uses=256,
            columns=384,
            few_uses=4,
            least_channels=2,
            least_images=8,
            least_places=48,
            few_places=24,
            least_steps=16,
            least_sums=32,
            part_bytes=512 << 10,  # half of the second-level cache
            most_sum_bytes=8 << 20,
            most_unrolled_steps=49,
        ),
        lane_cuts=IndexSetSplitting(least=8, most_statements=240),  # a vector of float32; a few ms of LLVM
        random_blocks=True,
    ),
)
