"""Groups in which every element of an output is computed by itself: elementwise chains, copies, stored views."""

from __future__ import annotations

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.storage import Storage
from jitgraph.ir.graph import Value
from jitgraph.ir.types import Shape


def lower_pointwise(builder: ScheduleBuilder, group: Group) -> None:
    """One nest of independent iterations for each shape among the outputs."""
    by_shape: dict[Shape, list[tuple[Value, Storage]]] = {}
    for value, storage in group.outputs:
        if not is_empty(value.tensor):
            by_shape.setdefault(value.shape, []).append((value, storage))
    for shape, outputs in by_shape.items():
        recorder = KernelRecorder()
        values = builder.evaluator(recorder, group)
        with recorder.loops(builder.decisions.independent(shape), shape) as index:
            # Everything is read before anything is written, so an output may take an input's memory.
            results = [values.at(value, index) for value, _ in outputs]
            for result, (value, storage) in zip(results, outputs, strict=True):
                recorder.store(storage, offset(index, value.shape), result)
        builder.launch(recorder, group.name)
