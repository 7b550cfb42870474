"""Schedules along cosines (Loshchilov and Hutter 2017), and those that raise and lower rates, and the momentum against
them (Smith 2017; Smith and Topin 2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from jitgraph.optim.lr_scheduler.base import LRScheduler, for_groups, optimizer_of
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import SettingError
from jitgraph.tracing.call.host import host_formula


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first rate to ``eta_min`` over ``T_max`` epochs, and back afterwards.

    Each rate is made of the one before, as in PyTorch, so that other changes of the rates stay.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:  # noqa: N803
        if T_max < 1:
            raise SettingError(f"CosineAnnealingLR: T_max is {T_max}; it must be at least 1")
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
            raise SettingError(f"CosineAnnealingWarmRestarts: T_0={T_0} and T_mult={T_mult} must be at least 1")
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
                raise SettingError(f"an epoch is at least 0, not {epoch}")
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


class CyclicLR(LRScheduler):
    """Rates that go from ``base_lr`` to ``max_lr`` in ``step_size_up`` steps and back in ``step_size_down``.

    ``mode``: "triangular"; "triangular2", whose cycles are each half as high as the one before; "exp_range", whose
    height is ``gamma ** epoch``. ``scale_fn`` gives another height, of the cycle's number or, by
    ``scale_mode="iterations"``, of the epoch. With ``cycle_momentum`` the momentum (or the first beta) goes the other
    way.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[Any], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        optimizer_of(optimizer)
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise SettingError(f"CyclicLR: mode is 'triangular', 'triangular2' or 'exp_range', not {mode!r}")
        if scale_mode not in ("cycle", "iterations"):
            raise SettingError(f"CyclicLR: scale_mode is 'cycle' or 'iterations', not {scale_mode!r}")
        lower = for_groups("base_lr", base_lr, optimizer)
        self.max_lrs = for_groups("max_lr", max_lr, optimizer)
        up, down = float(step_size_up), float(step_size_up if step_size_down is None else step_size_down)
        self.total_size, self.step_ratio = up + down, up / (up + down)
        self.mode, self.gamma = mode, float(gamma)
        self._scale = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, lower, strict=True):
                group["lr"] = rate
        if cycle_momentum:
            self._momentum = _momentum_of("CyclicLR", optimizer)
            self.base_momentums = for_groups("base_momentum", base_momentum, optimizer)
            self.max_momentums = for_groups("max_momentum", max_momentum, optimizer)
            for group, low, high in zip(optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True):
                group.update({"base_momentum": low, "max_momentum": high, self._momentum: high})
            optimizer.add_missing_state()
        self._lower = lower
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lower

    def get_lr(self) -> list[float]:
        """The rates of this step; the momentum is set as well."""
        cycle = host_formula("math.floor(1.0 + epoch / total)", epoch=self.last_epoch, total=self.total_size)
        position = 1.0 + self.last_epoch / self.total_size - cycle
        text = "place / turn if place <= turn else (place - 1.0) / (turn - 1.0)"
        share = host_formula(text, place=position, turn=self.step_ratio)
        height = share * self._height(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                group[self._momentum] = high - (high - low) * height
        return [low + (high - low) * height for low, high in zip(self._lower, self.max_lrs, strict=True)]

    def _height(self, number: Any) -> Any:
        if self._scale is not None:
            return self._scale(number)
        if self.mode == "triangular":
            return 1.0
        return 0.5 ** (number - 1) if self.mode == "triangular2" else self.gamma**number

    def state_dict(self) -> dict[str, Any]:
        """As of any schedule; a ``scale_fn`` is left out."""
        more = {"use_beta1": self._momentum == "beta1"} if self.cycle_momentum else {}
        return {**super().state_dict(), **more, "_scale_fn_custom": None}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "use_beta1"})
        self._lower = self.base_lrs


class OneCycleLR(LRScheduler):
    """One cycle of ``total_steps``: up to ``max_lr``, then down to nearly nothing, by cosines or lines.

    Rates begin with ``max_lr / div_factor``, rise during ``pct_start`` of the steps and end with that first rate
    divided by ``final_div_factor``; with ``three_phase`` they fall to the first rate as fast as they rose, and then on.
    With ``cycle_momentum`` the momentum (or the first beta) goes the other way. A step behind the last is an error.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        optimizer_of(optimizer)
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise SettingError("OneCycleLR needs total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if total_steps < 1 or not 0.0 <= pct_start <= 1.0:
            actual = f"{total_steps} steps and pct_start={pct_start}"
            raise SettingError(f"OneCycleLR takes at least one step and a pct_start between 0 and 1, not {actual}")
        if anneal_strategy not in ("cos", "linear"):
            raise SettingError(f"OneCycleLR: anneal_strategy is 'cos' or 'linear', not {anneal_strategy!r}")
        self.total_steps = total_steps
        self._is_cosine = anneal_strategy == "cos"
        turns = [pct_start * total_steps - 1.0, *([2.0 * pct_start * total_steps - 2.0] if three_phase else [])]
        self._ends = (0.0, *turns, total_steps - 1.0)
        middle = ("initial_lr",) if three_phase else ()
        self._rates_at = ("initial_lr", "max_lr", *middle, "min_lr")
        self._momenta_at = ("max_momentum", "base_momentum", "max_momentum", "max_momentum")[: len(self._ends)]
        if last_epoch == -1:
            for group, highest in zip(optimizer.param_groups, for_groups("max_lr", max_lr, optimizer), strict=True):
                first = highest / div_factor
                group.update(initial_lr=first, max_lr=highest, min_lr=first / final_div_factor)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._momentum = _momentum_of("OneCycleLR", optimizer)
            lows = for_groups("base_momentum", base_momentum, optimizer)
            highs = for_groups("max_momentum", max_momentum, optimizer)
            if last_epoch == -1:
                for group, low, high in zip(optimizer.param_groups, lows, highs, strict=True):
                    group.update({"base_momentum": low, "max_momentum": high, self._momentum: high})
                optimizer.add_missing_state()
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of this step; the momentum is set as well."""
        if self.last_epoch > self.total_steps:  # one beyond the last rate: a loop may step after each batch
            raise SettingError(f"OneCycleLR has {self.total_steps} steps, and this is one more")
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                group[self._momentum] = self._between([group[name] for name in self._momenta_at])
        return [self._between([group[name] for name in self._rates_at]) for group in self.optimizer.param_groups]

    def _between(self, heights: list[float]) -> Any:
        """The height at this step on a line or cosine between those at the ends of the phases."""
        text = ""
        numbers: dict[str, Any] = {"epoch": self.last_epoch}
        phases = list(zip(pairwise(self._ends), pairwise(heights), strict=True))
        for number, ((begin, end), (first, last)) in enumerate(phases):
            progress = f"(epoch - b{number}) * w{number}"
            curve = f"(1.0 + math.cos({progress})) / 2.0" if self._is_cosine else f"(1.0 - {progress})"
            part = f"l{number} + h{number} * {curve}"
            is_last = number == len(phases) - 1
            text += f"({part})" if is_last else f"({part}) if epoch <= e{number} else "
            span = end - begin
            scale = math.pi if self._is_cosine else 1.0
            numbers |= {f"b{number}": begin, f"e{number}": end, f"l{number}": last, f"h{number}": first - last}
            numbers |= {f"w{number}": scale / span if span else 0.0}
        return host_formula(text, **numbers)

    def state_dict(self) -> dict[str, Any]:
        more = {"use_beta1": self._momentum == "beta1"} if self.cycle_momentum else {}
        return {**super().state_dict(), **more}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "use_beta1"})


def _momentum_of(name: str, optimizer: Optimizer) -> str:
    """The setting that is cycled: momentum, or the first beta."""
    for setting in ("beta1", "momentum"):
        if setting in optimizer.defaults:
            return setting
    kind = type(optimizer).__name__
    raise SettingError(f"{name} cycles the momentum, which {kind} has not\n  hint: cycle_momentum=False")
