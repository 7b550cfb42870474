"""Schedules made of schedules, one after another or all at once, and the one that reads a metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from jitgraph.errors import JitgraphError, TraceError
from jitgraph.ir import context
from jitgraph.optim.lr_scheduler.base import LRScheduler, for_groups, optimizer_of
from jitgraph.optim.optimizer import Optimizer
from jitgraph.tensor import Tensor

# ----------------------------------------------------------------------
# A schedule that reads a metric.


class ReduceLROnPlateau(LRScheduler):
    """Rates times ``factor`` once a metric has not improved for more than ``patience`` epochs.

    Better is lower, or higher with ``mode="max"``, than the best by ``threshold``, as a share of it ("rel") or as it is
    ("abs"). After a reduction ``cooldown`` epochs do not count. Rates stay above ``min_lr``, and a change of at most
    ``eps`` is left out. A tensor is a metric outside of traces alone, as the rate follows from its value.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        self.optimizer = optimizer_of(optimizer)
        if factor >= 1.0:
            raise JitgraphError(f"ReduceLROnPlateau: factor is {factor}; it must be below 1")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            actual = f"{mode!r} and {threshold_mode!r}"
            raise JitgraphError(
                f"ReduceLROnPlateau: mode is 'min' or 'max', threshold_mode 'rel' or 'abs', not {actual}"
            )
        self.factor, self.patience, self.cooldown, self.eps = float(factor), patience, cooldown, float(eps)
        self.mode, self.threshold, self.threshold_mode = mode, float(threshold), threshold_mode
        self.min_lrs = for_groups("min_lr", min_lr, optimizer)
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else float(min_lr)
        self.last_epoch = 0
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.best = self.mode_worse
        self.cooldown_counter = self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs do not count just now."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take the metric of an epoch, a number or a tensor of one element."""
        if isinstance(metrics, Tensor) and context.current().trace is not None:
            raise TraceError(
                "ReduceLROnPlateau.step(metric) reads the metric's value, which is not known while a trace records",
                hint="return the metric from the traced function, and step the schedule with it outside",
            )
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                what = f"min_lr has {len(self.min_lrs)} values for {len(groups)} parameter groups"
                raise JitgraphError(f"{what}\n  hint: set schedule.min_lrs to a list with one for each")
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            reduced = max(group["lr"] * self.factor, least)
            if group["lr"] - reduced > self.eps:
                group["lr"] = reduced

    def _is_better(self, metric: float) -> bool:
        sign = 1.0 if self.mode == "max" else -1.0
        if self.threshold_mode == "abs":
            return sign * metric > sign * (self.best + sign * self.threshold)
        return sign * metric > sign * (self.best * (1.0 + sign * self.threshold))


# ----------------------------------------------------------------------
# Schedules made of schedules: one after another, or all at once.


class _Composed(LRScheduler):
    _schedulers: list[LRScheduler]

    def _begin(self) -> None:
        """As the first part of a sequence, behind ``_take_back``: a step of its own, as in PyTorch."""
        self.step()

    def state_dict(self) -> dict[str, Any]:
        """That of each schedule, and of their composition."""
        return {**super().state_dict(), "_schedulers": [schedule.state_dict() for schedule in self._schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        saved = state_dict.get("_schedulers", ())
        if len(saved) != len(self._schedulers):
            raise JitgraphError(f"the saved state is of {len(saved)} schedules, not of {len(self._schedulers)}")
        for schedule, own in zip(self._schedulers, saved, strict=True):
            schedule.load_state_dict(own)
        self.last_epoch = state_dict.get("last_epoch", self._schedulers[0].last_epoch)


class SequentialLR(_Composed):
    """One schedule after another: at each of ``milestones`` the next one begins with its epoch 0.

    A warm-up is ``SequentialLR(optimizer, [LinearLR(...), CosineAnnealingLR(...)], [5])``. A traced step is recorded
    once more for each part; the code is the same.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        self._schedulers = _of(optimizer, schedulers, "SequentialLR")
        self.optimizer = optimizer
        if len(milestones) != len(schedulers) - 1:
            actual = f"{len(milestones)} milestones for {len(schedulers)} schedules"
            raise JitgraphError(f"SequentialLR takes one milestone fewer than schedules, not {actual}")
        for schedule in self._schedulers[1:]:
            if isinstance(schedule, _Composed):
                raise JitgraphError(
                    f"SequentialLR takes a {type(schedule).__name__} as its first part alone: it cannot begin anew\n"
                    "  hint: list its schedules as parts, or chain the whole sequence with them"
                )
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for schedule in self._schedulers:
            _take_back(schedule)
        self._schedulers[sum(milestone <= 0 for milestone in milestones)]._begin()

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch."""
        if epoch is not None:
            raise JitgraphError("SequentialLR goes from epoch to epoch: step() takes none")
        self.last_epoch += 1
        number = 0
        for milestone in self._milestones:
            if self.last_epoch < milestone:
                break
            number += 1
        if number > 0 and self.last_epoch == self._milestones[number - 1]:
            self._schedulers[number]._go_to(0)
        else:
            self._schedulers[number].step()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_milestones": list(self._milestones)}


class ChainedScheduler(_Composed):
    """All schedules at each step, one after another on the same rates, so that their factors multiply."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if not schedulers:
            raise JitgraphError("ChainedScheduler takes at least one schedule")
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        self._schedulers = _of(self.optimizer, schedulers, "ChainedScheduler")
        self.last_epoch = 0

    def step(self, epoch: int | None = None) -> None:
        """Step all schedules."""
        if epoch is not None:
            raise JitgraphError("ChainedScheduler goes from epoch to epoch: step() takes none")
        self.last_epoch += 1
        for schedule in self._schedulers:
            schedule.step()

    def state_dict(self) -> dict[str, Any]:
        """That of each schedule; PyTorch's has no epoch of its own."""
        return {key: value for key, value in super().state_dict().items() if key != "last_epoch"}


def _of(optimizer: Optimizer, schedulers: Sequence[LRScheduler], name: str) -> list[LRScheduler]:
    if not schedulers:
        raise JitgraphError(f"{name} takes at least one schedule")
    for schedule in schedulers:
        if not isinstance(schedule, LRScheduler):
            raise JitgraphError(f"{name} takes schedules, not a {type(schedule).__name__}")
        if isinstance(schedule, ReduceLROnPlateau):
            raise JitgraphError(f"{name} takes no ReduceLROnPlateau, whose step needs a metric")
        if schedule.optimizer is not optimizer:
            raise JitgraphError(f"{name} takes schedules of one optimiser, not of several")
    return list(schedulers)


def _take_back(schedule: LRScheduler) -> None:
    """Undo the step that a schedule took when it was made."""
    if isinstance(schedule, _Composed):
        for inner in schedule._schedulers:
            _take_back(inner)
    else:
        schedule.last_epoch -= 1
