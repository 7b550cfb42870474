"""Groups of reductions that share their rows: one pass over the rows, or a large sum in parts and then together.

A row is the operand's elements for one index of the result. Where the last axis is reduced, rows are spread over
threads and each is a vector along itself; where it is kept, rows are lanes. Few rows of many elements are cut into
parts (``lower/split_reduction.py``).
"""

from __future__ import annotations

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import LoopKind
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.reduction import extent_of, reduced_axes, runs_of
from jitgraph.codegen.lower.row_group import Rows, store_at
from jitgraph.codegen.lower.row_materialisation import rows_to_materialise
from jitgraph.codegen.lower.split_reduction import cut_of, lower_split_reduction
from jitgraph.codegen.lower.values import Evaluator
from jitgraph.ir.dims import DimLike


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
