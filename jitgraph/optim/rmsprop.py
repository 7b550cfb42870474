"""RMSprop (Hinton 2012, lecture 6e), with PyTorch's settings."""

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


class RMSprop(Optimizer):
    """``v = alpha * v + (1 - alpha) * g^2``; ``p -= lr * g / (sqrt(v) + eps)``, with momentum and centring if asked.

    ``foreach`` and ``capturable`` change nothing here.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": float(lr),
            "alpha": float(alpha),
            "eps": float(eps),
            "weight_decay": float(weight_decay),
            "momentum": float(momentum),
            "centered": centered,
            **without_effect(
                "RMSprop",
                maximize=maximize,
                foreach=foreach,
                capturable=capturable,
                differentiable=differentiable,
                lacks=("fused",),
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """Zero averages: of squares, of gradients where centred, and a momentum buffer where there is momentum."""
        like = parameter.detach()
        state = {"square_avg": zeros_like(like)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(like)
        if group["centered"]:
            state["grad_avg"] = zeros_like(like)
        return {**state, "step": zero_count(parameter)}

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        grad = decayed(parameter, grad, setting)
        if (setting["centered"] and "grad_avg" not in state) or (
            "momentum_buffer" not in state and not setting.is_zero("momentum")
        ):
            self._complete(state, parameter, setting.group)
        alpha, square, step = setting["alpha"], state["square_avg"], state["step"]
        step += 1
        average_in(square, alpha, grad * grad)
        variance = square
        if "grad_avg" in state:
            average = state["grad_avg"]
            average_in(average, alpha, grad)
            variance = square - average * average
        move = grad / (sqrt(variance) + setting["eps"])
        if "momentum_buffer" in state:
            buffer = state["momentum_buffer"]
            buffer *= setting["momentum"]
            buffer += move
            move = buffer
        parameter -= setting["lr"] * move
