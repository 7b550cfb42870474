"""Adadelta (Zeiler 2012)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jitgraph.nn.module import Parameter
from jitgraph.optim.formulas import average_in, decayed, zero_count
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import Setting, without_effect
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros_like
from jitgraph.tensor.functions.elementwise import sqrt


class Adadelta(Optimizer):
    """``p -= lr * d`` with ``d = sqrt(u + eps) / sqrt(v + eps) * g``; v and u average g^2 and d^2 by ``rho``.

    Weight decay is added to the gradient. ``foreach`` and ``capturable`` change nothing here.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": float(lr),
            "rho": float(rho),
            "eps": float(eps),
            "weight_decay": float(weight_decay),
            **without_effect(
                "Adadelta",
                maximize=maximize,
                foreach=foreach,
                capturable=capturable,
                differentiable=differentiable,
                lacks=("fused",),
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """Zero averages of squared gradients and moves, and the count of steps."""
        like = parameter.detach()
        return {"square_avg": zeros_like(like), "acc_delta": zeros_like(like), "step": zero_count(parameter)}

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        rho, eps = setting["rho"], setting["eps"]
        grad = decayed(parameter, grad, setting)
        square, moves, step = state["square_avg"], state["acc_delta"], state["step"]
        step += 1
        average_in(square, rho, grad * grad)
        move = sqrt(moves + eps) / sqrt(square + eps) * grad
        average_in(moves, rho, move * move)
        parameter -= setting["lr"] * move
