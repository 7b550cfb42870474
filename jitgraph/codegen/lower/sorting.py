"""sort: short rows by merging (``Runs``), long ones by digits, the rows (all other axes) in parallel; both stable.

By digits (``Digits``): elements are put in order of the lowest bits of their keys, then of the next ones, and so on;
each pass keeps equal ones in the order in which they were. That takes as many steps for each element as its key has
digits, however long the row is.

A stable order is the only one of its kind, so which of the two makes it changes no bit. Two halves of a work buffer
take turns as source and target. Where threads sort a row together it is done by launches (``TiledSort``).
"""

from __future__ import annotations

from typing import Any

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import LoopKind, Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.digits import Digits
from jitgraph.codegen.lower.merging import PAIRS, Runs
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.codegen.lower.schedules.heuristics import SortSizes, SortTiles
from jitgraph.codegen.lower.storage import Storage
from jitgraph.codegen.lower.tiled_sort import lower_by_tiles
from jitgraph.dtypes import int64
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import TensorType
from jitgraph.records import dataclass


def lower_sort(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """Values and int64 places in order; NaN counts as the greatest."""
    if is_empty(node.outputs[0].tensor):
        return
    sizes = builder.decisions.sorting
    if isinstance(sizes, SortTiles):
        lower_by_tiles(builder, group, node, sizes)
        return
    x = node.inputs[0]
    axis: Any = node.attrs["axis"]
    extent = x.shape[axis]
    others = (*x.shape[:axis], *x.shape[axis + 1 :])
    work = (dims.product(others), 2, extent)
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    keys = builder.temporary(TensorType(x.dtype, work))
    origins = None
    if any(value is not node.outputs[0] for value, _ in group.outputs):
        origins = builder.temporary(TensorType(int64, work))
    kinds: list[LoopKind] = ["parallel"] * len(others)
    with recorder.loops(kinds, others) as at:
        row = offset(at, others) * 2 * extent
        with recorder.loop("vector", extent) as along:
            recorder.store(keys, row + along, values.at(x, (*at[:axis], along, *at[axis:])))
            if origins is not None:
                recorder.store(origins, row + along, recorder.index_value(along))
        half = _sorted(recorder, sizes, keys, origins, row, extent, descending=bool(node.attrs["descending"]))
        final = row + half * extent
        with recorder.loop("vector", extent) as along:
            for value, storage in group.outputs:
                source = keys if value is node.outputs[0] else origins
                assert source is not None
                element = recorder.load(source, final + along, again=True)
                recorder.store(storage, offset((*at[:axis], along, *at[axis:]), x.shape), element)
    builder.launch(recorder, group.name)


def _sorted(
    recorder: KernelRecorder,
    sizes: SortSizes,
    keys: Storage,
    origins: Storage | None,
    row: DimLike,
    extent: DimLike,
    *,
    descending: bool,
) -> DimLike:
    """Sort a row; gives the half of the work buffer, 0 or 1, in which it is then."""
    merge = _Merge(recorder, keys, origins, row, extent, descending)
    digits = Digits(recorder, keys, origins, row, extent, descending, sizes.digit_bits)
    if isinstance(extent, int):
        if extent > sizes.longest_merged:
            return digits.sort(1)
        passes = _passes(recorder, extent)
        recorder.serial(passes, (), merge.run_pass)
        return passes % 2
    ops = ScalarOps(recorder, int64)
    long = ops.cast(ops.cmp("gt", recorder.index_value(extent), ops.const(sizes.longest_merged)), int64)
    is_long = recorder.as_index(long, 2)
    is_short = recorder.as_index(ops.sub(ops.const(1), long), 2)
    passes = recorder.as_index(recorder.index_value(_passes(recorder, extent) * is_short), 63)
    recorder.serial(passes, (), merge.run_pass)
    half = digits.sort(is_long)
    return recorder.as_index(recorder.index_value(is_long * half + is_short * (passes % 2)), 2)


def _passes(recorder: KernelRecorder, extent: DimLike) -> DimLike:
    """How often runs double until one holds ``extent`` elements."""
    if isinstance(extent, int):
        return max(extent - 1, 0).bit_length()
    ops = ScalarOps(recorder, int64)
    size = recorder.index_value(extent)

    def doubling(turn: DimLike) -> tuple[Var, ...]:
        width = ops.shl(ops.const(1), recorder.index_value(turn))
        return (ops.cast(ops.cmp("lt", width, size), int64),)

    (count,) = recorder.reduce(62, (ops.const(0),), doubling, lambda s, x, y: (s.add(x[0], y[0]),), 1)
    return recorder.as_index(count, 63)


@dataclass(frozen=True)
class _Merge:
    """Passes over one row, between the halves of the work buffer."""

    recorder: KernelRecorder
    keys: Storage
    places: Storage | None
    row: DimLike
    extent: DimLike
    descending: bool

    def run_pass(self, turn: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
        """Merge neighbouring runs of 2**turn elements."""
        recorder = self.recorder
        source = self.row + (turn % 2) * self.extent
        target = self.row + ((turn + 1) % 2) * self.extent
        size = recorder.index_value(self.extent)
        runs = Runs(recorder, self.keys.type.dtype, self.extent, size, self.descending, PAIRS)
        with recorder.loop("vector", self.extent) as along:
            key = recorder.load(self.keys, source + along, again=True)
            origin = recorder.load(self.places, source + along, again=True) if self.places is not None else None
            merged = runs.merged(
                turn, along, key, lambda at, mask: recorder.load(self.keys, source + at, mask, again=True)
            )
            position = recorder.as_index(merged, self.extent)
            recorder.store(self.keys, target + position, key)
            if self.places is not None and origin is not None:
                recorder.store(self.places, target + position, origin)
        return ()
