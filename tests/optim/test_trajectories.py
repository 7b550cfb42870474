"""Optimisers and schedules give what PyTorch gives (expectations.json), eager and in a traced step.

``python -m tests.models`` compares all of it with PyTorch itself: each step, state, and state dicts both ways.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.models import optimizer_cases, scheduler_cases
from tests.models.training import STEPS, Run, rates, scheduled, summary, trained

EXPECTED = json.loads((Path(__file__).parent / "expectations.json").read_text())
TRACED = ("SGD nesterov", "AdamW amsgrad", "NAdam", "RAdam", "Adamax", "Rprop etas", "ASGD averaging", "Adafactor")


@pytest.mark.parametrize("case", optimizer_cases.CASES, ids=lambda case: case.name)
def test_optimizers(case: optimizer_cases.OptimizerCase) -> None:
    assert trained(jg, case) == pytest.approx(EXPECTED["optimizers"][case.name], rel=case.tolerance)


@pytest.mark.parametrize("case", scheduler_cases.CASES, ids=lambda case: case.name)
def test_schedules(case: scheduler_cases.SchedulerCase) -> None:
    np.testing.assert_allclose(rates(jg, case), EXPECTED["schedules"][case.name], rtol=1e-9, atol=1e-12)


def test_one_traced_step_of_many_optimizers() -> None:
    cases = [case for case in optimizer_cases.CASES if case.name in TRACED]
    runs = [Run(jg, case.make) for case in cases]

    @jg.trace
    def step() -> None:
        for run in runs:
            run.step()

    for _ in range(STEPS):
        step()
    assert step.cache_info().misses == 1
    for case, run in zip(cases, runs, strict=True):
        assert summary(run) == pytest.approx(EXPECTED["optimizers"][case.name], rel=1e-9), case.name


def test_one_traced_step_of_all_schedules() -> None:
    """Counters and rates are numbers that each call works out: what is recorded once serves every epoch."""
    cases = [case for case in scheduler_cases.CASES if case.recordings == 1]
    runs = [scheduled(jg, case) for case in cases]

    @jg.trace
    def step(x: Any) -> None:
        for run in runs:
            run.parameters[0].grad = x * run.parameters[0].detach()
            run.optimizer.step()
            run.schedule.step()

    results = []
    for _ in range(STEPS):
        step(0.1)
        results.append([run.schedule.get_last_lr()[0] for run in runs])
    assert len(cases) > 15 and step.cache_info().misses == 1
    for case, column in zip(cases, np.transpose(results), strict=True):
        np.testing.assert_allclose(column, EXPECTED["schedules"][case.name], rtol=1e-9, atol=1e-12, err_msg=case.name)


def test_a_warm_up_is_recorded_for_each_part_and_right_in_each() -> None:
    case = next(case for case in scheduler_cases.CASES if case.name == "SequentialLR warm-up")
    run, eager = scheduled(jg, case), scheduled(jg, case)
    step = jg.trace(run.step)
    for expected in EXPECTED["schedules"][case.name]:
        step()
        eager.step()
        assert run.schedule.get_last_lr()[0] == pytest.approx(expected, rel=1e-9)
        np.testing.assert_array_equal(run.values()[0], eager.values()[0])
    assert step.cache_info().misses == case.recordings


def test_lion() -> None:
    start = np.array([1.0, -2.0, 3.0])
    p, m = start.copy(), np.zeros(3)
    mine = jg.nn.Parameter(start)
    optimizer = jg.optim.Lion([mine], lr=0.1, betas=(0.9, 0.8), weight_decay=0.1)
    for step in range(5):
        g = np.array([0.5, -1.0, 0.25]) * (step - 1.5)
        p = p * (1 - 0.1 * 0.1) - 0.1 * np.sign(0.9 * m + 0.1 * g)
        m = 0.8 * m + 0.2 * g
        mine.grad = jg.asarray(g)
        optimizer.step()
    np.testing.assert_allclose(mine.detach().numpy(), p, rtol=1e-14)


@pytest.mark.parametrize("shape", [(4, 3), (3, 5), (1, 4), (2, 2)])
@pytest.mark.parametrize("traced", [False, True])
def test_muon(shape: tuple[int, int], traced: bool) -> None:
    """Against the formula by singular values: each step applies a polynomial to them."""
    rng = np.random.default_rng(0)
    p, m = rng.normal(size=shape), np.zeros(shape)
    mine = jg.nn.Parameter(p.copy())
    optimizer = jg.optim.Muon([mine], lr=0.1, weight_decay=0.5, momentum=0.9)

    def step(g: Any) -> None:
        mine.grad = g
        optimizer.step()

    run = jg.trace(step) if traced else step
    for _ in range(5):
        g = rng.normal(size=shape)
        m = 0.9 * m + 0.1 * g
        u, s, v = np.linalg.svd(0.1 * g + 0.9 * m, full_matrices=False)
        s = s / np.linalg.norm(s)
        for _ in range(5):
            s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
        p = p * (1 - 0.1 * 0.5) - 0.1 * np.sqrt(max(1, shape[0] / shape[1])) * (u * s) @ v
        run(jg.asarray(g))
    np.testing.assert_allclose(mine.detach().numpy(), p, rtol=1e-11, atol=1e-13)


def test_muon_takes_matrices() -> None:
    layer = jg.nn.Linear(2, 3)
    with pytest.raises(jg.ShapeError, match=r"Muon takes matrices, not a parameter of shape \(3,\)"):
        jg.optim.Muon(layer.parameters())
    with pytest.raises(jg.JitgraphError, match="adjust_lr_fn='x' is none of"):
        jg.optim.Muon([layer.weight], adjust_lr_fn="x")
    with pytest.raises(jg.JitgraphError, match="ns_coefficients are three numbers"):
        jg.optim.Muon([layer.weight], ns_coefficients=(1.0, 2.0))
    with pytest.raises(jg.JitgraphError, match="ns_steps=100"):
        jg.optim.Muon([layer.weight], ns_steps=100)


def test_gradients_accumulate_over_batches() -> None:
    """Two backward passes before a step are one of the sum, in one traced function that steps at every second call."""
    rng = np.random.default_rng(0)
    batches = [rng.normal(size=(4, 3)) for _ in range(6)]
    full, parts = jg.nn.Parameter(np.ones(3)), jg.nn.Parameter(np.ones(3))
    first, second = jg.optim.Adam([full], lr=0.1), jg.optim.Adam([parts], lr=0.1)

    @jg.trace(static_argnames=("update",))
    def accumulate(x: Any, *, update: bool) -> None:
        jg.tanh(x @ parts).sum().backward()
        if update:
            second.step()
            second.zero_grad(set_to_none=False)

    for number, batch in enumerate(batches):
        accumulate(batch, update=number % 2 == 1)
    for number in range(0, len(batches), 2):
        first.zero_grad()
        jg.tanh(jg.asarray(np.concatenate(batches[number : number + 2])) @ full).sum().backward()
        first.step()
    np.testing.assert_allclose(parts.detach().numpy(), full.detach().numpy(), rtol=1e-12)


def test_rates_that_a_traced_function_changes_itself() -> None:
    p = jg.nn.Parameter(np.ones(2))
    optimizer = jg.optim.SGD([p], lr=1.0)

    @jg.trace
    def step() -> None:
        p.grad = jg.ones(2, dtype=jg.float64)
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= 0.5

    for _ in range(4):
        step()
    assert step.cache_info().misses == 1 and optimizer.param_groups[0]["lr"] == 0.0625
    np.testing.assert_allclose(p.detach().numpy(), np.full(2, 1 - 1 - 0.5 - 0.25 - 0.125))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_eager_steps_give_a_traces_bits(dtype: str) -> None:
    cases = [case for case in optimizer_cases.CASES if case.untraced is None]
    start = np.random.default_rng(1).normal(size=(3, 37)).astype(np.float32)

    def run(traced: bool) -> list[tuple[str, np.ndarray]]:
        groups = [[jg.nn.Parameter(jg.asarray(x).astype(dtype)) for x in (start, start[0].copy())] for _ in cases]
        groups = [[*group, jg.nn.Parameter(group[1].detach()[0])] for group in groups]
        optimizers = [case.make(jg, group) for case, group in zip(cases, groups, strict=True)]

        def step() -> None:
            for group, optimizer in zip(groups, optimizers, strict=True):
                for p in group:
                    p.grad = jg.cos(p.detach())
                optimizer.step()

        call = jg.trace(step) if traced else step
        for _ in range(6):
            call()
        results = []
        for case, group, optimizer in zip(cases, groups, optimizers, strict=True):
            results += [(case.name, p.detach().numpy()) for p in group]
            results += [(f"{case.name} {k}", v.numpy()) for state in optimizer.state.values() for k, v in state.items()]
        return results

    for (name, mine), (_, theirs) in zip(run(False), run(True), strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=name)
        assert np.isfinite(mine.astype(np.float64)).all(), name
