"""Every layer, loss and function of ``tests/models``: PyTorch's results, which were recorded, and the same traced."""

from __future__ import annotations

import json
import warnings
from typing import Any, Final

import numpy as np
import pytest

import jitgraph as jg
from tests.graphs import needs_native
from tests.models.case import LayerCase
from tests.models.compare import Outcome, by_jitgraph
from tests.models.layer_outcomes import PATH, cases, differences, digest, parameter

CASES: Final = cases()
EXPECTED: Final = json.loads(PATH.read_text())


def outcome(case: LayerCase, *, traced: bool) -> Outcome:
    jg.random.seed(3)
    module: Any = case.make(jg)
    if isinstance(module, jg.nn.Module):
        module.double().train(case.mode == "train")
        with jg.no_grad():
            for name, value in module.named_parameters():
                value[...] = jg.asarray(parameter(name, value.shape), dtype=jg.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return by_jitgraph(case, module, traced=traced)


def test_all_are_recorded() -> None:
    assert EXPECTED.keys() == CASES.keys()


@needs_native
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_pytorch(name: str) -> None:
    case, expected = CASES[name], EXPECTED[name]
    actual = digest(outcome(case, traced=False))
    if expected is not None:  # buffers of lazy layers are of the first call, in float32
        assert not differences(actual, expected, 1e-7 if case.name.startswith("Lazy") else case.tolerance)


@needs_native
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.traced])
def test_a_trace_gives_the_same(name: str) -> None:
    eager, traced = (outcome(CASES[name], traced=each) for each in (False, True))
    for x, y in zip(eager.outputs, traced.outputs, strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-12, atol=1e-12)
    assert not differences(digest(traced), digest(eager), 1e-11)
