"""The loop over the op table: gradients against central differences in float64, to second order."""

from __future__ import annotations

import numpy as np
import pytest
from differences import check

from jitgraph.dtypes import float64
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Graph
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType
from jitgraph.ops import OPS


def is_float64(x: object) -> bool:
    return isinstance(x, np.ndarray | np.generic) and x.dtype == float64


def samples_of(op: Op) -> list[Sample]:
    """The smooth samples with a float64 operand; none where no gradient passes the op."""
    if op.samples is None or "nondifferentiable" in op.traits or op.effect != "none":
        return []
    found = [sample for sample in op.samples(float64) if sample.differentiable]
    return [sample for sample in found if any(map(is_float64, sample.inputs))]


def graph_of(op: Op, sample: Sample) -> Graph:
    builder = GraphBuilder()
    inputs = [builder.input(TensorType(x.dtype, x.shape)) for x in map(np.asarray, sample.inputs)]
    return builder.graph(builder.emit(op, inputs, sample.attrs, sample.regions))


DIFFERENTIABLE = sorted(name for name, op in OPS.items() if samples_of(op))


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradient(name: str) -> None:
    for sample in samples_of(OPS[name]):
        check(graph_of(OPS[name], sample), sample.inputs)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_second_order(name: str) -> None:
    sample = samples_of(OPS[name])[0]
    check(graph_of(OPS[name], sample), sample.inputs, order=2)


def test_every_op_with_a_rule_is_tried() -> None:
    untried = {name for name, op in OPS.items() if op.vjp is not None} - set(DIFFERENTIABLE)
    assert not untried
