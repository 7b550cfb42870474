"""Few rows of many elements, or of scattered ones, in parts that are reduced in parallel and then merged.

A part is a run of whole chunks of the axis, a power of two of them, and so a node of the tree in which chunks merge
(``kernel.Loop``): where an order is part of a reduction's meaning, the parts keep to it. The first nest of the kernel
stores what each part makes, its slots not folded; the second merges the parts, folds the slots, and reduces over the
axes before the one that is cut. Where a kept axis stands between reduced ones, as channels do, a part is all of the
axes behind it, so that the operand is read in the order of memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import Local, LoopKind, Var
from jitgraph.codegen.lower import columns
from jitgraph.codegen.lower.building import ScheduleBuilder
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.reduction import combiner, finished, fold_runs, identity, or_empty, order_of
from jitgraph.codegen.lower.row_group import Rows, store_at
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.codegen.lower.schedules.heuristics import SplitReductionSizes
from jitgraph.codegen.lower.storage import Storage
from jitgraph.codegen.lower.values import Evaluator
from jitgraph.dtypes import int64
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import TensorType
from jitgraph.ops.order import Order
from jitgraph.records import dataclass

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
    span = columns.span_of(form, blocks, axis) if blocks is not None else None
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
            columns.reduce_splits(form, cut.axis, cut.span, cut.rows_together, self.count, self.work, self.values)
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
