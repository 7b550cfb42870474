"""scatter and scatter_add: a copy of the operand, then the updates in the order of the indices, or by many threads."""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes
from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import LoopKind, Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.gathering import begin_update, end_update, is_copied_first, wrapped
from jitgraph.codegen.lower.recorder import KernelRecorder, accumulator
from jitgraph.codegen.lower.schedules.heuristics import Independent, Scattering
from jitgraph.codegen.lower.sorting import TiledSort, bisected
from jitgraph.codegen.lower.statements import ScalarOps, Storage
from jitgraph.codegen.lower.values import Evaluator, Index
from jitgraph.dtypes import DType, bool_, int32, int64
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import TensorType

# ----------------------------------------------------------------------
# scatter and scatter_add where iterations are many threads, whatever the indices are: each a few launches.
#
# - The last of the updates to one element stays: the greatest of their numbers is found first, in any order, and then
#   each element of the result is the operand's or that update's.
# - Sums that are the same in any order are updates of the result's memory.
# - Sums that have an order: the numbers of the updates are sorted by their indices, stably, so that those of one
# element
#   stand side by side in their order, and each element of the result adds its own.
#
# Where the operand is copied to the result by a launch of its own, which may turn out not to be needed
# (``gathering.py``), no launch goes over all elements: of updates that are sorted so the last of each run is stored, or
# the first adds its run.


def lower_by_launches(builder: ScheduleBuilder, group: Group, node: Node, sizes: Scattering) -> None:
    """One kernel for a scatter or a scatter_add, neither of whose operands is known to be empty."""
    in_one_step = node.op.reduction is not None and (sizes.any_order or not dtypes.is_float(node.output.dtype))
    rounds = in_one_step and node.output.dtype.itemsize < 4  # all elements, which are wider for the while
    copied = not rounds and _are_few(node) and is_copied_first(builder, group, node)
    if copied:
        group = begin_update(builder, group, node)
    launches = _Launches(builder, group, node)
    if copied:
        launches.recorder.param(launches.result, "read")  # what no index names stays
    if in_one_step:
        launches.update(copied)
    elif copied:
        launches.write_runs(sizes.tile)
    elif node.op.reduction is None:
        launches.select_last()
    else:
        launches.add_in_order(sizes.tile)
    builder.launch(launches.recorder, group.name)
    if copied:
        end_update(builder, group)


def _are_few(node: Node) -> bool:
    """Whether a sort of the updates costs less than to go over all elements; where sizes are not known it is so."""
    axis: Any = node.attrs["axis"]
    extent, count = node.inputs[0].shape[axis], dims.product(node.inputs[1].shape)
    return not isinstance(extent, int) or not isinstance(count, int) or 8 * count <= extent


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
        self.result = group.outputs[0][1]

    def _position(self, number: DimLike, mask: Var | None) -> DimLike:
        """Where along the axis an update goes, by its number."""
        index = self.values.at(self.indices, self.recorder.ranges.split(number, self.indices.shape), mask)
        check = self.node not in self.group.checked
        return wrapped(self.values, self.node, index, self.extent, mask, check=check)

    def _update(self, number: DimLike, at: Index, mask: Var | None) -> Var:
        """The element of an update for an element of the result at ``at``."""
        index = self.recorder.ranges.split(number, self.indices.shape)
        return self.values.at(self.updates, (*at[: self.axis], *index, *at[self.axis + 1 :]), mask)

    def _store(self, at: Index, value: Var) -> None:
        for _, storage in self.group.outputs:
            new = ScalarOps(self.recorder, value.dtype).cast(value, storage.type.dtype)
            self.recorder.store(storage, offset(at, self.shape), new)

    def select_last(self) -> None:
        """Each element is the last update to it, or else the operand's."""
        recorder, dtype = self.recorder, _counter(self.count)
        ops = ScalarOps(recorder, dtype)
        last = self.builder.temporary(TensorType(dtype, (self.extent,)))
        with recorder.loops(self.kinds((self.extent,)), (self.extent,)) as (position,):
            recorder.store(last, position, ops.const(-1))
        with recorder.loops(self.kinds((self.count,)), (self.count,)) as (number,):
            mine = ops.cast(recorder.index_value(number), dtype)
            recorder.store(last, self._position(number, None), mine, update="max")
        with recorder.loops(self.kinds(self.shape), self.shape) as at:
            last_update = recorder.load(last, at[self.axis], again=True)
            hit = ops.cmp("ge", last_update, ops.const(0))
            logic = ScalarOps(recorder, hit.dtype)
            known = recorder.as_index(ops.cast(ops.max(last_update, ops.const(0)), int64), self.count)
            new = self._update(known, at, hit)
            self._store(at, logic.select(hit, new, self.values.at(self.x, at, logic.not_(hit))))

    def update(self, copied: bool) -> None:
        """Each update is added to its element in one step; elements of less than 32 bits are so for the while."""
        recorder, dtype = self.recorder, self.x.dtype
        wide = accumulator(dtype)
        if wide.itemsize < 4:
            wide = int32 if dtypes.is_signed(wide) else dtypes.uint32
        alone = copied or (len(self.group.outputs) == 1 and wide == dtype and self.result.slot is None)
        work = self.result if alone else self.builder.temporary(TensorType(wide, self.shape))
        if not copied:
            with recorder.loops(self.kinds(self.shape), self.shape) as at:
                start = self.values.at(self.x, at)
                recorder.store(work, offset(at, self.shape), ScalarOps(recorder, dtype).cast(start, wide))
        extents = (*self.shape[: self.axis], self.count, *self.shape[self.axis + 1 :])
        with recorder.loops(self.kinds(extents), extents) as at:
            number = at[self.axis]
            index = (*at[: self.axis], self._position(number, None), *at[self.axis + 1 :])
            new = ScalarOps(recorder, dtype).cast(self._update(number, at, None), wide)
            recorder.store(work, offset(index, self.shape), new, update="add")
        if not alone:
            with recorder.loops(self.kinds(self.shape), self.shape) as at:
                self._store(at, recorder.load(work, offset(at, self.shape), again=True))

    def _sorted(self, tile: int) -> tuple[DType, Storage, Storage]:
        """The dtype of the positions of updates, these sorted, and beside them the numbers of the updates, stably."""
        recorder, count = self.recorder, self.count
        dtype = _counter(self.extent)
        keys = self.builder.temporary(TensorType(dtype, (count,)))
        sort = TiledSort(self.builder, recorder, dtype, (), count, tile, with_places=True)
        numbers = self.builder.temporary(TensorType(sort.place_dtype, (count,)))

        def read(_: Index, number: DimLike, mask: Var | None) -> Var:
            position = recorder.index_value(self._position(number, mask))
            return ScalarOps(recorder, int64).cast(position, dtype)

        def write(_: Index, index: DimLike, key: Var, number: Var | None, mask: Var | None) -> None:
            assert number is not None
            recorder.store(keys, index, key, mask)
            recorder.store(numbers, index, number, mask)

        sort.run(read, write, descending=False)
        return dtype, keys, numbers

    def write_runs(self, tile: int) -> None:
        """Of the updates of one element, which stand side by side after a sort, one writes for all of them."""
        recorder, count, reduction = self.recorder, self.count, self.node.op.reduction
        dtype, keys, numbers = self._sorted(tile)
        ops, int_ops, logic = ScalarOps(recorder, dtype), ScalarOps(recorder, int64), ScalarOps(recorder, bool_)
        # the first adds those behind it, or the last stays
        neighbour, edge = (1, count - 1) if reduction is None else (-1, 0)
        extents = (*self.shape[: self.axis], count, *self.shape[self.axis + 1 :])
        kinds: list[LoopKind] = ["parallel"] * len(extents)
        with recorder.loops(kinds, extents) as at:
            index = at[self.axis]
            mine = recorder.load(keys, index, again=True)
            inside = int_ops.cmp("ne", recorder.index_value(index), recorder.index_value(edge))
            differs = ops.cmp("ne", recorder.load(keys, index + neighbour, inside, again=True), mine)
            writes = logic.or_(logic.not_(inside), differs)
            position = recorder.as_index(int_ops.cast(mine, int64), self.extent)
            target = offset((*at[: self.axis], position, *at[self.axis + 1 :]), self.shape)

            def update(which: DimLike) -> Var:
                number = int_ops.cast(recorder.load(numbers, which, again=True), int64)
                return self._update(recorder.as_index(number, count), at, None)

            if reduction is None:
                recorder.store(self.result, target, update(index), writes)
                return

            def is_mine(which: DimLike, mask: Var) -> Var:
                return ops.cmp("eq", recorder.load(keys, which, mask, again=True), mine)

            steps = count.bit_length() if isinstance(count, int) else 62
            first = recorder.index_value(index)
            bounds = int_ops.add(first, int_ops.const(1)), recorder.index_value(count)
            end = bisected(recorder, steps, bounds, count, is_mine)
            many = int_ops.select(writes, int_ops.sub(end, first), int_ops.const(0))
            combine, wide = reduction.combine, accumulator(self.x.dtype)
            sums = ScalarOps(recorder, wide)

            def add(step: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
                return (combine(sums, carried[0], sums.cast(update(index + step), wide)),)

            start = sums.cast(recorder.load(self.result, target, writes, again=True), wide)
            (total,) = recorder.serial(recorder.as_index(many, count + 1), (start,), add)
            recorder.store(self.result, target, sums.cast(total, self.x.dtype), writes)

    def add_in_order(self, tile: int) -> None:
        """Each element adds its own updates, which stand side by side after a sort."""
        recorder, count = self.recorder, self.count
        dtype, keys, numbers = self._sorted(tile)
        ops = ScalarOps(recorder, int64)
        begins = self.builder.temporary(TensorType(int64, (self.extent + 1,)))
        steps = count.bit_length() if isinstance(count, int) else 62
        with recorder.loops(self.kinds((self.extent + 1,)), (self.extent + 1,)) as (index,):
            mine = ops.cast(recorder.index_value(index), dtype)

            def comes_before(at: DimLike, mask: Var) -> Var:
                return ops.cmp("lt", recorder.load(keys, at, mask, again=True), mine)

            first = bisected(recorder, steps, (ops.const(0), recorder.index_value(count)), count, comes_before)
            recorder.store(begins, index, first)
        wide, reduction = accumulator(self.x.dtype), self.node.op.reduction
        assert reduction is not None
        sums = ScalarOps(recorder, wide)
        each: list[LoopKind] = ["parallel"] * len(self.shape)  # the number of updates is each element's own
        with recorder.loops(each, self.shape) as at:
            begin, end = (recorder.load(begins, at[self.axis] + side, again=True) for side in (0, 1))
            first_place = recorder.as_index(begin, count)

            def add(step: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
                loaded = recorder.load(numbers, first_place + step, again=True)
                number = recorder.as_index(ops.cast(loaded, int64), count)
                return (reduction.combine(sums, carried[0], sums.cast(self._update(number, at, None), wide)),)

            many = recorder.as_index(ops.sub(end, begin), count + 1)
            (total,) = recorder.serial(many, (sums.cast(self.values.at(self.x, at), wide),), add)
            self._store(at, total)


# ----------------------------------------------------------------------
# scatter and scatter_add: a copy of the operand, then the updates in the order of the indices.
#
# The copy is a launch of its own where it may turn out that it is not needed (``gathering.py``).
#
# The axes that are not indexed are independent; the indices are walked one after another, so
# that duplicates add, and overwrite, in order.


def lower_scatter(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """Copy, update, and for 16-bit sums, which are computed in float32, round; or launches, as decided."""
    if is_empty(node.output.tensor):
        return
    x, indices, updates = node.inputs
    sizes, count = builder.decisions.scattering, dims.product(indices.shape)
    if sizes is not None and not is_empty(updates.tensor) and not (isinstance(count, int) and count <= sizes.few):
        lower_by_launches(builder, group, node, sizes)
        return
    shape, dtype = x.shape, x.dtype
    reduction = node.op.reduction
    wide = dtype if reduction is None or count == 1 else accumulator(dtype)
    (_, result), *copies = group.outputs
    copied_first = wide == dtype and is_copied_first(builder, group, node)
    if copied_first:
        group = begin_update(builder, group, node)
    work = result if wide == dtype and result.slot is None else builder.temporary(TensorType(wide, shape))
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    independent = builder.decisions.independent
    if copied_first:
        recorder.param(work, "read")  # what no index names stays
    else:
        with recorder.loops(independent(shape), shape) as index:
            start = values.at(x, index)
            recorder.store(work, offset(index, shape), ScalarOps(recorder, dtype).cast(start, wide))
    if not is_empty(updates.tensor):
        _update(recorder, values, node, work, independent, checked=node in group.checked)
    if copied_first:
        builder.launch(recorder, group.name)
        end_update(builder, group)
        return
    _round(recorder, independent, work, [result, *(copy for _, copy in copies)])
    builder.launch(recorder, group.name)


def _update(
    recorder: KernelRecorder,
    values: Evaluator,
    node: Node,
    work: Storage,
    independent: Independent,
    *,
    checked: bool,
) -> None:
    """The updates of ``work``, those of one row after one another; one alone needs no loop."""
    x, indices, updates = node.inputs
    axis: Any = node.attrs["axis"]
    shape, reduction = x.shape, node.op.reduction
    others = (*shape[:axis], *shape[axis + 1 :])
    sums = accumulator(x.dtype) if reduction is not None else x.dtype
    with recorder.loops(independent(others), others) as at:

        def step(count: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            index = recorder.ranges.split(count, indices.shape)
            number = values.at(indices, index)
            position = wrapped(values, node, number, shape[axis], None, check=not checked)
            target = offset((*at[:axis], position, *at[axis:]), shape)
            new = values.at(updates, (*at[:axis], *index, *at[axis:]))
            if reduction is not None:
                old = recorder.load(work, target, again=True)
                old, new = (ScalarOps(recorder, sums).cast(one, sums) for one in (old, new))
                new = reduction.combine(ScalarOps(recorder, sums), old, new)
            recorder.store(work, target, ScalarOps(recorder, new.dtype).cast(new, work.type.dtype))
            return ()

        count = dims.product(indices.shape)
        if count == 1:
            step(0, ())
        else:
            recorder.serial(count, (), step)


def _round(recorder: KernelRecorder, independent: Independent, work: Storage, results: list[Storage]) -> None:
    targets = [result for result in results if result != work]
    if not targets:
        return
    shape = work.type.shape
    with recorder.loops(independent(shape), shape) as index:
        final = recorder.load(work, offset(index, shape), again=True)
        for target in targets:
            recorder.store(
                target, offset(index, shape), ScalarOps(recorder, final.dtype).cast(final, target.type.dtype)
            )
