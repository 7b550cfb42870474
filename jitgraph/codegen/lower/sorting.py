"""sort: short rows by merging, long ones by digits, the rows (all other axes) in parallel; both stable.

Merging: in pass p runs of 2**p elements are in order. Each element finds its place in the merged run by itself: its
place in its own run, plus the number of elements of the neighbouring run that come before it, found by bisection. Of
equal elements those of the left run come first. All elements at once, so it runs in lanes.

By digits (``Digits``): elements are put in order of the lowest bits of their keys, then of the next ones, and so on;
each pass keeps equal ones in the order in which they were. That takes as many steps for each element as its key has
digits, however long the row is.

A stable order is the only one of its kind, so which of the two makes it changes no bit. Two halves of a work buffer
take turns as source and target.
"""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes
from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import LoopKind, Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.digits import Digits
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.scalar_body import accumulator
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.codegen.lower.schedules.decisions import SortSizes
from jitgraph.codegen.lower.storage import Storage
from jitgraph.dtypes import bool_, int64
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import TensorType
from jitgraph.records import dataclass


def lower_sort(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """Values and int64 places in order; NaN counts as the greatest."""
    if is_empty(node.outputs[0].tensor):
        return
    x = node.inputs[0]
    axis: Any = node.attrs["axis"]
    extent = x.shape[axis]
    others = (*x.shape[:axis], *x.shape[axis + 1 :])
    work = (dims.product(others), 2, extent)
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    keys = builder.temporary(TensorType(x.dtype, work))
    places = None
    if any(value is not node.outputs[0] for value, _ in group.outputs):
        places = builder.temporary(TensorType(int64, work))
    kinds: list[LoopKind] = ["parallel"] * len(others)
    with recorder.loops(kinds, others) as at:
        row = offset(at, others) * 2 * extent
        with recorder.loop("vector", extent) as along:
            recorder.store(keys, row + along, values.at(x, (*at[:axis], along, *at[axis:])))
            if places is not None:
                recorder.store(places, row + along, recorder.index_value(along))
        half = _sorted(
            recorder, builder.decisions.sorting, keys, places, row, extent, descending=bool(node.attrs["descending"])
        )
        final = row + half * extent
        with recorder.loop("vector", extent) as along:
            for value, storage in group.outputs:
                source = keys if value is node.outputs[0] else places
                assert source is not None
                found = recorder.load(source, final + along, again=True)
                recorder.store(storage, offset((*at[:axis], along, *at[axis:]), x.shape), found)
    builder.launch(recorder, group.name)


def _sorted(
    recorder: KernelRecorder,
    sizes: SortSizes,
    keys: Storage,
    places: Storage | None,
    row: DimLike,
    extent: DimLike,
    *,
    descending: bool,
) -> DimLike:
    """Sort a row; gives the half of the work buffer, 0 or 1, in which it is then."""
    merge = _Merge(recorder, keys, places, row, extent, descending)
    digits = Digits(recorder, keys, places, row, extent, descending, sizes.digit_bits)
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
    recorder: KernelRecorder
    keys: Storage
    places: Storage | None
    row: DimLike
    extent: DimLike
    descending: bool

    def run_pass(self, turn: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
        """Merge neighbouring runs of 2**turn elements."""
        recorder = self.recorder
        ops = ScalarOps(recorder, int64)
        source = self.row + (turn % 2) * self.extent
        target = self.row + ((turn + 1) % 2) * self.extent
        width = ops.shl(ops.const(1), recorder.index_value(turn))
        size = recorder.index_value(self.extent)
        with recorder.loop("vector", self.extent) as along:
            place = recorder.index_value(along)
            key = recorder.load(self.keys, source + along, again=True)
            origin = recorder.load(self.places, source + along, again=True) if self.places is not None else None
            odd = ops.cmp("ne", ops.and_(ops.shr(place, recorder.index_value(turn)), ops.const(1)), ops.const(0))
            inside = ops.and_(place, ops.sub(width, ops.const(1)))  # the place in its own run
            own = ops.sub(place, inside)
            other = ops.select(odd, ops.sub(own, width), ops.min(ops.add(own, width), size))
            last = ops.select(odd, own, ops.min(ops.add(other, width), size))
            before = self._bisect(turn, source, key, odd, other, last)
            merged = ops.add(ops.add(ops.min(own, other), inside), ops.sub(before, other))
            # Without a right run ``other`` is the end, nothing comes before, and the run stays where it is.
            position = recorder.as_index(merged, self.extent)
            recorder.store(self.keys, target + position, key)
            if self.places is not None and origin is not None:
                recorder.store(self.places, target + position, origin)
        return ()

    def _bisect(self, turn: DimLike, source: DimLike, key: Var, odd: Var, first: Var, last: Var) -> Var:
        """The end of the elements in ``first .. last`` that come before ``key``, which is of the other run."""
        recorder = self.recorder
        ops = ScalarOps(recorder, int64)

        def step(_: DimLike, bounds: tuple[Var, ...]) -> tuple[Var, ...]:
            low, high = bounds
            active = ops.cmp("lt", low, high)
            middle = ops.shr(ops.add(low, high), ops.const(1))
            at = source + recorder.as_index(middle, self.extent)
            found = recorder.load(self.keys, at, active, again=True)
            logic = ScalarOps(recorder, bool_)
            # A key of the right run (odd) also comes after its equals in the left one.
            earlier = logic.select(odd, logic.not_(self._less(key, found)), self._less(found, key))
            up = logic.and_(active, earlier)
            down = logic.and_(active, logic.not_(earlier))
            return ops.select(up, ops.add(middle, ops.const(1)), low), ops.select(down, middle, high)

        low, _ = recorder.serial(turn + 1, (first, last), step)
        return low

    def _less(self, x: Var, y: Var) -> Var:
        """Whether ``x`` comes before ``y`` in the order of the sort, equal ones not."""
        if self.descending:
            x, y = y, x
        ops = ScalarOps(self.recorder, x.dtype)
        x, y = ops.cast(x, accumulator(x.dtype)), ops.cast(y, accumulator(y.dtype))
        less = ops.cmp("lt", x, y)
        if not dtypes.is_float(x.dtype):
            return less
        logic = ScalarOps(self.recorder, bool_)
        return logic.or_(less, logic.and_(ops.cmp("eq", x, x), ops.cmp("ne", y, y)))
