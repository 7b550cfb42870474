"""Schedules and LBFGS in a traced training step: each rate is PyTorch's, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.optim import lr_scheduler

# The rates after each of ten steps, as PyTorch 2.13 gives them; the plateau sees the number 1.0 each time.
RATES = {
    "plat": [0.1, 0.1, 0.01, 0.01, 0.001, 0.001, 0.0001, 0.0001, 1e-05, 1e-05],
    "seq": [0.01, 0.1, 0.1, 0.09, 0.081, 0.0729, 0.06561, 0.059049, 0.0531441, 0.04782969],
    "chain": [
        0.009,
        0.0081,
        0.00729,
        0.06561,
        0.059049,
        0.0531441,
        0.04782969,
        0.043046721,
        0.0387420489,
        0.03486784401,
    ],
    "first": [0.0405, 0.0729, 0.06561, 0.1, 0.08, 0.064, 0.0512, 0.04096, 0.032768, 0.0262144],
    "one": [
        0.0699579308439,
        0.175857031824,
        0.19888308709,
        0.186602593968,
        0.16234913079,
        0.129475799539,
        0.0925274205334,
        0.0566121996417,
        0.0266955060378,
        0.00691339748508,
    ],
    "cyc": [0.04, 0.07, 0.1, 0.07, 0.04, 0.01, 0.04, 0.07, 0.1, 0.07],
}
SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "plat": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1),
    "seq": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.ExponentialLR(o, 0.9)], milestones=[3]
    ),
    "chain": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.1, 4), lr_scheduler.ExponentialLR(o, 0.9)], optimizer=o
    ),
    "first": lambda o: lr_scheduler.SequentialLR(
        o,
        [
            lr_scheduler.ChainedScheduler([lr_scheduler.ConstantLR(o, 0.5, 2), lr_scheduler.ExponentialLR(o, 0.9)]),
            lr_scheduler.ExponentialLR(o, 0.8),
        ],
        milestones=[4],
    ),
    "one": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.2, total_steps=12),
    "cyc": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=3),
}


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("name", SCHEDULES)
def test_each_rate_is_pytorchs(name: str, traced: bool) -> None:
    weight = jg.nn.Parameter(jg.asarray([1.0, 2.0]))
    optimizer = jg.optim.SGD([weight], lr=0.1, momentum=0.9)
    schedule = SCHEDULES[name](optimizer)

    def step() -> None:
        optimizer.zero_grad()
        (weight * weight).sum().backward()
        optimizer.step()
        schedule.step(*([1.0] if name == "plat" else []))

    call = jg.trace(step) if traced else step
    rates = []
    for _ in range(10):
        call()
        rates.append(float(optimizer.param_groups[0]["lr"]))
    np.testing.assert_allclose(rates, RATES[name], rtol=1e-9)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_takes_a_traced_closure_and_refuses_a_traced_step(search: str | None) -> None:
    def losses(traced: bool) -> tuple[Any, list[float]]:
        weight = jg.nn.Parameter(jg.asarray([3.0, -2.0]))
        optimizer = jg.optim.LBFGS([weight], lr=0.5, max_iter=4, line_search_fn=search)

        def closure() -> jg.Tensor:
            optimizer.zero_grad()
            loss = ((weight - 1) ** 4).sum()
            loss.backward()
            return loss

        call = jg.trace(closure) if traced else closure
        return lambda: optimizer.step(closure), [float(optimizer.step(call)) for _ in range(3)]

    step, eager = losses(False)
    np.testing.assert_allclose(losses(True)[1], eager, rtol=1e-5)
    with pytest.raises(jg.TraceError, match="trace the closure"):
        jg.trace(step)()
