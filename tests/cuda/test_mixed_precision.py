"""Training steps under autocast, with GradScaler and a schedule, and all optimisers, on a simulated GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.cuda.places import Machine
from tests.graphs import needs_native
from tests.models import optimizer_cases

X = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
Y = np.arange(8) % 4

pytestmark = needs_native


@pytest.mark.parametrize("is_traced", [True, False])
def test_a_step_in_mixed_precision(here: Machine, is_traced: bool) -> None:
    def run(device: str) -> list[np.ndarray]:
        jg.random.seed(0)
        model = jg.nn.Sequential(jg.nn.Linear(6, 8), jg.nn.GELU(), jg.nn.Linear(8, 4)).to(device)
        optimizer = jg.optim.NAdam(model.parameters(), lr=1e-2)
        schedule = jg.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=20)
        scaler = jg.amp.GradScaler(device, init_scale=2.0**24, growth_interval=2)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            with jg.amp.autocast(device, dtype=jg.float16):
                loss = jg.nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            return loss

        call = jg.trace(step) if is_traced else step
        for _ in range(12):
            call(jg.asarray(X, device=device), jg.asarray(Y, device=device))
        assert 1.0 < scaler.get_scale() < 2.0**24, "some steps were skipped, and then no more"
        return [p.detach().cpu().numpy() for p in model.parameters()]

    for mine, theirs in zip(run("cuda"), run("cpu"), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_all_optimisers(here: Machine) -> None:
    cases = [case for case in optimizer_cases.CASES if case.untraced is None]

    def run(device: str) -> list[np.ndarray]:
        start = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
        shapes = (start, start[0], start[0, 0])
        groups = [[jg.nn.Parameter(jg.asarray(np.array(value), device=device)) for value in shapes] for _ in cases]
        optimizers = [case.make(jg, group) for case, group in zip(cases, groups, strict=True)]

        @jg.trace
        def step() -> None:
            for group, optimizer in zip(groups, optimizers, strict=True):
                for p in group:
                    p.grad = jg.cos(p.detach())
                optimizer.step()

        for _ in range(3):
            step()
        return [p.detach().cpu().numpy() for group in groups for p in group]

    for number, (mine, theirs) in enumerate(zip(run("cuda"), run("cpu"), strict=True)):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6, err_msg=cases[number // 3].name)
