"""Groups of reductions that share their rows: one pass over the rows, or a large sum split and then merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import Local, LoopKind, Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.reduction import (
    combine,
    combiner,
    element_at,
    extent_of,
    finished,
    fold_runs,
    identity,
    or_empty,
    order_of,
    reduced_axes,
    runs_of,
)
from jitgraph.codegen.lower.schedules.heuristics import ColumnBlocks, Heuristics, SplitReductionSizes
from jitgraph.codegen.lower.statements import ScalarOps, Storage
from jitgraph.codegen.lower.values import Evaluator, rows_to_materialise
from jitgraph.dtypes import int64
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node, Value
from jitgraph.ir.types import Shape, TensorType
from jitgraph.ops.order import CHAIN, Order
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# A group of reductions that share their rows, as the lowerings of ``rows.py`` and ``rows.py`` see it.


@dataclass(frozen=True)
class Rows:
    """A group with its domain, the reduced axes and the kept ones, and the target's heuristics."""

    group: Group
    domain: Shape
    axes: tuple[int, ...]
    kept: tuple[int, ...]
    outputs: list[tuple[Value, Storage]]
    heuristics: Heuristics

    @property
    def by_column(self) -> bool:
        """Whether neighbouring rows, not neighbouring elements of a row, are lanes."""
        return bool(self.kept) and self.kept[-1] == len(self.domain) - 1 and self.domain[-1] != 1

    @property
    def kinds(self) -> list[LoopKind]:
        """The kinds of the loops over the rows."""
        if self.by_column:
            return self.heuristics.independent([self.domain[axis] for axis in self.kept])
        return ["parallel"] * len(self.kept)

    @property
    def full(self) -> list[tuple[Value, Storage]]:
        """Outputs of the domain's shape."""
        return [output for output in self.outputs if self.axes and output[0].shape == self.domain]

    @property
    def narrow(self) -> list[tuple[Value, Storage]]:
        """Outputs with one element a row."""
        return [output for output in self.outputs if not (self.axes and output[0].shape == self.domain)]

    @property
    def reductions(self) -> list[Node]:
        """The reductions of the group, in order."""
        return [node for node in self.group.graph.nodes if node.op.kind == "reduce"]

    @property
    def in_stages(self) -> bool:
        """Whether something of the domain's shape, stored or reduced, depends on a reduction of the group."""
        after: set[Value] = set()
        for node in self.group.graph.nodes:
            depends = any(value in after for value in node.inputs)
            if depends and node.op.kind == "reduce":
                return True
            if depends or node.op.kind == "reduce":
                after.update(node.outputs)
        return any(value in after for value, _ in self.full)


def store_at(values: Evaluator, outputs: Sequence[tuple[Value, Storage]], index: tuple[DimLike, ...]) -> None:
    """Store the outputs' elements at one place."""
    elements = [values.at(value, index) for value, _ in outputs]
    for element, (value, storage) in zip(elements, outputs, strict=True):
        values.recorder.store(storage, offset(index, value.shape), element)


# ----------------------------------------------------------------------
# Parts of sums down wide columns, read in the order in which they lie in memory.
#
# Walking down one column after another would jump from row to row. Here a few rows at a time are added, all columns of
# them, into the accumulators of their chunk, which stay in the caches; in the end the chunks of a part merge.


def span_of(form: Rows, blocks: ColumnBlocks, axis: int) -> int | None:
    """The rows of a part where ``reduce_splits`` is for a group whose reductions are cut along ``axis``, else None."""
    width = form.domain[-1]
    if not form.by_column or form.axes != (axis,) or not isinstance(width, int) or width < blocks.least_columns:
        return None
    each = sum(var.dtype.itemsize for node in form.reductions for var in identity(KernelRecorder(), node))
    most = blocks.most_bytes // (each * width) * CHAIN
    span = blocks.chunks * CHAIN
    while span * width < blocks.least_elements:
        span *= 2
    while span > max(most, CHAIN):
        span //= 2
    extent = form.domain[axis]
    while isinstance(extent, int) and extent < blocks.min_splits * span and span > CHAIN:
        if span // 2 * width < blocks.least_elements:
            break
        span //= 2
    few = not isinstance(extent, int) or extent // span <= blocks.max_splits  # what has no memory may have any extent
    return span if span <= most and few else None


def reduce_splits(
    form: Rows,
    axis: int,
    span: int,
    together: int,
    parts: DimLike,
    work: Mapping[Node, list[Storage]],
    values: Evaluator,
) -> None:
    """Store what each part of ``span`` rows makes into ``work``: [parts, kept axes, 1] for each accumulator.

    ``together`` rows are added at a time.
    """
    recorder = values.recorder
    *outer, width = (form.domain[dim] for dim in form.kept)
    assert isinstance(width, int)
    chunks = span // CHAIN
    extent = form.domain[axis]
    around: list[LoopKind] = ["parallel"] * (1 + len(outer))
    with recorder.loops(around, [parts, *outer]) as (part, *row):
        accumulators = {
            node: [recorder.local(storage.type.dtype, chunks * width) for storage in storages]
            for node, storages in work.items()
        }

        def add_rows(
            first: DimLike, chunk: DimLike, column: DimLike, *, fresh: bool = False, rest: bool = False
        ) -> None:
            """Add the rows from ``first`` on: all that go together, or the ``rest`` of the operand, which are fewer."""
            start: list[Var] = []
            for node, locals_ in accumulators.items():
                for local, init in zip(locals_, identity(recorder, node), strict=True):
                    start.append(init if fresh else recorder.load_local(local, chunk * width + column))

            def step(position: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
                index = {**dict(zip(form.kept, (*row, column), strict=True)), axis: position}
                at = tuple(index[each] for each in range(len(form.domain)))
                following: list[Var] = []
                remaining = list(carried)
                for node, locals_ in accumulators.items():
                    old, remaining = tuple(remaining[: len(locals_)]), remaining[len(locals_) :]
                    following += combine(
                        node, ScalarOps(recorder, old[0].dtype), old, element_at(values, node, at, None)
                    )
                store_at(values, form.full, at)
                return tuple(following)

            if rest:
                ends = list(recorder.serial(extent, tuple(start), step, begin=first, span=together - 1))
            else:
                ends = list(recorder.serial(together, tuple(start), lambda row, carried: step(first + row, carried)))
            for locals_ in accumulators.values():
                for local in locals_:
                    recorder.store_local(local, chunk * width + column, ends.pop(0))

        def last_part() -> AbstractContextManager[DimLike]:
            """Once in the part in which the operand ends before the part does, and in no other."""
            return recorder.loop("serial", part + 1, begin=extent // span)

        full = extent // together  # times that all rows go together
        if extent % span != 0:
            with last_part(), recorder.loop("vector", chunks * width) as element:
                for node, locals_ in accumulators.items():
                    for local, init in zip(locals_, identity(recorder, node), strict=True):
                        recorder.store_local(local, element, init)
        with recorder.loop("serial", chunks) as chunk:
            begin = (part * chunks + chunk) * (CHAIN // together)
            with recorder.loop("serial", full, begin=begin, span=1) as group, recorder.loop("vector", width) as column:
                add_rows(group * together, chunk, column, fresh=True)
            others = recorder.loop("serial", full, begin=begin + 1, span=CHAIN // together - 1)
            with others as group, recorder.loop("vector", width) as column:
                add_rows(group * together, chunk, column)
        if extent % together != 0:
            with last_part(), recorder.loop("vector", width) as column:
                add_rows(full * together, extent % span // CHAIN, column, rest=True)
        with recorder.loop("vector", width) as column:
            for node, locals_ in accumulators.items():
                merged = recorder.reduce(
                    chunks,
                    identity(recorder, node),
                    lambda chunk, locals_=locals_: tuple(  # type: ignore[misc]
                        recorder.load_local(local, chunk * width + column) for local in locals_
                    ),
                    combiner(node),
                    1,
                    1,
                )
                for storage, var in zip(work[node], merged, strict=True):
                    recorder.store(storage, offset((part, *row, column, 0), storage.type.shape), var)


# ----------------------------------------------------------------------
# Few rows of many elements, or of scattered ones, in parts that are reduced in parallel and then merged.
#
# A part is a run of whole chunks of the axis, a power of two of them, and so a node of the tree in which chunks merge
# (``kernel.Loop``): where an order is part of a reduction's meaning, the parts keep to it. The first nest of the kernel
# stores what each part makes, its slots not folded; the second merges the parts, folds the slots, and reduces over the
# axes before the one that is cut. Where a kept axis stands between reduced ones, as channels do, a part is all of the
# axes behind it, so that the operand is read in the order of memory.

_FEW_PARTS: Final = 8
"""Parts that one thread merges as fast as a block would."""


@dataclass(frozen=True)
class Cut:
    """The axis to cut, and the steps along it that make a part.

    ``rows_together`` are added at a time where a part is read in the order of memory; 0: it is read row by row.
    """

    axis: int
    span: int
    rows_together: int = 0


def cut_of(form: Rows) -> Cut | None:
    """Where to cut a group of reductions; None where one pass is as well."""
    sizes = form.heuristics.split_reductions
    if sizes is None or not form.axes or form.in_stages:
        return None
    rows = dims.product(form.domain[axis] for axis in form.kept)
    by_runs = _whole_runs(form, sizes, rows)
    if by_runs is not None:
        return by_runs
    if not form.by_column and not (isinstance(rows, int) and rows <= sizes.few_rows):
        return None
    cuts = [_cut(form, sizes, axis, rows) for axis in form.axes if _few_before(form, sizes, axis)]
    return max((cut for cut in cuts if _splits(form, cut) >= 2), key=lambda cut: _splits(form, cut), default=None)


def _whole_runs(form: Rows, sizes: SplitReductionSizes, rows: DimLike) -> Cut | None:
    """A cut into whole runs of the axes after the last kept one, where others are reduced before it, else None.

    A row is then scattered in runs over the operand, which is better read from its beginning to its end.
    """
    last = form.kept[-1] if form.kept else -1
    before = dims.product(form.domain[axis] for axis in form.axes if axis < last)
    after = [axis for axis in form.axes if axis > last]
    run = dims.product(form.domain[axis] for axis in after)
    if before == 1 or not after or not isinstance(run, int) or run < sizes.least_run:
        return None
    many = isinstance(rows, int) and (
        rows > sizes.few_rows or (isinstance(before, int) and before * rows >= sizes.many_runs)
    )
    extent = form.domain[after[0]]
    return Cut(after[0], 1 << (extent - 1).bit_length()) if many and isinstance(extent, int) else None


def _few_before(form: Rows, sizes: SplitReductionSizes, axis: int) -> bool:
    """Whether the axes before one have few elements together: each of them has slots of its own in every part."""
    before = dims.product(form.domain[other] for other in form.axes if other < axis)
    return isinstance(before, int) and before <= sizes.few_rows


def _cut(form: Rows, sizes: SplitReductionSizes, axis: int, rows: DimLike) -> Cut:
    blocks = form.heuristics.columns
    span = span_of(form, blocks, axis) if blocks is not None else None
    if blocks is None or span is None:
        return Cut(axis, _span(form, sizes, axis, rows))
    return Cut(axis, span, blocks.rows_together)


def _splits(form: Rows, cut: Cut) -> float:
    """How many parts a cut makes; more than any number for a named axis."""
    extent = form.domain[cut.axis]
    return -(-extent // cut.span) if isinstance(extent, int) else float("inf")


def _span(form: Rows, sizes: SplitReductionSizes, axis: int, rows: DimLike) -> int:
    """Steps along ``axis`` of a part: whole chunks of every reduction, a power of two, of enough elements together."""
    orders = [order_of(node, axis, form.heuristics.slot_bytes) for node in form.reductions]
    span = max(order.slots * max(1, order.chain) for order in orders)
    inner = dims.product(form.domain[other] for other in form.axes if other > axis)
    across = (rows if isinstance(rows, int) else sizes.named_columns) if form.by_column else 1
    each = across * (inner if isinstance(inner, int) else 1)
    extent = form.domain[axis]
    least = extent // sizes.max_splits if isinstance(extent, int) else 0  # what has no memory may have any extent
    if sizes.column_threads and form.by_column and isinstance(extent, int):
        while extent > span * sizes.max_splits or extent * each > span * sizes.column_threads:
            span *= 2
        return span
    while span * max(1, each) < sizes.least_elements or span < least:
        span *= 2
    return span


def lower_split_reduction(builder: ScheduleBuilder, form: Rows, cut: Cut) -> None:
    """One kernel of two nests for a group of reductions."""
    recorder = KernelRecorder()
    lowering = _SplitReduction(form, cut, recorder, builder.evaluator(recorder, form.group))
    lowering.allocate(builder)
    lowering.reduce_splits()
    lowering.merge_splits()
    builder.launch(recorder, form.group.name)


class _SplitReduction:
    def __init__(self, form: Rows, cut: Cut, recorder: KernelRecorder, values: Evaluator) -> None:
        self.form, self.cut, self.recorder, self.values = form, cut, recorder, values
        self.rows = tuple(form.domain[axis] for axis in form.kept)
        self.before = tuple(axis for axis in form.axes if axis < cut.axis)
        self.after = tuple(axis for axis in form.axes if axis > cut.axis)
        sizes = form.heuristics.split_reductions
        assert sizes is not None
        self.sizes, self.folded = sizes, sizes.folded
        self.count: DimLike = (form.domain[cut.axis] + (cut.span - 1)) // cut.span
        self.work: dict[Node, list[Storage]] = {}

    def order(self, node: Node, axis: int) -> Order:
        """The order in which ``node`` reduces along one of its axes."""
        return order_of(node, axis, self.form.heuristics.slot_bytes)

    def slots(self, node: Node) -> int:
        """The slots that a part of ``node`` stores."""
        order = self.order(node, self.cut.axis)
        return order.slots if order.chain and self.count != 1 and not self.folded else 1

    def allocate(self, builder: ScheduleBuilder) -> None:
        """Buffers for what the parts make: outer axes, rows, parts, slots; rows that are lanes stand behind parts."""
        outer = tuple(self.form.domain[axis] for axis in self.before)
        for node in self.form.reductions:
            shape = (*outer, *self.inner(self.count, self.rows), self.slots(node))
            self.work[node] = [builder.temporary(TensorType(var.dtype, shape)) for var in identity(self.recorder, node)]

    def bind(
        self, storage: Storage, outer: Sequence[DimLike], part: DimLike, row: Sequence[DimLike], slot: DimLike
    ) -> DimLike:
        return offset((*outer, *self.inner(part, row), slot), storage.type.shape)

    def inner(self, part: DimLike, row: Sequence[DimLike]) -> tuple[DimLike, ...]:
        """A part of a row, in the order of memory."""
        return (part, *row) if self.form.by_column else (*row, part)

    # --- the first nest

    def reduce_splits(self) -> None:
        form, recorder = self.form, self.recorder
        if self.cut.rows_together:
            cut = self.cut
            reduce_splits(form, cut.axis, cut.span, cut.rows_together, self.count, self.work, self.values)
            return
        around: list[LoopKind] = ["parallel"] * (len(self.before) + 1)
        extents = [*(form.domain[axis] for axis in self.before), self.count]
        with recorder.loops([*around, *form.kinds], [*extents, *self.rows]) as indices:
            outer, part, row = indices[: len(self.before)], indices[len(self.before)], indices[len(around) :]
            fixed = dict(zip((*self.before, *form.kept), (*outer, *row), strict=True))
            for nodes in self._in_one_pass():
                self._reduce_split(nodes, fixed, outer, part, row)
            self._store_full(fixed, part)

    def _in_one_pass(self) -> list[list[Node]]:
        """The reductions, those side by side that read the operands once and in one order."""
        groups: dict[tuple[object, ...], list[Node]] = {}
        for number, node in enumerate(self.form.reductions):
            kinds = tuple(var.dtype for var in identity(self.recorder, node))
            key = (kinds, self.order(node, self.cut.axis)) if self.sizes.one_pass and len(kinds) == 1 else (number,)
            groups.setdefault(key, []).append(node)
        return list(groups.values())

    def _reduce_split(
        self,
        nodes: Sequence[Node],
        fixed: Mapping[int, DimLike],
        outer: Sequence[DimLike],
        part: DimLike,
        row: Sequence[DimLike],
    ) -> None:
        recorder, cut = self.recorder, self.cut
        order, storages = self.order(nodes[0], cut.axis), [storage for node in nodes for storage in self.work[node]]
        rest = [(axis,) for axis in self.after]

        def element(position: DimLike) -> tuple[Var, ...]:
            return fold_runs(self.values, nodes, {**fixed, cut.axis: position}, rest, None)

        def store(slot: DimLike, accumulators: tuple[Var, ...]) -> None:
            for storage, var in zip(storages, accumulators, strict=True):
                recorder.store(storage, self.bind(storage, outer, part, row, slot), var)

        several = self.slots(nodes[0]) > 1
        init = tuple(var for node in nodes for var in identity(recorder, node))
        whole_run = self.folded and self.count == 1 and all(self.order(node, cut.axis).chain for node in nodes)
        if whole_run and rest:
            run = (cut.axis, *self.after)
            store(0, fold_runs(self.values, nodes, fixed, [run], None, any_order=True))
            return
        folded = recorder.reduce(
            self.form.domain[cut.axis],
            init,
            element,
            combiner(*nodes),
            order.slots if order.chain or not rest else 1,
            order.chain,
            begin=part * cut.span,
            span=cut.span,
            store_slots=store if several else None,
        )
        if not several:
            store(0, folded)

    def _store_full(self, fixed: Mapping[int, DimLike], part: DimLike) -> None:
        """Store the outputs of the domain's shape for one part."""
        form, recorder, cut = self.form, self.recorder, self.cut
        if not form.full:
            return
        along: list[LoopKind] = ["serial"] * (1 + len(self.after))
        if not form.by_column:
            along[-1] = "vector"
        with (
            recorder.loop(along[0], form.domain[cut.axis], begin=part * cut.span, span=cut.span) as position,
            recorder.loops(along[1:], [form.domain[axis] for axis in self.after]) as inner,
        ):
            index = {**fixed, cut.axis: position, **dict(zip(self.after, inner, strict=True))}
            store_at(self.values, form.full, tuple(index[axis] for axis in range(len(form.domain))))

    # --- the second nest

    def merge_splits(self) -> None:
        form, recorder, values = self.form, self.recorder, self.values
        if self.sizes.tile and self._merges_in_tiles():
            self._merge_tiles(self.sizes.tile)
            return
        with recorder.loops(form.kinds, self.rows) as row:
            for node in form.reductions:
                values.define(node.output, row, finished(recorder, node, self._merged(node, row, ())))
            self._store_narrow(row)

    def _store_narrow(self, row: Sequence[DimLike]) -> None:
        """Store the outputs with one element a row."""
        results = [self.values.at(value, row) for value, _ in self.form.narrow]
        for result, (value, storage) in zip(results, self.form.narrow, strict=True):
            self.recorder.store(storage, offset(row, value.shape), result)

    def _levels(self) -> list[DimLike]:
        """The extents over which parts merge, outermost first: the axes before the cut one, and the parts."""
        levels = [*(self.form.domain[axis] for axis in self.before), self.count]
        if self.folded:
            return [dims.product(levels)]
        return [extent for extent in levels if extent != 1]

    def _merges_in_tiles(self) -> bool:
        """Whether neighbouring rows lie side by side in all parts, which are many, and merge in one loop."""
        levels = self._levels()
        beside = bool(self.rows) and (self.form.by_column or self.count == 1)
        many = len(levels) == 1 and not (isinstance(levels[0], int) and levels[0] <= _FEW_PARTS)
        return beside and many and all(self.slots(node) == 1 for node in self.form.reductions)

    def _merge_tiles(self, width: int) -> None:
        """Merge the parts of ``width`` neighbouring rows at a time, which are the slots of a loop over all parts."""
        form, recorder, values = self.form, self.recorder, self.values
        (parts,), rows = self._levels(), dims.product(self.rows)
        # The axis whose order the loop has: that of the parts, or the one before them.
        axis = self.cut.axis if self.count != 1 or not self.before else self.before[-1]
        with recorder.loop("parallel", (rows + (width - 1)) // width) as tile:
            tops: dict[Node, list[Local]] = {}
            for node in form.reductions:
                tops[node] = [recorder.local(storage.type.dtype, width) for storage in self.work[node]]
                order = self.order(node, axis)
                chain = order.chain if axis != self.cut.axis and order.chain and not self.folded else 1
                recorder.reduce(
                    parts * width,
                    identity(recorder, node),
                    partial(self._of_tile, node, tile * width, rows, width),
                    combiner(node),
                    width,
                    chain,
                    store_slots=partial(self._store_top, tops[node]),
                )
            with recorder.loop("vector", rows, begin=tile * width, span=width) as number:
                row = recorder.ranges.split(number, self.rows)
                for node in form.reductions:
                    merged = tuple(recorder.load_local(top, number % width) for top in tops[node])
                    for reduced in (*self.before, self.cut.axis):
                        merged = or_empty(recorder, node, form.domain[reduced], merged)
                    values.define(node.output, row, finished(recorder, node, merged))
                self._store_narrow(row)

    def _of_tile(self, node: Node, first: DimLike, rows: DimLike, width: int, step: DimLike) -> tuple[Var, ...]:
        """What a step of a tile's loop loads: the part of one of its rows; nothing behind the last row."""
        recorder, row, mask = self.recorder, first + step % width, None
        if rows % width != 0:
            mask = ScalarOps(recorder, int64).cmp("lt", recorder.index_value(row), recorder.index_value(rows))
        at = step // width * rows + row
        return tuple(recorder.load(storage, at, mask, again=True) for storage in self.work[node])

    def _store_top(self, tops: Sequence[Local], slot: DimLike, accumulators: tuple[Var, ...]) -> None:
        for top, var in zip(tops, accumulators, strict=True):
            self.recorder.store_local(top, slot, var)

    def _merged(self, node: Node, row: Sequence[DimLike], outer: tuple[DimLike, ...]) -> tuple[Var, ...]:
        """All parts at a row together, for the outer axes at ``outer`` and over those that follow."""
        recorder, extents = self.recorder, self.form.domain
        if len(outer) < len(self.before):
            axis = self.before[len(outer)]
            order = self.order(node, axis)
            folded = recorder.reduce(
                extents[axis],
                identity(recorder, node),
                lambda position: self._merged(node, row, (*outer, position)),
                combiner(node),
                1,
                order.chain,
            )
            return or_empty(recorder, node, extents[axis], folded)
        folded = self._over_splits(node, row, outer)
        return or_empty(recorder, node, extents[self.cut.axis], folded)

    def _over_splits(self, node: Node, row: Sequence[DimLike], outer: tuple[DimLike, ...]) -> tuple[Var, ...]:
        """The parts merged and their slots folded: one loop, in which a part is a chunk of as many steps as slots."""
        recorder, slots = self.recorder, self.slots(node)
        order = self.order(node, self.cut.axis)

        def element(step: DimLike) -> tuple[Var, ...]:
            part, slot = (step, 0) if slots == 1 else (0, step)
            return tuple(
                recorder.load(storage, self.bind(storage, outer, part, row, slot), again=True)
                for storage in self.work[node]
            )

        lanes = order.slots if self.folded and not self.form.by_column else slots
        return recorder.reduce(
            self.count * slots, identity(recorder, node), element, combiner(node), lanes, 1 if order.chain else 0
        )


# ----------------------------------------------------------------------
# Groups of reductions that share their rows: one pass over the rows, or a large sum in parts and then together.
#
# A row is the operand's elements for one index of the result. Where the last axis is reduced, rows are spread over
# threads and each is a vector along itself; where it is kept, rows are lanes. Few rows of many elements are cut into
# parts (``lower/rows.py``).


def lower_rows(builder: ScheduleBuilder, group: Group) -> None:
    """Reductions that share their operand's shape and axes, and what stands around them: one pass over the rows.

    Outputs have the operand's shape, or that of the rows (the operand's without the reduced axes).
    """
    node = next(node for node in group.graph.nodes if node.op.kind == "reduce")
    domain, axes = node.inputs[0].shape, reduced_axes(node)
    kept_axes = tuple(axis for axis in range(len(domain)) if axis not in axes)
    rows = tuple(domain[axis] for axis in kept_axes)
    outputs = [(value, storage) for value, storage in group.outputs if not is_empty(value.tensor)]
    if not outputs:
        return
    form = Rows(group, domain, axes, kept_axes, outputs, builder.decisions)
    cut = cut_of(form)
    if cut is not None:
        lower_split_reduction(builder, form, cut)
        return
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    with recorder.loops(form.kinds, rows) as row:
        _materialise_values(values, form, row)
        results = [values.at(value, row) for value, _ in form.narrow]
        _store_full(values, form, row)
        for result, (value, storage) in zip(results, form.narrow, strict=True):
            recorder.store(storage, offset(row, value.shape), result)
    builder.launch(recorder, group.name)


def _materialise_values(values: Evaluator, form: Rows, row: tuple[DimLike, ...]) -> None:
    """Keep what several loops over the row would compute, which the reductions then do before anything else."""
    heuristic = form.heuristics.row_materialisation
    if len(form.axes) != 1 or heuristic is None:
        return
    graph, (axis,) = form.group.graph, form.axes
    stored = {value for value, _ in form.full}
    materialised = rows_to_materialise(heuristic, graph, stored, axis, form.domain, form.by_column)
    for value in materialised:
        values.materialise(value, axis, row)
    for node in graph.nodes if materialised else ():
        if node.op.kind == "reduce":
            values.at(node.output, row)


def _store_full(values: Evaluator, form: Rows, row: tuple[DimLike, ...]) -> None:
    """Store the outputs of the domain's shape for one row."""
    if not form.full:
        return
    recorder = values.recorder
    runs = runs_of(form.axes)
    along: list[LoopKind] = ["serial"] * len(runs)
    if not form.by_column:
        along[-1] = "vector"
    with recorder.loops(along, [extent_of(run, form.domain) for run in runs]) as positions:
        index = dict(zip(form.kept, row, strict=True))
        for run, position in zip(runs, positions, strict=True):
            index.update(zip(run, recorder.ranges.split(position, [form.domain[axis] for axis in run]), strict=True))
        store_at(values, form.full, tuple(index[axis] for axis in range(len(form.domain))))
