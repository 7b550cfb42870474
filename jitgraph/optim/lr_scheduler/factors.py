"""Schedules that multiply rates by a factor of the epoch's, the user's functions too; factors of chained ones
multiply.
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jitgraph.errors import JitgraphError
from jitgraph.optim.lr_scheduler.base import LRScheduler
from jitgraph.optim.optimizer import Optimizer
from jitgraph.tracing.call.host import host_formula

# ----------------------------------------------------------------------
# Schedules by functions of the user's.


class LambdaLR(LRScheduler):
    """``initial * lr_lambda(epoch)``; a list of functions has one for each group.

    In a traced step the function gets a number that varies: what it asks of it (``if epoch < 5``) is recorded once for
    each answer.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self._functions = _functions(type(self).__name__, optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The first rates times what the functions give."""
        return [rate * function(self.last_epoch) for rate, function in zip(self.base_lrs, self._functions, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """As of any schedule; of the functions only those that are objects with attributes have a part in it."""
        return {**super().state_dict(), "lr_lambdas": _states(self._functions)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, saved in zip(self._functions, state_dict.get("lr_lambdas", ()), strict=False):
            if saved is not None:
                vars(function).update(saved)


class MultiplicativeLR(LambdaLR):
    """Rates times ``lr_lambda(epoch)`` at each epoch after the first; otherwise as LambdaLR."""

    def get_lr(self) -> list[float]:
        """The rates of the epoch before times what the functions give."""
        if self._is_initial:
            return self._rates()
        return [rate * function(self.last_epoch) for rate, function in zip(self._rates(), self._functions, strict=True)]


def _functions(name: str, optimizer: Any, lr_lambda: Any) -> tuple[Callable[[int], float], ...]:
    groups = getattr(optimizer, "param_groups", ())
    functions = tuple(lr_lambda) if isinstance(lr_lambda, list | tuple) else (lr_lambda,) * len(groups)
    if len(functions) != len(groups):
        raise JitgraphError(f"{name} has {len(functions)} functions for {len(groups)} parameter groups")
    for function in functions:
        if not callable(function):
            raise JitgraphError(f"{name} takes a function of the epoch, not a {type(function).__name__}")
    return functions


def _states(functions: Sequence[Any]) -> list[dict[str, Any] | None]:
    return [None if isinstance(f, types.FunctionType) else dict(getattr(f, "__dict__", {})) for f in functions]


# ----------------------------------------------------------------------
# Schedules that multiply rates by a factor of the epoch's; the factors of schedules that are chained multiply.


class _Decay(LRScheduler):
    """``factor()`` is what rates are multiplied by at ``last_epoch``, ``whole_factor()`` all factors up to there."""

    waits = False  # whether rates stay as they are in the first step of a schedule that goes on, as in PyTorch

    def factor(self) -> Any:
        raise NotImplementedError

    def whole_factor(self) -> Any:
        raise NotImplementedError

    def get_lr(self) -> list[float]:
        """The rates of the epoch before times the factor."""
        if self.waits and self._is_initial and self.last_epoch > 0:
            return self._rates()
        factor = self.factor()
        return [rate * factor for rate in self._rates()]

    def closed_form(self) -> list[float]:
        """The first rates times all factors."""
        factor = self.whole_factor()
        return [rate * factor for rate in self.base_lrs]


class StepLR(_Decay):
    """Rates times ``gamma`` at each epoch that ``step_size`` divides."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        if step_size < 1:
            raise JitgraphError(f"StepLR: step_size is {step_size}; it must be at least 1")
        self.step_size, self.gamma = step_size, float(gamma)
        super().__init__(optimizer, last_epoch)

    def factor(self) -> Any:
        text = "gamma if epoch % size == 0 and epoch > 0 else 1.0"
        return host_formula(text, gamma=self.gamma, epoch=self.last_epoch, size=self.step_size)

    def whole_factor(self) -> Any:
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(_Decay):
    """Rates times ``gamma`` at each epoch in ``milestones``, once for each time it occurs there."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), float(gamma)
        super().__init__(optimizer, last_epoch)

    def factor(self) -> Any:
        """``gamma`` for each time that the epoch stands among the milestones."""
        counts = range(1, max(self.milestones.values(), default=0) + 1)
        often = [[epoch for epoch, times in sorted(self.milestones.items()) if times >= count] for count in counts]
        times = " + ".join(f"(epoch in ({', '.join(map(str, milestones))},))" for milestones in often) or "0 * epoch"
        return host_formula(f"gamma ** ({times})", gamma=self.gamma, epoch=self.last_epoch)

    def whole_factor(self) -> Any:
        times = " + ".join(f"(epoch >= {epoch})" for epoch in sorted(self.milestones.elements())) or "0 * epoch"
        return host_formula(f"gamma ** ({times})", gamma=self.gamma, epoch=self.last_epoch)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.milestones = Counter(self.milestones)


class ConstantLR(_Decay):
    """Rates times ``factor`` until epoch ``total_iters``."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0.0 < factor <= 1.0:
            raise JitgraphError(f"ConstantLR: factor is {factor}; it must lie between 0 and 1, and above 0")
        self._share, self.total_iters = float(factor), total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self) -> Any:
        text = "factor if epoch == 0 else (1.0 / factor if epoch == last else 1.0)"
        return host_formula(text, factor=self._share, epoch=self.last_epoch, last=self.total_iters)

    def whole_factor(self) -> Any:
        text = "1.0 if epoch >= last else factor"
        return host_formula(text, factor=self._share, epoch=self.last_epoch, last=self.total_iters)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "factor": self._share}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "factor"})
        self._share = float(state_dict.get("factor", self._share))


class LinearLR(_Decay):
    """Rates times a factor that goes from ``start_factor`` to ``end_factor`` in ``total_iters`` epochs."""

    waits = True

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0.0 < start_factor <= 1.0 or not 0.0 <= end_factor <= 1.0:
            actual = f"start_factor={start_factor}, end_factor={end_factor}"
            raise JitgraphError(f"LinearLR: factors lie between 0 and 1, the first above 0, not {actual}")
        self.start_factor, self.end_factor, self.total_iters = float(start_factor), float(end_factor), total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self) -> Any:
        """The share of the rates before, so that other changes of the rates stay."""
        text = "begin if epoch == 0 else (1.0 if epoch > last else 1.0 + rise / (last * begin + (epoch - 1) * rise))"
        return host_formula(text, **self._numbers())

    def whole_factor(self) -> Any:
        return host_formula("begin + rise * min(last, epoch) / last", **self._numbers())

    def _numbers(self) -> dict[str, Any]:
        rise = self.end_factor - self.start_factor
        return {"begin": self.start_factor, "rise": rise, "epoch": self.last_epoch, "last": self.total_iters}


class ExponentialLR(_Decay):
    """Rates times ``gamma`` at each epoch."""

    waits = True

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = float(gamma)
        super().__init__(optimizer, last_epoch)

    def factor(self) -> Any:
        return 1.0 if self._is_initial else self.gamma

    def whole_factor(self) -> Any:
        return self.gamma**self.last_epoch


class PolynomialLR(_Decay):
    """``initial * (1 - epoch / total_iters) ** power`` until ``total_iters``."""

    waits = True

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        if total_iters < 1:
            raise JitgraphError(f"PolynomialLR: total_iters is {total_iters}; it must be at least 1")
        self.total_iters, self.power = total_iters, float(power)
        super().__init__(optimizer, last_epoch)

    def factor(self) -> Any:
        text = "1.0 if epoch == 0 or epoch > last else ((1.0 - epoch / last) / (1.0 - (epoch - 1) / last)) ** power"
        return host_formula(text, epoch=self.last_epoch, last=self.total_iters, power=self.power)

    def whole_factor(self) -> Any:
        text = "(1.0 - min(last, epoch) / last) ** power"
        return host_formula(text, epoch=self.last_epoch, last=self.total_iters, power=self.power)
