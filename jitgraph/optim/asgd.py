"""Averaged stochastic gradient descent (Polyak and Juditsky 1992)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jitgraph.nn.module import Parameter
from jitgraph.optim.formulas import counted, decayed, rounded, zero_count
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import Setting, without_effect
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import ones, zeros, zeros_like
from jitgraph.tensor.functions.elementwise import maximum, where


class ASGD(Optimizer):
    """``p -= eta * (g + lambd * p)`` with ``eta = lr / (1 + lambd * lr * t) ** alpha``; state "ax" has p's average.

    The average begins at step ``t0``. Weight decay is added to the gradient. ``foreach`` and ``capturable`` change
    nothing here.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = {
            "lr": float(lr),
            "lambd": float(lambd),
            "alpha": float(alpha),
            "t0": float(t0),
            "weight_decay": float(weight_decay),
            **without_effect(
                "ASGD",
                maximize=maximize,
                foreach=foreach,
                capturable=capturable,
                differentiable=differentiable,
                lacks=("fused",),
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """The average, the next rate and weight of the average, and the count of steps."""
        count, device = zero_count(parameter), parameter.device
        return {
            "eta": zeros((), dtype=count.dtype, device=device),
            "mu": ones((), dtype=count.dtype, device=device),
            "ax": zeros_like(parameter.detach()),
            "step": count,
        }

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        lr, lambd = setting["lr"], setting["lambd"]
        eta, weight, average = state["eta"], state["mu"], state["ax"]
        now = where(state["step"] == 0, zeros_like(eta) + lr, eta)  # the rate may change until the first step
        count = counted(state)
        grad = decayed(parameter, grad, setting)
        parameter *= rounded(1.0 - lambd * now.astype(count.dtype), parameter)
        parameter -= rounded(now, parameter) * grad
        moved = average + (parameter - average) * rounded(weight, parameter)
        average[...] = where(weight == 1, parameter.detach(), moved)
        eta[...] = (lr / (1.0 + lambd * lr * count) ** setting["alpha"]).astype(eta.dtype)
        weight[...] = (1.0 / maximum(count - setting["t0"], 1.0)).astype(weight.dtype)
