"""The loop over the op table, eagerly: what an op gives at once is what its graph gives, and so are its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.compiler import compile
from jitgraph.eager import tape
from jitgraph.eager.tape import EagerValue
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.op import Op, Sample
from jitgraph.ops import OPS
from tests.coverage_table import COLUMNS, note, reason
from tests.differences import derivative, drawn_like
from tests.graphs import graph_of
from tests.op_loop import cases as compiled_cases
from tests.op_loop import label, require_same

CASES = [
    (name, dtype)
    for name, op in OPS.items()
    if op.samples is not None and reason(op, "eager") is None
    for dtype in dtypes.DTYPES
    if op.samples(dtype)
]
assert jg.Tensor  # makes the eager emitter known


def eager(x: Any) -> Any:
    return EagerValue(np.asarray(x)) if isinstance(x, np.ndarray | np.generic) else x


def applied(op: Op, sample: Sample, inputs: Sequence[Any]) -> tuple[Any, ...]:
    results = op(*inputs, regions=sample.regions, **sample.attrs)
    return results if isinstance(results, tuple) else (results,)


def meant(op: Op, sample: Sample) -> Sequence[Any]:
    """What the graph of the op gives: by compiled code where it has math functions, whose bits NumPy does not give.

    Of zeros that compare equal NumPy's running extremes keep others than compiled code does.
    """
    graph = graph_of(op, sample)
    compiled = any("approximated" in n.op.traits or n.op.lowering == "cumulative" for n in graph.walk())
    if compiled and not sample.regions and all(np.size(x) for x in sample.inputs) and "shape" not in sample.attrs:
        return compile(graph).run([np.asarray(x) for x in sample.inputs])
    return interpret(graph, sample.inputs)


@pytest.mark.parametrize("case", CASES, ids=label)
def test_eager_equals_its_graph(case: tuple[str, dtypes.DType]) -> None:
    op = OPS[case[0]]
    assert op.samples is not None
    samples = op.samples(case[1])
    for sample in samples:
        wanted = meant(op, sample)
        for value, array in zip(applied(op, sample, [eager(x) for x in sample.inputs]), wanted, strict=True):
            if isinstance(value, EagerValue):
                require_same([array], [value.array], ulps=0.0)
    note(op.name, "eager", len(samples))


@pytest.mark.parametrize("case", CASES, ids=label)
def test_a_result_is_an_operand_or_has_an_array_of_its_own(case: tuple[str, dtypes.DType]) -> None:
    op = OPS[case[0]]
    assert op.samples is not None
    for sample in op.samples(case[1]):
        operands = [eager(x) for x in sample.inputs]
        for value in applied(op, sample, operands):  # which would count the memory of a caller as unique
            if isinstance(value, EagerValue) and not any(value is operand for operand in operands):
                arrays = [operand.array for operand in operands if isinstance(operand, EagerValue)]
                assert not any(value.array is array for array in arrays)


DIFFERENTIABLE = [
    name
    for name, op in OPS.items()
    if op.samples is not None
    and reason(op, "gradient") is None
    and any(s.differentiable for s in op.samples(dtypes.float64))
]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_tape_equals_autodiff(name: str) -> None:
    op = OPS[name]
    assert op.samples is not None
    rng = np.random.default_rng(3)
    for sample in op.samples(dtypes.float64):
        arrays = [np.asarray(x) for x in sample.inputs]
        floats = [i for i, x in enumerate(arrays) if dtypes.is_inexact(x.dtype)]
        if not sample.differentiable or not floats:
            continue
        _, gradient = derivative(graph_of(op, sample), order=1)
        cotangents = [drawn_like(rng, v.dtype, v.shape) for v in gradient.inputs[len(arrays) :]]
        wanted = interpret(gradient, [*arrays, *cotangents])
        leaves = [eager(x) for x in arrays]
        for i in floats:
            leaves[i] = leaves[i].recorded(tape.LeafRecord(jg.asarray(arrays[i])))
        outputs = [value for value in applied(op, sample, leaves) if dtypes.is_inexact(value.dtype)]
        pairs = [(v, EagerValue(ct)) for v, ct in zip(outputs, cotangents, strict=True) if v.requires_grad]
        values, arguments = [v for v, _ in pairs], [ct for _, ct in pairs]
        result = tape.sweep(values, arguments, targets=None, create_graph=False, retain_graph=False)
        for i, array in zip(floats, wanted, strict=True):
            value = result.get(leaves[i].record)
            got = np.zeros_like(array) if value is None else value.array
            np.testing.assert_allclose(got, array, rtol=1e-12, atol=1e-12, err_msg=f"{name} input {i}")


def test_every_op_is_tried_in_every_column_or_says_why() -> None:
    compiled = {name for name, _ in compiled_cases()}
    for name, op in OPS.items():
        why = {column: reason(op, column) for column in COLUMNS}
        assert bool(why["native"]) != (name in compiled), name
        assert bool(why["eager"]) != (name in {actual for actual, _ in CASES}), name
        assert bool(why["gradient"]) != (op.vjp is not None or name in DIFFERENTIABLE), name
