"""Binary search in lanes: each number's place in a sorted vector, all steps of it in registers."""

from __future__ import annotations

from typing import Any

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.recorder import KernelRecorder, accumulator
from jitgraph.codegen.lower.statements import ScalarOps
from jitgraph.dtypes import bool_, int64, is_float
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Node
from jitgraph.ops.searching import halvings


def lower_search(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """One kernel; no place leaves the vector, so nothing is checked."""
    if is_empty(node.output.tensor):
        return
    row, queries = node.inputs
    size: Any = row.shape[0]
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    wide = accumulator(row.dtype)
    ops, places, logic = ScalarOps(recorder, wide), ScalarOps(recorder, int64), ScalarOps(recorder, bool_)

    def before(element: Var, query: Var) -> Var:
        is_less = ops.cmp("le" if node.attrs["right"] else "lt", element, query)
        if not is_float(wide):
            return is_less
        missing = ops.cmp("ne", query, query)
        if not node.attrs["right"]:
            missing = logic.and_(missing, ops.cmp("eq", element, element))
        return logic.or_(is_less, missing)

    shape = node.output.shape
    with recorder.loops(builder.decisions.independent(shape), shape) as index:
        query = ops.cast(values.at(queries, index), wide)
        place = places.const(0)
        for step in halvings(size):
            recorder.ranges.declare(place.name, size)
            element = values.at(row, (Dim.name(place.name) + (step - 1),))
            is_before = before(ops.cast(element, wide), query)
            place = places.select(is_before, places.add(place, places.const(step)), place)
        for _, storage in group.outputs:
            recorder.store(storage, offset(index, shape), place)
    builder.launch(recorder, node.op.name)
