"""scatter and scatter_add: a copy of the operand, then the updates in the order of the indices.

The copy is a launch of its own where it may turn out that it is not needed (``updating.py``).

The axes that are not indexed are independent; the indices are walked one after another, so
that duplicates add, and overwrite, in order.
"""

from __future__ import annotations

from typing import Any

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.gathering import wrapped
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.scalar_body import accumulator
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.codegen.lower.scatter_launches import lower_by_launches
from jitgraph.codegen.lower.schedules.heuristics import Independent
from jitgraph.codegen.lower.storage import Storage
from jitgraph.codegen.lower.updating import begin_update, end_update, is_copied_first
from jitgraph.codegen.lower.values import Evaluator
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import TensorType


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
