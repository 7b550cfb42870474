"""Another backend, all of it in this file: it decides otherwise than the processor, and the slow executor runs it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from jitgraph.codegen.backend import Code, Stage
from jitgraph.codegen.kernels.kernel import LoopKind
from jitgraph.codegen.kernels.library_sizes import LibraryProducts
from jitgraph.codegen.kernels.schedule import Schedule
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.schedules.heuristics import (
    ColumnBlocks,
    ConvolutionCopies,
    Heuristics,
    ImagesTogether,
    IndexSetSplitting,
    Scattering,
    SharedTiles,
    SortSizes,
    SplitK,
    SplitReductionSizes,
    TransposedSquares,
)
from jitgraph.codegen.lower.schedules.strategies import LoweringStrategies
from jitgraph.codegen.lower.select import select
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.runtime import loader
from jitgraph.runtime.executable import Executable
from jitgraph_testing.kernels.schedule_executor import execute_schedule


def outermost_in_lanes(extents: Sequence[DimLike]) -> list[LoopKind]:
    """The outermost axis is a vector, and inner ones are walked in each lane."""
    return ["vector" if axis == 0 else "serial" for axis in range(len(extents))]


SLOW = LoweringStrategies(
    anchors=CPU.anchors,
    rows=CPU.rows,
    pointwise=CPU.pointwise,
    heuristics=Heuristics(
        independent=outermost_in_lanes,
        slot_bytes=16,
        row_materialisation=None,
        split_reductions=SplitReductionSizes(
            few_rows=3,
            least_run=4,
            many_runs=5,
            least_elements=64,
            max_splits=7,
            named_columns=5,
            column_threads=16,
            folded=False,
            one_pass=True,
            tile=4,
        ),
        columns=ColumnBlocks(
            least_columns=2,
            rows_together=4,
            chunks=2,
            least_elements=32,
            most_bytes=1 << 12,
            min_splits=2,
            max_splits=5,
        ),
        squares=TransposedSquares(sides=(2, 4), most=2, most_statements=30),
        tiles=SharedTiles(side=4, most=2),
        sorting=SortSizes(longest_merged=3, digit_bits=4),
        scattering=Scattering(few=2, tile=4, any_order=False),
        rows_in_chunks=7,
        products=SplitK(side=64, tiles=8, least_steps=800),
        library=LibraryProducts(least_side=5, least_work=900),
        images=ImagesTogether(most_places=5, least_channels=2, least_steps=3, least_bytes=2),
        convolutions=ConvolutionCopies(
            vector=4,
            least_vector=1,
            least_uses=40,
            columns=16,
            few_uses=1,
            least_channels=2,
            least_images=2,
            least_places=7,
            few_places=2,
            least_steps=8,
            least_sums=2,
            part_bytes=512,
            most_sum_bytes=1 << 12,
            most_unrolled_steps=4,
        ),
        lane_cuts=IndexSetSplitting(least=2, most_statements=1000),
        random_blocks=False,
    ),
)


@dataclass(frozen=True, kw_only=True)
class Kernels(Code):
    """Code that is a schedule, to be executed as it stands."""

    schedule: Schedule


class Executed(Executable):
    """A schedule that the executor runs, call by call."""

    def __init__(self, schedule: Schedule, signature: loader.Signature) -> None:
        self.schedule, self.signature, self.image = schedule, signature, b""

    def run(self, buffers: Sequence[Any], donate: Iterable[int] = ()) -> list[loader.Array]:
        return execute_schedule(self.schedule, buffers)


class SlowBackend:
    """Kernels in the executor, in ``SLOW`` nests unless others are given."""

    name = "slow"
    alignment = 256
    reads_again = False

    def __init__(self, nests: LoweringStrategies = SLOW) -> None:
        self.nests = nests

    def schedule(self, graph: Graph, target: Target, given_away: Collection[int] = ()) -> Schedule:
        return select(graph, self.nests, fastmath=target.fastmath, given_away=given_away)

    def emit(self, schedule: Schedule, target: Target, stage: Stage) -> Code:
        with stage("nothing"):
            return Kernels(b"", schedule=schedule)

    def load(self, code: Code, signature: loader.Signature, target: Target) -> Executable:
        assert isinstance(code, Kernels)
        return Executed(code.schedule, signature)
