"""Every op of the table at once on a simulated GPU: what the CPU gives."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.eager import placement
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.rules import ByDevice, ByKernel, Rules
from jitgraph.eager.tape import EagerValue
from jitgraph.ir import context
from jitgraph.ir.op import Sample
from jitgraph.ops import OPS
from tests.codegen.cuda.test_op_loop import CASES
from tests.cuda.places import Machine, machine
from tests.op_loop import TRANSFORMS, label, require_same, require_same_transforms

MOST_SAMPLES = 2


@pytest.fixture(scope="module")
def here() -> Iterator[Machine]:
    with machine(hides=True, must_end_clean=False) as actual:
        yield actual


def samples(case: tuple[str, dtypes.DType]) -> list[Sample]:
    op = OPS[case[0]]
    assert op.samples is not None
    results = [sample for sample in op.samples(case[1]) if sample.inputs]
    return random.Random(label(case)).sample(results, min(MOST_SAMPLES, len(results)))


@pytest.mark.parametrize("case", CASES, ids=label)
def test_ops_give_what_the_cpu_gives(here: Machine, case: tuple[str, dtypes.DType]) -> None:
    op = OPS[case[0]]
    for sample in samples(case):
        arrays = [np.asarray(x) for x in sample.inputs]
        with context.using(grad_enabled=False):
            expected = EAGER.emit(op, [EagerValue(x) for x in arrays], sample.attrs, sample.regions)
            inputs = [placement.of_array(x, "cuda:0") for x in arrays]
            actual = EAGER.emit(op, inputs, sample.attrs, sample.regions)
        assert all(value.device == "cuda:0" for value in actual)
        results = [value.array for value in expected], [value.fetched() for value in actual]
        if op.name in TRANSFORMS:
            require_same_transforms(*results)
        else:
            require_same(*results, ulps=8)


def test_no_kernel_of_the_cpu_is_made_for_an_op_on_a_gpu(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = Rules()
    monkeypatch.setattr(EAGER, "_rules", rules)
    x = jg.ones((5, 7), device="cuda")
    for result in (jg.exp(x), x + x, jg.sum(x), jg.softmax(x)):
        assert result.device == "cuda:0"
    actual = {key[0].name: rule for key, (rule, _) in rules._rules.items()}
    assert [type(actual[name]) for name in ("exp", "add", "reduce_sum", "softmax")] == [ByDevice] * 4
    jg.exp(jg.ones((5, 7)))
    assert [type(rule) for key, (rule, _) in rules._rules.items() if key[0].name == "exp"] == [ByDevice, ByKernel]
