"""Cosine schedules (Loshchilov and Hutter 2017)."""

from __future__ import annotations

import math
from typing import Any

from jitgraph.errors import JitgraphError
from jitgraph.optim.lr_scheduler.base import LRScheduler
from jitgraph.optim.optimizer import Optimizer
from jitgraph.tracing.host import host_formula


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first rate to ``eta_min`` over ``T_max`` epochs, and back behind them.

    Each rate is made of the one before, as in PyTorch, so that other changes of the rates stay.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:  # noqa: N803
        if T_max < 1:
            raise JitgraphError(f"CosineAnnealingLR: T_max is {T_max}; it must be at least 1")
        self.T_max, self.eta_min = T_max, float(eta_min)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of the epoch before, moved along the cosine."""
        if self._is_initial:
            return self._rates()
        turn = math.pi / self.T_max
        numbers = {"turn": turn, "span": self.T_max, "epoch": self.last_epoch}
        rises = host_formula("1.0 if (epoch - 1 - span) % (2 * span) == 0 else 0.0", **numbers)  # at 0 / 0
        ratio = "(1.0 + math.cos(turn * epoch)) / (1.0 + math.cos(turn * (epoch - 1)))"
        share = host_formula(f"1.0 if (epoch - 1 - span) % (2 * span) == 0 else {ratio}", **numbers)
        first = (1.0 - math.cos(turn)) / 2.0
        return [
            (rate - self.eta_min) * share + (self.eta_min + rises * ((base - self.eta_min) * first))
            for rate, base in zip(self._rates(), self.base_lrs, strict=True)
        ]

    def closed_form(self) -> list[float]:
        """``eta_min + (initial - eta_min) * (1 + cos(pi * epoch / T_max)) / 2``."""
        return _cosine(self.base_lrs, self.eta_min, self.last_epoch, self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the first rate to ``eta_min`` over ``T_0`` epochs, again and again, ``T_mult`` times as long.

    ``step(epoch)`` takes fractions of an epoch as well.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803
        T_mult: int = 1,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 < 1 or T_mult < 1:
            raise JitgraphError(f"CosineAnnealingWarmRestarts: T_0={T_0} and T_mult={T_mult} must be at least 1")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, float(eta_min)
        self.T_cur: Any = max(last_epoch, 0)
        super().__init__(optimizer, last_epoch)

    def _begin(self) -> None:
        self._is_initial = True
        self.step(0 if self.last_epoch < 0 else None)
        self._is_initial = False

    def get_lr(self) -> list[float]:
        """``eta_min + (initial - eta_min) * (1 + cos(pi * T_cur / T_i)) / 2``."""
        return _cosine(self.base_lrs, self.eta_min, self.T_cur, self.T_i)

    def step(self, epoch: Any = None) -> None:
        """Go to the next epoch, or to this one, which may have a fraction."""
        if epoch is None:
            self.last_epoch += 1
            reached, length = self.T_cur + 1, self.T_i
            self.T_cur = host_formula("cur % span if cur >= span else cur", cur=reached, span=length)
            self.T_i = host_formula(
                "span * times if cur >= span else span", cur=reached, span=length, times=self.T_mult
            )
        else:
            if not epoch >= 0:
                raise JitgraphError(f"an epoch is at least 0, not {epoch}")
            self._find(epoch)
            self.last_epoch = math.floor(epoch)
        for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = rate

    def _find(self, epoch: Any) -> None:
        """The cycle in which an epoch lies."""
        self.T_cur, self.T_i = epoch, self.T_0
        while self.T_cur >= self.T_i:
            if self.T_mult == 1:
                self.T_cur = epoch % self.T_0
                break
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult


def _cosine(rates: list[float], least: float, reached: Any, span: Any) -> list[float]:
    text = "least + height * (1.0 + math.cos(pi * reached / span)) / 2.0"
    return [
        host_formula(text, least=least, height=rate - least, pi=math.pi, reached=reached, span=span) for rate in rates
    ]
