"""Groups of reductions that share their rows: one pass over the rows, or a large sum in parts and then together.

A row is the operand's elements for one index of the result. Where the last axis is reduced, rows are spread over
threads and each is a vector along itself; where it is kept, rows are lanes. Few rows of many elements are cut into
parts by their shape alone: the parts are summed in parallel into a work buffer and combined as a tree, so that the
result depends neither on threads nor on the machine, and |error| <= (log2(parts) + part/lanes) eps sum|x|.
"""

from __future__ import annotations

from jitgraph.codegen.index import offset
from jitgraph.codegen.kernel import LoopKind, Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.keeping import worth_keeping
from jitgraph.codegen.lower.recorder import Recorder, Storage
from jitgraph.codegen.lower.reduction import (
    Window,
    combine,
    element_at,
    extent_of,
    finished,
    fold,
    identity,
    reduced_axes,
    runs_of,
)
from jitgraph.codegen.lower.values import Evaluator
from jitgraph.codegen.lower.words import Words
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node, Value
from jitgraph.ir.types import Shape, TensorType
from jitgraph.records import dataclass

_MOST_PARTS = 32
_FEW_ROWS = 8
_LONG = 1 << 14  # elements of one part where there are few rows
_COLUMN = 64  # elements of one part where rows are lanes
_WIDE = 64  # columns from which on memory is walked in its own order
_TOGETHER = 8  # rows for which an accumulator is loaded and stored once


@dataclass(frozen=True)
class _Rows:
    """A group with its domain, the reduced axes and the kept ones."""

    group: Group
    first: Node
    domain: Shape
    axes: tuple[int, ...]
    kept: tuple[int, ...]
    outputs: list[tuple[Value, Storage]]

    @property
    def by_column(self) -> bool:
        """Whether neighbouring rows, not neighbouring elements of a row, are lanes."""
        return bool(self.kept) and self.kept[-1] == len(self.domain) - 1 and self.domain[-1] != 1

    @property
    def kinds(self) -> list[LoopKind]:
        """The kinds of the loops over the rows."""
        kinds: list[LoopKind] = ["parallel"] * len(self.kept)
        if self.by_column:
            kinds[-1] = "vector"
        return kinds

    @property
    def full(self) -> list[tuple[Value, Storage]]:
        """Outputs of the domain's shape."""
        return [output for output in self.outputs if self.axes and output[0].shape == self.domain]

    @property
    def narrow(self) -> list[tuple[Value, Storage]]:
        """Outputs with one element a row."""
        return [output for output in self.outputs if not (self.axes and output[0].shape == self.domain)]

    def parts(self) -> tuple[int, int] | None:
        """The axis to cut and the extent of a part; None where one pass is as well."""
        if not self.axes or not all(isinstance(self.domain[axis], int) for axis in self.axes) or self._in_stages():
            return None
        axis = max(self.axes, key=lambda axis: (_int(self.domain[axis]), -axis))
        length = _int(self.domain[axis])
        total = 1
        for each in self.axes:
            total *= _int(self.domain[each])
        rows = dims.product(self.domain[axis] for axis in self.kept)
        if isinstance(rows, int) and rows <= _FEW_ROWS:
            count = min(_MOST_PARTS, total // _LONG)
        elif self.by_column:
            count = min(_MOST_PARTS, length // _COLUMN)
        else:
            return None
        if count < 2:
            return None
        extent = -(-length // count)
        return (axis, extent) if extent < length else None

    def _in_stages(self) -> bool:
        """Whether something of the domain's shape, stored or reduced, depends on a reduction of the group."""
        after: set[Value] = set()
        for node in self.group.graph.nodes:
            depends = any(value in after for value in node.inputs)
            if depends and node.op.kind == "reduce":
                return True
            if depends or node.op.kind == "reduce":
                after.update(node.outputs)
        return any(value in after for value, _ in self.full)


def _int(extent: DimLike) -> int:
    assert isinstance(extent, int)
    return extent


def lower_rows(builder: ScheduleBuilder, group: Group) -> None:
    """Reductions that share their operand's shape and axes, and what stands around them: one pass over the rows.

    Outputs have the operand's shape, or that of the rows (the operand's without the reduced axes).
    """
    node = next(node for node in group.graph.nodes if node.op.kind == "reduce")
    domain, axes = node.inputs[0].shape, reduced_axes(node)
    kept = tuple(axis for axis in range(len(domain)) if axis not in axes)
    rows = tuple(domain[axis] for axis in kept)
    outputs = [(value, storage) for value, storage in group.outputs if not is_empty(value.tensor)]
    if not outputs:
        return
    form = _Rows(group, node, domain, axes, kept, outputs)
    parts = form.parts()
    if parts is not None:
        _lower_in_parts(builder, form, parts)
        return
    recorder = Recorder()
    values = builder.evaluator(recorder, group)
    with recorder.loops(form.kinds, rows) as row:
        _keep_values(values, form, row)
        results = [values.at(value, row) for value, _ in form.narrow]
        _store_full(values, form, row)
        for result, (value, storage) in zip(results, form.narrow, strict=True):
            recorder.store(storage, offset(row, value.shape), result)
    builder.launch(recorder, group.name)


def _keep_values(values: Evaluator, form: _Rows, row: tuple[DimLike, ...]) -> None:
    """Keep what several loops over the row would compute, which the reductions then do before anything else."""
    if len(form.axes) != 1:
        return
    graph, (axis,) = form.group.graph, form.axes
    stored = {value for value, _ in form.full}
    kept = worth_keeping(graph, stored, axis, form.domain, form.by_column)
    for value in kept:
        values.keep(value, axis, row)
    for node in graph.nodes if kept else ():
        if node.op.kind == "reduce":
            values.at(node.output, row)


def _store_full(values: Evaluator, form: _Rows, row: tuple[DimLike, ...], window: Window | None = None) -> None:
    """Store the outputs of the domain's shape for one row, or for a window of it."""
    if not form.full:
        return
    recorder = values.recorder
    shape = list(form.domain)
    if window is not None:
        shape[window.axis] = window.extent
    runs = runs_of(form.axes)
    along: list[LoopKind] = ["serial"] * len(runs)
    if not form.by_column:
        along[-1] = "vector"
    with recorder.loops(along, [extent_of(run, shape) for run in runs]) as positions:
        index = dict(zip(form.kept, row, strict=True))
        for run, position in zip(runs, positions, strict=True):
            index.update(zip(run, recorder.ranges.split(position, [shape[axis] for axis in run]), strict=True))
        if window is not None:
            index[window.axis] = window.start + index[window.axis]
        place = tuple(index[axis] for axis in range(len(form.domain)))
        elements = [values.at(value, place) for value, _ in form.full]
        for element, (value, storage) in zip(elements, form.full, strict=True):
            recorder.store(storage, offset(place, value.shape), element)


def _lower_in_parts(builder: ScheduleBuilder, form: _Rows, parts: tuple[int, int]) -> None:
    """Parts of equal extent, a shorter last one where it must be, then all of them combined."""
    axis, extent = parts
    length = _int(form.domain[axis])
    rows = tuple(form.domain[axis] for axis in form.kept)
    whole, left = divmod(length, extent)
    count = whole + bool(left)
    recorder = Recorder()
    values = builder.evaluator(recorder, form.group)
    nodes = [node for node in form.group.graph.nodes if node.op.kind == "reduce"]
    work = {
        node: [builder.temporary(TensorType(var.dtype, (count, *rows))) for var in identity(recorder, node)]
        for node in nodes
    }

    def sum_part(part: DimLike, window: Window) -> None:
        if form.by_column and form.axes == (axis,) and isinstance(rows[-1], int) and rows[-1] >= _WIDE:
            _sum_columns(values, form, work, part, window)
            return
        with recorder.loops(form.kinds, rows) as row:
            for node in nodes:
                for storage, var in zip(work[node], fold(values, node, row, None, window), strict=True):
                    recorder.store(storage, offset((part, *row), (count, *rows)), var)
            _store_full(values, form, row, window)

    with recorder.loop("parallel", whole) as part:
        sum_part(part, Window(axis, part * extent, extent))
    if left:
        sum_part(whole, Window(axis, whole * extent, left))
    kinds: list[LoopKind] = [*["parallel"] * (len(rows) - 1), "vector"] if rows else []  # type: ignore[list-item]
    with recorder.loops(kinds, rows) as row:
        for node, held in work.items():
            loaded = [
                tuple(recorder.load(buffer, offset((part, *row), buffer.type.shape), again=True) for buffer in held)
                for part in range(count)
            ]
            values.define(node.output, row, finished(recorder, node, _tree(recorder, node, loaded)))
        results = [values.at(value, row) for value, _ in form.narrow]
        for result, (value, storage) in zip(results, form.narrow, strict=True):
            recorder.store(storage, offset(row, value.shape), result)
    builder.launch(recorder, form.group.name)


def _sum_columns(
    values: Evaluator, form: _Rows, work: dict[Node, list[Storage]], part: DimLike, window: Window
) -> None:
    """A part of sums down wide columns, in the order of memory: accumulators in the work buffer, some rows a time."""
    recorder = values.recorder
    *outer, width = (form.domain[axis] for axis in form.kept)
    kinds: list[LoopKind] = ["parallel"] * len(outer)
    with recorder.loops(kinds, outer) as around:

        def place(storage: Storage, column: DimLike) -> DimLike:
            return offset((part, *around, column), storage.type.shape)

        with recorder.loop("vector", width) as column:
            for node, storages in work.items():
                for storage, var in zip(storages, identity(recorder, node), strict=True):
                    recorder.store(storage, place(storage, column), var)

        def add_rows(first: DimLike, count: int) -> None:
            with recorder.loop("vector", width) as column:
                sums = {
                    node: tuple(recorder.load(storage, place(storage, column), again=True) for storage in storages)
                    for node, storages in work.items()
                }
                for row in range(count):
                    index = dict(zip(form.kept, (*around, column), strict=True))
                    index[window.axis] = first + row
                    at = tuple(index[axis] for axis in range(len(form.domain)))
                    for node in work:
                        words = Words(recorder, sums[node][0].dtype)
                        sums[node] = combine(node, words, sums[node], element_at(values, node, at, None))
                    for value, storage in form.full:
                        recorder.store(storage, offset(at, value.shape), values.at(value, at))
                for node, storages in work.items():
                    for storage, var in zip(storages, sums[node], strict=True):
                        recorder.store(storage, place(storage, column), var)

        def step(turn: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            add_rows(window.start + turn * _TOGETHER, _TOGETHER)
            return ()

        turns, left = divmod(window.extent, _TOGETHER)
        recorder.serial(turns, (), step)
        if left:
            add_rows(window.start + turns * _TOGETHER, left)


def _tree(recorder: Recorder, node: Node, parts: list[tuple[Var, ...]]) -> tuple[Var, ...]:
    """Parts j and j + half combined, until one is left."""
    words = Words(recorder, parts[0][0].dtype)
    while len(parts) > 1:
        half = (len(parts) + 1) // 2
        together = [combine(node, words, left, right) for left, right in zip(parts, parts[half:], strict=False)]
        parts = [*together, *parts[len(together) : half]]
    return parts[0]
