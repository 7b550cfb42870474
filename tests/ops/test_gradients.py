"""The loop over the op table: gradients against central differences in float64 and complex128, to second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitgraph.dtypes import DType, bfloat16, complex_of, float16, float32, float64, is_inexact
from jitgraph.ir.builder import build
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType
from jitgraph.ir.verifier import verify
from jitgraph.ops import OPS
from tests.coverage_table import note
from tests.differences import check, derivative
from tests.graphs import graph_of


def samples_of(op: Op, dtype: DType = float64) -> list[Sample]:
    """The smooth samples with an operand of this float dtype, or of complex numbers that have such parts.

    There are none where no gradient passes the op.
    """
    if op.samples is None or "nondifferentiable" in op.traits or op.effect != "none":
        return []
    results = [sample for sample in op.samples(dtype) if sample.differentiable]
    wanted = {dtype, complex_of(dtype)} if dtype in (float32, float64) else {dtype}
    return [sample for sample in results if any(getattr(x, "dtype", None) in wanted for x in sample.inputs)]


DIFFERENTIABLE = sorted(name for name, op in OPS.items() if samples_of(op))


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradient(name: str) -> None:
    for sample in samples_of(OPS[name]):
        check(graph_of(OPS[name], sample), sample.inputs)
        note(name, "gradient")


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_second_order(name: str) -> None:
    sample = samples_of(OPS[name])[0]
    check(graph_of(OPS[name], sample), sample.inputs, order=2)


SMALLER = [(n, dtype) for n in DIFFERENTIABLE for dtype in (float16, bfloat16, float32) if samples_of(OPS[n], dtype)]


@pytest.mark.parametrize(("name", "dtype"), SMALLER, ids=str)
def test_gradients_have_the_types_of_their_inputs(name: str, dtype: DType) -> None:
    for sample in samples_of(OPS[name], dtype):
        _, gradient = derivative(graph_of(OPS[name], sample), order=1)
        verify(gradient)
        wanted = [np.asarray(x) for x in sample.inputs if is_inexact(np.asarray(x).dtype)]
        ones = [np.ones(value.type.shape, value.type.dtype) for value in gradient.inputs[len(sample.inputs) :]]
        for array, actual in zip(wanted, interpret(gradient, [*sample.inputs, *ones]), strict=True):
            assert (actual.dtype, actual.shape) == (array.dtype, array.shape)
            assert np.isfinite(actual if np.iscomplexobj(actual) else actual.astype(np.float64)).all()


@pytest.mark.parametrize("order", [1, 2])
def test_stacks(order: int) -> None:
    """What is pushed comes back, as a cotangent too; a stack that is read no more has an empty one."""

    def program(x: Any, y: Any) -> Any:
        empty = OPS["stack_new"](shape=(3,), dtype=float64)
        stack = OPS["stack_push"](OPS["stack_push"](OPS["stack_push"](empty, x), OPS["mul"](x, y)), y)
        stack, last = OPS["stack_pop"](stack)
        below, _ = OPS["stack_pop"](stack)
        return OPS["mul"](last, OPS["stack_pop"](below)[1])

    x = np.array([0.5, 1.0, 1.5])
    check(build(program, [TensorType(float64, (3,))] * 2), [x, x + 1], order)
    note("stack_push", "gradient")
    note("stack_pop", "gradient")


def test_every_op_with_a_rule_is_tried() -> None:
    untried = {name for name, op in OPS.items() if op.vjp is not None} - set(DIFFERENTIABLE)
    of_complex = {name for name in untried if name in ("real", "imag", "eig") or name.startswith("complex")}
    assert of_complex  # which ``test_ops_table`` compares with differences
    of_stacks = {"stack_push", "stack_pop"}  # which stand in ``test_stacks``
    of_values = {f"{kind}{end}" for kind in ("eigenvalue", "singular_value") for end in ("s", "_gradient")}
    assert untried - of_complex == of_stacks | of_values  # those are tried by ``tests/linalg/test_equal_values.py``
