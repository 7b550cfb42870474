"""Sliding sums of products: neighbouring results in lanes, one factor for all of them at each step."""

from __future__ import annotations

from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.recorder import KernelRecorder, accumulator
from jitgraph.codegen.lower.statements import ScalarOps
from jitgraph.dtypes import is_float
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ops.sliding import CHUNK


def lower_slide(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """One kernel, whose products go into the accumulator as they are, with one rounding each."""
    if is_empty(node.output.tensor):
        return
    x, weights = node.inputs
    (count,), (m,) = node.output.shape, weights.shape
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    wide = accumulator(x.dtype)
    ops = ScalarOps(recorder, wide)

    with recorder.loop("vector", count) as i:

        def product(k: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            factors = ops.cast(values.at(x, (i + k,)), wide), ops.cast(values.at(weights, (k,)), wide)
            if is_float(wide):
                return (ops.fma(*factors, carried[0]),)
            return (ops.add(ops.mul(*factors), carried[0]),)

        zero = (ops.const(0),)
        if isinstance(m, int) and m <= CHUNK:
            (total,) = recorder.serial(m, zero, product)
        else:

            def chunk(number: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
                (part,) = recorder.serial(m, zero, product, begin=number * CHUNK, span=CHUNK)
                return (ops.add(carried[0], part),)

            (total,) = recorder.serial((m + (CHUNK - 1)) // CHUNK, zero, chunk)
        for _, storage in group.outputs:
            recorder.store(storage, i, ops.cast(total, x.dtype))
    builder.launch(recorder, node.op.name)
