"""What schedules, averages and optimisers refuse, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

S = jg.optim.lr_scheduler


def parameter() -> jg.nn.Parameter:
    return jg.nn.Parameter(np.ones(2))


def sgd(**settings: Any) -> Any:
    return jg.optim.SGD([parameter()], **{"lr": 0.1, "momentum": 0.9, **settings})


def two_owners() -> Any:
    return S.ChainedScheduler([S.ExponentialLR(sgd(), 0.9), S.ExponentialLR(sgd(), 0.9)])


def past_the_end() -> None:
    schedule = S.OneCycleLR(sgd(), max_lr=0.1, total_steps=2)
    for _ in range(3):
        schedule.step()


def sequential(optimizer: Any) -> Any:
    return S.SequentialLR(optimizer, [S.ExponentialLR(optimizer, 0.9)], [3])


def nested(optimizer: Any) -> Any:
    parts = [S.ExponentialLR(optimizer, 0.8), S.ChainedScheduler([S.ConstantLR(optimizer, 0.5, 2)])]
    return S.SequentialLR(optimizer, parts, [4])


def plateau_in_a_trace() -> Any:
    schedule = S.ReduceLROnPlateau(sgd())
    return jg.trace(lambda x: schedule.step(x.sum()))(np.ones(2))


CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: nested(sgd()), "takes a ChainedScheduler as its first part alone"),
    (lambda: S.CyclicLR(3, 0.1, 0.2), "takes an optimiser first, not a int"),
    (lambda: S.StepLR(sgd(), 0), "step_size is 0; it must be at least 1"),
    (lambda: S.ConstantLR(sgd(), factor=0.0), "factor is 0.0; it must lie between 0 and 1"),
    (lambda: S.LinearLR(sgd(), start_factor=2.0), "factors lie between 0 and 1"),
    (lambda: S.PolynomialLR(sgd(), total_iters=0), "total_iters is 0"),
    (lambda: S.CosineAnnealingLR(sgd(), 0), "T_max is 0"),
    (lambda: S.CosineAnnealingWarmRestarts(sgd(), 0), "T_0=0 and T_mult=1 must be at least 1"),
    (lambda: S.CosineAnnealingWarmRestarts(sgd(), 2).step(-1), "an epoch is at least 0, not -1"),
    (lambda: S.ExponentialLR(sgd(), 0.9, last_epoch=3), "needs 'initial_lr' in parameter group 0"),
    (lambda: S.LambdaLR(sgd(), [abs, abs]), "2 functions for 1 parameter groups"),
    (lambda: S.LambdaLR(sgd(), 3), "takes a function of the epoch, not a int"),
    (lambda: S.CyclicLR(sgd(), [0.1, 0.2], 0.3), "base_lr has 2 values for 1 parameter groups"),
    (lambda: S.CyclicLR(sgd(), 0.1, 0.2, mode="square"), "mode is 'triangular', .* not 'square'"),
    (lambda: S.CyclicLR(jg.optim.Adagrad([parameter()]), 0.1, 0.2), "cycles the momentum, which Adagrad has not"),
    (lambda: S.OneCycleLR(sgd(), 0.1), "needs total_steps, or epochs and steps_per_epoch"),
    (past_the_end, "has 2 steps, and this is one more"),
    (lambda: S.ReduceLROnPlateau(sgd(), factor=1.0), "factor is 1.0; it must be below 1"),
    (plateau_in_a_trace, "reads the metric's value"),
    (lambda: sequential(sgd()), "one milestone fewer than schedules, not 1 milestones for 1"),
    (two_owners, "schedules of one optimiser"),
    (lambda: S.ChainedScheduler([]), "at least one schedule"),
    (lambda: S.ChainedScheduler([S.ReduceLROnPlateau(sgd())]), "no ReduceLROnPlateau"),
    (lambda: S.StepLR(sgd(), 2).load_state_dict({"gamma": 0.1}), "no state of a StepLR: it has no 'last_epoch'"),
    (lambda: jg.optim.swa_utils.SWALR(sgd(), 0.1, anneal_strategy="sin"), "'cos' or 'linear', not 'sin'"),
    (lambda: jg.optim.swa_utils.get_ema_avg_fn(1.5), "decay is 1.5"),
    (lambda: jg.optim.Rprop([parameter()], etas=(1.5, 2.0)), "etas are"),
    (lambda: jg.optim.Adafactor([parameter()], d=0.5), "d of at least 1"),
    (lambda: jg.optim.Adadelta([parameter()], rho=2.0), "rho is 2.0"),
    (lambda: jg.optim.LBFGS([parameter()], line_search_fn="armijo"), "None or 'strong_wolfe', not 'armijo'"),
    (lambda: jg.optim.LBFGS([parameter()]).step(), "evaluates the loss several times a step"),
    (lambda: jg.optim.LBFGS([{"params": [parameter()]}, {"params": [parameter()]}]), "one group of parameters"),
    (lambda: jg.optim.SGD([parameter()], differentiable=True), r"SGD\(differentiable=True\) is not there"),
]


@pytest.mark.parametrize(("mistake", "message"), CASES, ids=[message[:30] for _, message in CASES])
def test_it_says_what_is_wrong(mistake: Callable[[], Any], message: str) -> None:
    with pytest.raises(jg.JitgraphError, match=message):
        mistake()


def test_schedules_may_be_written_by_users() -> None:
    """``get_lr`` of a subclass, and a custom optimiser that steps by itself."""

    class Halving(S.LRScheduler):
        def get_lr(self) -> list[float]:
            return [rate * 0.5**self.last_epoch for rate in self.base_lrs]

    class Plain(jg.optim.Optimizer):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        def step(self, closure: Any = None) -> None:
            with jg.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p -= group["lr"] * p.grad

    p = parameter()
    optimizer = Plain([p], lr=1.0)
    schedule = Halving(optimizer)
    for _ in range(3):
        p.grad = jg.ones(2, dtype=jg.float64)
        optimizer.step()
        schedule.step()
    assert p.tolist() == [1 - 1 - 0.5 - 0.25] * 2 and schedule.get_last_lr() == [0.125]
    assert optimizer.state_dict() == {"state": {}, "param_groups": [{"lr": 0.125, "initial_lr": 1.0, "params": [0]}]}


def test_a_loop_may_step_the_one_cycle_after_each_batch() -> None:
    """PyTorch's rates of total_steps=4, where the last of four calls goes beyond the last rate."""
    optimizer = sgd()
    schedule = S.OneCycleLR(optimizer, max_lr=0.1, total_steps=4)
    rates = []
    for _ in range(4):
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    np.testing.assert_allclose(rates, [0.0811745653949763, 0.028306099820869922, 4e-07, 0.02830609982086991], rtol=1e-9)
