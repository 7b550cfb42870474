"""Schedules by functions of the user's."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgraph.errors import JitgraphError
from jitgraph.optim.lr_scheduler.base import LRScheduler
from jitgraph.optim.optimizer import Optimizer


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
