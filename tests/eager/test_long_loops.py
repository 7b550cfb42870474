"""Long loops outside of traces run compiled, with a trace's bits; short ones, and those with effects, op by op."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.eager import long_loops
from tests.graphs import needs_native

pytestmark = needs_native


def running_sum_of_exp(x: Any) -> Any:
    return jg.logcumsumexp(x, axis=0)


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the graphs that were interpreted."""
    names: list[str] = []

    def noted(graph: Any, arrays: Any, inner: Any = long_loops.interpret) -> Any:
        names.append(graph.name)
        return inner(graph, arrays)

    monkeypatch.setattr(long_loops, "interpret", noted)
    return names


@pytest.mark.parametrize("shape", [(long_loops.LONG,), (2000, 3), (700, 0)])
def test_a_long_scan_runs_compiled_with_a_traces_bits(shape: tuple[int, ...], interpreted: list[str]) -> None:
    x = jg.asarray(np.random.default_rng(0).normal(size=shape).astype(np.float32))
    result = np.asarray(running_sum_of_exp(x))
    assert not interpreted
    np.testing.assert_array_equal(result, np.asarray(jg.trace(running_sum_of_exp)(x)))


def test_its_gradient_too(interpreted: list[str]) -> None:
    x = jg.asarray(np.random.default_rng(0).normal(size=1000).astype(np.float32), requires_grad=True)
    running_sum_of_exp(x)[-1].backward()
    assert not interpreted
    weights = np.exp(np.asarray(x.detach()).astype(np.float64))
    np.testing.assert_allclose(np.asarray(x.grad), weights / weights.sum(), rtol=1e-4)


def test_short_loops_and_loops_with_effects_run_op_by_op(
    interpreted: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    running_sum_of_exp(jg.asarray(np.ones(long_loops.LONG - 1, np.float32)))
    assert len(interpreted) == 1

    def step(total: Any, x: Any) -> Any:
        jg.debug.print("{}", x)
        return total + x, None

    total, _ = jg.scan(step, jg.asarray(0.0), jg.asarray(np.arange(long_loops.LONG, dtype=np.float32)))
    assert float(total) == sum(range(long_loops.LONG))
    assert capfd.readouterr().out.count("\n") == long_loops.LONG
