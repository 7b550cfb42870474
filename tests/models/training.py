"""A small network that is trained for 20 steps in float64, by jitgraph or by PyTorch with the same code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.models.optimizer_cases import OptimizerCase
from tests.models.scheduler_cases import SchedulerCase

STEPS, HALF = 20, 10
_RANDOM = np.random.default_rng(7)
_START = [_RANDOM.normal(size=(3, 4)), _RANDOM.normal(size=4), np.array(1.5)]
_X, _Y = _RANDOM.normal(size=(6, 3)), _RANDOM.normal(size=(6, 4))


class Run:
    """Parameters, a loss and an optimiser of one library; ``step()`` is a training step."""

    def __init__(self, lib: Any, make: Callable[[Any, list[Any]], Any], start: list[np.ndarray] | None = None) -> None:
        self.lib = lib
        self.parameters = [lib.nn.Parameter(lib.asarray(np.array(value))) for value in (start or _START)]
        self.x, self.y = lib.asarray(_X), lib.asarray(_Y)
        self.optimizer = make(lib, self.parameters)
        self.schedule: Any = None

    def closure(self) -> Any:
        self.optimizer.zero_grad()
        w, b, s = self.parameters
        difference = self.lib.tanh(self.x @ w + b) * s - self.y
        loss = (difference * difference).sum()
        loss.backward()
        return loss

    def step(self) -> Any:
        loss = self.optimizer.step(self.closure)
        if self.schedule is not None:
            self.schedule.step()
        return loss

    def values(self) -> list[np.ndarray]:
        return [p.detach().numpy().copy() for p in self.parameters]


def scheduled(lib: Any, case: SchedulerCase) -> Run:
    settings = {"momentum": 0.9} if case.optimizer == "SGD" else {}

    def make(lib: Any, params: list[Any]) -> Any:
        groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.01}]
        return getattr(lib.optim, case.optimizer)(groups, lr=0.02, **settings)

    run = Run(lib, make)
    run.schedule = case.make(lib, run.optimizer)
    return run


def advance(run: Run, case: SchedulerCase, number: int, step: Callable[[], Any] | None = None) -> None:
    if case.metric is None:
        (step or run.step)()
    else:
        run.optimizer.step(run.closure)
        run.schedule.step(case.metric(number))


def summary(run: Run) -> float:
    """One number that all parameters have a part in."""
    flat = np.concatenate([value.ravel() for value in run.values()])
    return float(flat @ np.cos(np.arange(flat.size)))


def trained(lib: Any, case: OptimizerCase) -> float:
    """The summary after all steps of a case of an optimiser."""
    run = Run(lib, case.make)
    for _ in range(STEPS):
        run.step()
    return summary(run)


def rates(lib: Any, case: SchedulerCase) -> list[float]:
    """The first group's rate after each step of a case of a schedule."""
    run, actual = scheduled(lib, case), []
    for number in range(STEPS):
        advance(run, case, number)
        actual.append(float(run.schedule.get_last_lr()[0]))
    return actual
