"""Schedules that are held against PyTorch's: rates and momenta over 20 steps, eager, traced, and exchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SchedulerCase:
    """``make(lib, optimizer)`` gives a schedule. ``recordings`` is how often a traced step is recorded in 20 calls.

    ``metric`` gives the argument of ``step`` for an epoch, for schedules that read one.
    """

    name: str
    make: Callable[[Any, Any], Any]
    optimizer: str = "SGD"
    recordings: int | None = 1
    metric: Callable[[int], float] | None = None
    tolerance: float = 1e-9


def _plain(
    name: str, kind: str, /, optimizer: str = "SGD", recordings: int | None = 1, **settings: Any
) -> SchedulerCase:
    def make(lib: Any, owner: Any) -> Any:
        return getattr(lib.optim.lr_scheduler, kind)(owner, **settings)

    return SchedulerCase(name, make, optimizer)


def _warm_up(lib: Any, optimizer: Any) -> Any:
    kinds = lib.optim.lr_scheduler
    first = kinds.LinearLR(optimizer, start_factor=0.1, total_iters=5)
    return kinds.SequentialLR(optimizer, [first, kinds.CosineAnnealingLR(optimizer, T_max=15)], milestones=[5])


def _three_parts(lib: Any, optimizer: Any) -> Any:
    kinds = lib.optim.lr_scheduler
    parts = [
        kinds.ConstantLR(optimizer, factor=0.5, total_iters=3),
        kinds.ExponentialLR(optimizer, gamma=0.8),
        kinds.StepLR(optimizer, step_size=3),
    ]
    return kinds.SequentialLR(optimizer, parts, milestones=[4, 11])


def _chained(lib: Any, optimizer: Any) -> Any:
    kinds = lib.optim.lr_scheduler
    parts = [kinds.ConstantLR(optimizer, factor=0.25, total_iters=4), kinds.ExponentialLR(optimizer, gamma=0.9)]
    return kinds.ChainedScheduler(parts)


def _chained_cosine(lib: Any, optimizer: Any) -> Any:
    kinds = lib.optim.lr_scheduler
    parts = [kinds.LinearLR(optimizer, start_factor=0.2, total_iters=6), kinds.CosineAnnealingLR(optimizer, T_max=25)]
    return kinds.ChainedScheduler(parts)


def _swa(lib: Any, optimizer: Any) -> Any:
    return lib.optim.swa_utils.SWALR(optimizer, swa_lr=0.02, anneal_epochs=7)


def _swa_linear(lib: Any, optimizer: Any) -> Any:
    return lib.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=5, anneal_strategy="linear")


CASES = [
    _plain("LambdaLR", "LambdaLR", lr_lambda=lambda epoch: 0.95**epoch),
    _plain("MultiplicativeLR", "MultiplicativeLR", lr_lambda=lambda epoch: 0.9),
    _plain("StepLR", "StepLR", step_size=4, gamma=0.5),
    _plain("MultiStepLR", "MultiStepLR", milestones=[3, 8, 8, 15], gamma=0.5),
    _plain("ConstantLR", "ConstantLR", factor=0.25, total_iters=6),
    _plain("LinearLR", "LinearLR", start_factor=0.1, end_factor=0.8, total_iters=9),
    _plain("ExponentialLR", "ExponentialLR", gamma=0.9),
    _plain("PolynomialLR", "PolynomialLR", total_iters=12, power=2.0),
    _plain("CosineAnnealingLR", "CosineAnnealingLR", T_max=12, eta_min=0.01),
    _plain("CosineAnnealingLR short", "CosineAnnealingLR", T_max=4),
    _plain("CosineAnnealingWarmRestarts", "CosineAnnealingWarmRestarts", T_0=3, T_mult=2, eta_min=0.01),
    _plain("CyclicLR", "CyclicLR", base_lr=0.01, max_lr=0.1, step_size_up=4, step_size_down=3),
    _plain("CyclicLR triangular2", "CyclicLR", "Adam", base_lr=0.01, max_lr=0.1, step_size_up=3, mode="triangular2"),
    _plain("CyclicLR exp_range", "CyclicLR", base_lr=0.01, max_lr=0.1, step_size_up=5, mode="exp_range", gamma=0.9),
    _plain("OneCycleLR", "OneCycleLR", max_lr=0.2, total_steps=22),
    _plain("OneCycleLR Adam", "OneCycleLR", "Adam", max_lr=0.2, epochs=3, steps_per_epoch=8, anneal_strategy="linear"),
    _plain("OneCycleLR three phases", "OneCycleLR", max_lr=0.2, total_steps=21, three_phase=True, pct_start=0.4),
    SchedulerCase(
        "ReduceLROnPlateau",
        lambda lib, optimizer: lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2, factor=0.5, cooldown=1),
        recordings=None,
        metric=lambda epoch: max(1.0 - 0.2 * epoch, 0.3),
    ),
    SchedulerCase(
        "ReduceLROnPlateau max, abs",
        lambda lib, optimizer: lib.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, mode="max", threshold_mode="abs", threshold=0.1, patience=1, min_lr=0.01
        ),
        recordings=None,
        metric=lambda epoch: 0.05 * epoch,
    ),
    SchedulerCase("SequentialLR warm-up", _warm_up, recordings=3),
    SchedulerCase("SequentialLR three parts", _three_parts, recordings=5),
    SchedulerCase("ChainedScheduler", _chained),
    SchedulerCase("ChainedScheduler cosine", _chained_cosine),
    SchedulerCase("SWALR", _swa),
    SchedulerCase("SWALR linear", _swa_linear),
]


def differences(case: SchedulerCase, torch: Any) -> dict[str, str | None]:
    """By column what differs from PyTorch, None for nothing, "-" where there is nothing to compare."""
    from tests.models.optimizers import check_scheduler, in_float64

    return in_float64(check_scheduler, case)
