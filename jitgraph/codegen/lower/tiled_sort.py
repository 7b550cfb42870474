"""A stable sort by launches: tiles of rows are sorted in memory that threads share, then all elements merge at once.

A merge makes one run of four (``Runs``). Between launches elements lie in one of two halves of a work buffer. Where the
extent is a name, merges come in pairs, which leave the elements in the first half, and a pair that the extent does not
need has no iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import LoopKind, Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder
from jitgraph.codegen.lower.merging import FOURS, Runs
from jitgraph.codegen.lower.movement import below
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.codegen.lower.schedules.heuristics import SortTiles
from jitgraph.codegen.lower.values import Index
from jitgraph.dtypes import DType, int32, int64
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import Shape, TensorType

Read = Callable[[Index, DimLike, "Var | None"], Var]
"""The element of a row at a place, where a mask holds."""

Write = Callable[[Index, DimLike, Var, "Var | None", "Var | None"], None]
"""What to do with the element that comes to lie at a place of a row: its key, where it came from, and a mask."""

_MOST: Final = 1 << 36
"""Elements that a row of unknown extent has at most: more fill any memory."""


def lower_by_tiles(builder: ScheduleBuilder, group: Group, node: Node, sizes: SortTiles) -> None:
    """Values and int64 places in order, as one kernel."""
    x = node.inputs[0]
    axis: Any = node.attrs["axis"]
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    rows = (*x.shape[:axis], *x.shape[axis + 1 :])
    with_places = any(value is not node.outputs[0] for value, _ in group.outputs)
    sort = TiledSort(builder, recorder, x.dtype, rows, x.shape[axis], sizes.elements, with_places)

    def at(row: Index, position: DimLike) -> Index:
        return (*row[:axis], position, *row[axis:])

    def write(row: Index, position: DimLike, key: Var, origin: Var | None, mask: Var | None) -> None:
        for value, storage in group.outputs:
            element = key if value is node.outputs[0] else origin
            assert element is not None
            new = ScalarOps(recorder, element.dtype).cast(element, value.tensor.dtype)
            recorder.store(storage, offset(at(row, position), x.shape), new, mask)

    sort.run(
        lambda row, place, mask: values.at(x, at(row, place), mask), write, descending=bool(node.attrs["descending"])
    )
    builder.launch(recorder, group.name)


class TiledSort:
    """Sorts ``rows`` of ``extent`` elements in tiles of ``tile``, with where each came from if ``with_places``."""

    def __init__(
        self,
        builder: ScheduleBuilder,
        recorder: KernelRecorder,
        dtype: DType,
        rows: Shape,
        extent: DimLike,
        tile: int,
        with_places: bool,
    ) -> None:
        self.recorder, self.dtype, self.rows, self.extent = recorder, dtype, rows, extent
        self.kinds = builder.decisions.independent
        self.with_places = with_places
        self.tile = min(tile, extent) if isinstance(extent, int) else tile
        self.passes = -(-(self.tile - 1).bit_length() // FOURS)
        """In a tile."""
        most = extent if isinstance(extent, int) else _MOST
        self.place_dtype = int32 if most < 1 << 31 else int64
        self.merges = 0
        """Launches that merge."""
        while self.tile << (FOURS * self.merges) < most:
            self.merges += 1
        if not isinstance(extent, int):
            self.merges += self.merges % 2
        if self.merges:
            work = (*rows, 2, extent)
            self.keys = builder.temporary(TensorType(dtype, work))
            self.places = builder.temporary(TensorType(self.place_dtype, work)) if with_places else None

    def run(self, read: Read, write: Write, *, descending: bool) -> None:
        """Write the nests."""
        self._sort_tiles(read, self._keep(0) if self.merges else write, descending=descending)
        for turn in range(self.merges):
            last = turn == self.merges - 1 and isinstance(self.extent, int)
            self._merge(turn, write if last else self._keep((turn + 1) % 2), descending=descending)
        if self.merges and not isinstance(self.extent, int):
            with self.recorder.loops(self.kinds((*self.rows, self.extent)), (*self.rows, self.extent)) as (*row, index):
                write(tuple(row), index, *self._kept(0, tuple(row), index), None)

    def _sort_tiles(self, read: Read, write: Write, *, descending: bool) -> None:
        recorder, tile, extent = self.recorder, self.tile, self.extent
        ops = ScalarOps(recorder, int64)
        is_exact = isinstance(extent, int) and extent % tile == 0
        tiles = (extent + (tile - 1)) // tile
        kinds: list[LoopKind] = ["parallel"] * (len(self.rows) + 1)
        with recorder.loops(kinds, (*self.rows, tiles)) as (*row, number):
            begin = number * tile
            keys = [recorder.local(self.dtype, tile) for _ in range(1 + min(self.passes, 1))]
            origins = [recorder.local(int32, tile) for _ in keys] if self.with_places else None
            size = ops.const(tile) if is_exact else ops.min(recorder.index_value(extent - begin), ops.const(tile))
            runs = Runs(recorder, self.dtype, tile, size, descending, FOURS)

            @contextmanager
            def elements() -> Iterator[tuple[DimLike, Var | None]]:
                with recorder.loop("vector", tile) as along:
                    yield along, None if is_exact else below(recorder, begin + along, extent)

            with elements() as (along, mask):
                recorder.store_local(keys[0], along, read(tuple(row), begin + along, mask), mask)
                if origins is not None:
                    recorder.store_local(origins[0], along, ops.cast(recorder.index_value(along), int32), mask)
            for turn in range(self.passes):
                source, target = turn % 2, (turn + 1) % 2
                with elements() as (along, mask):
                    key = recorder.load_local(keys[source], along, mask)
                    merged = runs.merged(turn, along, key, partial(recorder.load_local, keys[source]))
                    position = recorder.as_index(merged, tile)
                    recorder.store_local(keys[target], position, key, mask)
                    if origins is not None:
                        origin = recorder.load_local(origins[source], along, mask)
                        recorder.store_local(origins[target], position, origin, mask)
            half = self.passes % 2
            with elements() as (along, mask):
                where = None
                if origins is not None:
                    inside = ops.cast(recorder.load_local(origins[half], along, mask), int64)
                    where = ops.cast(ops.add(inside, recorder.index_value(begin)), self.place_dtype)
                write(tuple(row), begin + along, recorder.load_local(keys[half], along, mask), where, mask)

    def _merge(self, turn: int, write: Write, *, descending: bool) -> None:
        """One run of each four; of a pair of turns neither has iterations where runs are longer than the row."""
        recorder, extent = self.recorder, self.extent
        some: DimLike = 1
        if not isinstance(extent, int):
            longest = self.tile << (FOURS * (turn - turn % 2))
            some = 1 - 1 // (extent // (longest + 1) + 1)
        extents = (some, *self.rows, extent)
        with recorder.loops(self.kinds(extents), extents) as (_, *row, position):
            key, origin = self._kept(turn % 2, tuple(row), position)
            runs = Runs(recorder, self.dtype, extent, recorder.index_value(extent), descending, FOURS)

            def look_up(at: DimLike, mask: Var) -> Var:
                return recorder.load(self.keys, self._place(turn % 2, tuple(row), at), mask, again=True)

            merged = runs.merged(turn + self.passes, position, key, look_up)
            write(tuple(row), recorder.as_index(merged, extent), key, origin, None)

    def _place(self, half: int, row: Index, position: DimLike) -> DimLike:
        return offset((*row, half, position), self.keys.type.shape)

    def _kept(self, half: int, row: Index, position: DimLike) -> tuple[Var, Var | None]:
        """The element at a place of a half, and where it came from."""
        recorder, at = self.recorder, self._place(half, row, position)
        origin = recorder.load(self.places, at, again=True) if self.places is not None else None
        return recorder.load(self.keys, at, again=True), origin

    def _keep(self, half: int) -> Write:
        """Store to a half of the work buffer."""

        def write(row: Index, position: DimLike, key: Var, origin: Var | None, mask: Var | None) -> None:
            at = self._place(half, row, position)
            self.recorder.store(self.keys, at, key, mask)
            if self.places is not None and origin is not None:
                self.recorder.store(self.places, at, origin, mask)

        return write
