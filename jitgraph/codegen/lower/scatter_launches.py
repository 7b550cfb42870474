"""scatter and scatter_add where iterations are many threads, whatever the indices are: each a few launches.

- The last of the updates to one element stays: the greatest of their numbers is found first, in any order, and then
  each element of the result is the operand's or that update's.
- Sums that are the same in any order are updates of the result's memory.
- Sums that have an order: the numbers of the updates are sorted by their indices, stably, so that those of one element
  stand side by side in their order, and each element of the result adds its own.
"""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes
from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import LoopKind, Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder
from jitgraph.codegen.lower.gathering import wrapped
from jitgraph.codegen.lower.merging import bisected
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.scalar_body import accumulator
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.codegen.lower.schedules.decisions import Scattering
from jitgraph.codegen.lower.tiled_sort import TiledSort
from jitgraph.codegen.lower.values import Index
from jitgraph.dtypes import DType, int32, int64
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import TensorType


def lower_by_launches(builder: ScheduleBuilder, group: Group, node: Node, sizes: Scattering) -> None:
    """One kernel for a scatter or a scatter_add, neither of whose operands is known to be empty."""
    launches = _Launches(builder, group, node)
    if node.op.reduction is None:
        launches.keep_the_last()
    elif sizes.any_order or not dtypes.is_float(node.output.dtype):
        launches.update()
    else:
        launches.add_in_order(sizes.tile)
    builder.launch(launches.recorder, group.name)


def _counter(most: DimLike) -> DType:
    """A dtype for numbers up to ``most``."""
    return int32 if isinstance(most, int) and most < 1 << 31 else int64


class _Launches:
    def __init__(self, builder: ScheduleBuilder, group: Group, node: Node) -> None:
        self.builder, self.group, self.node = builder, group, node
        self.recorder = KernelRecorder()
        self.values = builder.evaluator(self.recorder, group)
        self.kinds = builder.decisions.independent
        self.x, self.indices, self.updates = node.inputs
        axis: Any = node.attrs["axis"]
        self.axis: int = axis
        self.shape = self.x.shape
        self.extent = self.shape[axis]
        self.count = dims.product(self.indices.shape)

    def _position(self, number: DimLike, mask: Var | None) -> DimLike:
        """Where along the axis an update goes, by its number."""
        index = self.values.at(self.indices, self.recorder.ranges.split(number, self.indices.shape), mask)
        check = self.node not in self.group.checked
        return wrapped(self.values, self.node, index, self.extent, mask, check=check)

    def _update(self, number: DimLike, at: Index, mask: Var | None) -> Var:
        """The element of an update for an element of the result at ``at``."""
        place = self.recorder.ranges.split(number, self.indices.shape)
        return self.values.at(self.updates, (*at[: self.axis], *place, *at[self.axis + 1 :]), mask)

    def _store(self, at: Index, value: Var) -> None:
        for _, storage in self.group.outputs:
            new = ScalarOps(self.recorder, value.dtype).cast(value, storage.type.dtype)
            self.recorder.store(storage, offset(at, self.shape), new)

    def keep_the_last(self) -> None:
        """Each element is the last update to it, or else the operand's."""
        recorder, dtype = self.recorder, _counter(self.count)
        ops = ScalarOps(recorder, dtype)
        last = self.builder.temporary(TensorType(dtype, (self.extent,)))
        with recorder.loops(self.kinds((self.extent,)), (self.extent,)) as (place,):
            recorder.store(last, place, ops.const(-1))
        with recorder.loops(self.kinds((self.count,)), (self.count,)) as (number,):
            mine = ops.cast(recorder.index_value(number), dtype)
            recorder.store(last, self._position(number, None), mine, update="max")
        with recorder.loops(self.kinds(self.shape), self.shape) as at:
            found = recorder.load(last, at[self.axis], again=True)
            hit = ops.cmp("ge", found, ops.const(0))
            logic = ScalarOps(recorder, hit.dtype)
            known = recorder.as_index(ops.cast(ops.max(found, ops.const(0)), int64), self.count)
            new = self._update(known, at, hit)
            self._store(at, logic.select(hit, new, self.values.at(self.x, at, logic.not_(hit))))

    def update(self) -> None:
        """Each update is added to its element in one step; elements of less than 32 bits are so for the while."""
        recorder, dtype = self.recorder, self.x.dtype
        wide = accumulator(dtype)
        if wide.itemsize < 4:
            wide = int32 if dtypes.is_signed(wide) else dtypes.uint32
        result = self.group.outputs[0][1]
        alone = len(self.group.outputs) == 1 and wide == dtype and result.slot is None
        work = result if alone else self.builder.temporary(TensorType(wide, self.shape))
        with recorder.loops(self.kinds(self.shape), self.shape) as at:
            start = self.values.at(self.x, at)
            recorder.store(work, offset(at, self.shape), ScalarOps(recorder, dtype).cast(start, wide))
        extents = (*self.shape[: self.axis], self.count, *self.shape[self.axis + 1 :])
        with recorder.loops(self.kinds(extents), extents) as at:
            number = at[self.axis]
            place = (*at[: self.axis], self._position(number, None), *at[self.axis + 1 :])
            new = ScalarOps(recorder, dtype).cast(self._update(number, at, None), wide)
            recorder.store(work, offset(place, self.shape), new, update="add")
        if not alone:
            with recorder.loops(self.kinds(self.shape), self.shape) as at:
                self._store(at, recorder.load(work, offset(at, self.shape), again=True))

    def add_in_order(self, tile: int) -> None:
        """Each element adds its own updates, which stand side by side after a sort."""
        recorder, count = self.recorder, self.count
        dtype = _counter(self.extent)
        keys = self.builder.temporary(TensorType(dtype, (count,)))
        sort = TiledSort(self.builder, recorder, dtype, (), count, tile, with_places=True)
        numbers = self.builder.temporary(TensorType(sort.place_dtype, (count,)))

        def read(_: Index, number: DimLike, mask: Var | None) -> Var:
            position = recorder.index_value(self._position(number, mask))
            return ScalarOps(recorder, int64).cast(position, dtype)

        def write(_: Index, place: DimLike, key: Var, number: Var | None, mask: Var | None) -> None:
            assert number is not None
            recorder.store(keys, place, key, mask)
            recorder.store(numbers, place, number, mask)

        sort.run(read, write, descending=False)
        ops = ScalarOps(recorder, int64)
        begins = self.builder.temporary(TensorType(int64, (self.extent + 1,)))
        steps = count.bit_length() if isinstance(count, int) else 62
        with recorder.loops(self.kinds((self.extent + 1,)), (self.extent + 1,)) as (place,):
            mine = ops.cast(recorder.index_value(place), dtype)

            def comes_before(at: DimLike, mask: Var) -> Var:
                return ops.cmp("lt", recorder.load(keys, at, mask, again=True), mine)

            first = bisected(recorder, steps, (ops.const(0), recorder.index_value(count)), count, comes_before)
            recorder.store(begins, place, first)
        wide, reduction = accumulator(self.x.dtype), self.node.op.reduction
        assert reduction is not None
        sums = ScalarOps(recorder, wide)
        each: list[LoopKind] = ["parallel"] * len(self.shape)  # the number of updates is each element's own
        with recorder.loops(each, self.shape) as at:
            begin, end = (recorder.load(begins, at[self.axis] + side, again=True) for side in (0, 1))
            first_place = recorder.as_index(begin, count)

            def add(step: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
                found = recorder.load(numbers, first_place + step, again=True)
                number = recorder.as_index(ops.cast(found, int64), count)
                return (reduction.combine(sums, carried[0], sums.cast(self._update(number, at, None), wide)),)

            many = recorder.as_index(ops.sub(end, begin), count + 1)
            (total,) = recorder.serial(many, (sums.cast(self.values.at(self.x, at), wide),), add)
            self._store(at, total)
