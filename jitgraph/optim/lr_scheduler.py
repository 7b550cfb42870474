"""Schedules of the learning rate; the names and formulas are PyTorch's. Each ``step()`` sets ``lr`` of every group."""

from __future__ import annotations

import math
from collections.abc import Callable

from jitgraph.errors import JitgraphError
from jitgraph.optim.optimizer import Optimizer
from jitgraph.tracing.host import as_float, host_math

__all__ = ["CosineAnnealingLR", "ExponentialLR", "LRScheduler", "LambdaLR", "StepLR"]


class LRScheduler:
    """Base: ``factor_at(epoch, group)`` gives the rate of a group, whose first rate is ``initial_lr``."""

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise JitgraphError(f"a schedule takes an optimiser first, not a {type(optimizer).__name__}")
        self.optimizer = optimizer
        self.last_epoch = 0
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self._apply()

    def rate(self, initial: float, epoch: int) -> float:
        """The learning rate at ``epoch`` of a group that began with ``initial``."""
        raise NotImplementedError

    def step(self) -> None:
        """Go to the next epoch."""
        self.last_epoch += 1
        self._apply()

    def _apply(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = as_float(self.rate(group["initial_lr"], self.last_epoch))

    def get_last_lr(self) -> list[float]:
        """The present rate of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, int]:
        """The epoch."""
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go to the saved epoch."""
        self.last_epoch = state["last_epoch"]
        self._apply()


class LambdaLR(LRScheduler):
    """``initial * lr_lambda(epoch)``."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float]) -> None:
        self.lr_lambda = lr_lambda
        super().__init__(optimizer)

    def rate(self, initial: float, epoch: int) -> float:
        return initial * self.lr_lambda(epoch)


class StepLR(LRScheduler):
    """``initial * gamma ** (epoch // step_size)``."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer)

    def rate(self, initial: float, epoch: int) -> float:
        return initial * self.gamma ** (epoch // self.step_size)


class ExponentialLR(LRScheduler):
    """``initial * gamma ** epoch``."""

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.gamma = gamma
        super().__init__(optimizer)

    def rate(self, initial: float, epoch: int) -> float:
        return initial * self.gamma**epoch


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from ``initial`` to ``eta_min`` over ``T_max`` epochs (Loshchilov and Hutter 2017)."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:  # noqa: N803
        self.span, self.eta_min = T_max, eta_min
        super().__init__(optimizer)

    def rate(self, initial: float, epoch: int) -> float:
        cosine: float = host_math("cos", math.pi * epoch / self.span)
        return self.eta_min + (initial - self.eta_min) * (1.0 + cosine) / 2.0
