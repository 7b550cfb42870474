"""A schedule that reads a metric."""

from __future__ import annotations

import math
from typing import Any

from jitgraph.errors import JitgraphError, TraceError
from jitgraph.ir import context
from jitgraph.optim.lr_scheduler.base import LRScheduler, for_groups, optimizer_of
from jitgraph.optim.optimizer import Optimizer
from jitgraph.tensor import Tensor


class ReduceLROnPlateau(LRScheduler):
    """Rates times ``factor`` once a metric has not become better for more than ``patience`` epochs.

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
