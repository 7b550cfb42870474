"""scatter and scatter_add: a copy of the operand, then the updates in the order of the indices.

The axes that are not indexed are independent; the indices are walked one after another, so
that duplicates add, and overwrite, in order.
"""

from __future__ import annotations

from typing import Any

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.gathering import wrapped
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.scalar_body import accumulator
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.codegen.lower.scatter_launches import lower_by_launches
from jitgraph.codegen.lower.schedules.decisions import Independent
from jitgraph.codegen.lower.storage import Storage
from jitgraph.ir import dims
from jitgraph.ir.graph import Node
from jitgraph.ir.types import TensorType


def lower_scatter(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """One kernel: copy, update, and for 16-bit sums, which are kept in float32, round; or launches, as decided."""
    if is_empty(node.output.tensor):
        return
    x, indices, updates = node.inputs
    sizes, count = builder.decisions.scattering, dims.product(indices.shape)
    if sizes is not None and not is_empty(updates.tensor) and not (isinstance(count, int) and count <= sizes.few):
        lower_by_launches(builder, group, node, sizes)
        return
    axis: Any = node.attrs["axis"]
    shape, dtype = x.shape, x.dtype
    reduction = node.op.reduction
    wide = dtype if reduction is None else accumulator(dtype)
    (_, result), *copies = group.outputs
    work = result if wide == dtype and result.slot is None else builder.temporary(TensorType(wide, shape))
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    independent = builder.decisions.independent
    with recorder.loops(independent(shape), shape) as index:
        start = values.at(x, index)
        recorder.store(work, offset(index, shape), ScalarOps(recorder, dtype).cast(start, wide))
    if not is_empty(updates.tensor):
        others = (*shape[:axis], *shape[axis + 1 :])
        after = axis + len(indices.shape)
        with recorder.loops(independent(others), others) as at:

            def step(count: Any, carried: tuple[Any, ...]) -> tuple[Any, ...]:
                place = recorder.ranges.split(count, indices.shape)
                number = values.at(indices, place)
                position = wrapped(values, node, number, shape[axis], None, check=node not in group.checked)
                target = offset((*at[:axis], position, *at[axis:]), shape)
                new = values.at(updates, (*at[:axis], *place, *at[axis:]))
                ops = ScalarOps(recorder, new.dtype)
                new = ops.cast(new, wide)
                if reduction is not None:
                    new = reduction.combine(ScalarOps(recorder, wide), recorder.load(work, target, again=True), new)
                recorder.store(work, target, new)
                return ()

            assert after - axis == len(indices.shape)
            recorder.serial(count, (), step)
    _round(recorder, independent, work, [result, *(copy for _, copy in copies)])
    builder.launch(recorder, group.name)


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
