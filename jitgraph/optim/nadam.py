"""NAdam: Adam with Nesterov's momentum (Dozat 2016)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jitgraph.nn.module import Parameter
from jitgraph.optim.formulas import average_in, counted, decayed_either_way, rounded, zero_count
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import Setting, without_effect
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import ones, zeros_like
from jitgraph.tensor.functions.elementwise import sqrt


class NAdam(Optimizer):
    """Adam whose first moment looks one step ahead, with a momentum mu_t that grows by ``momentum_decay``.

    ``mu_t = beta1 * (1 - 0.96 ** (t * momentum_decay) / 2)``. With ``decoupled_weight_decay`` weights decay as in
    AdamW. ``foreach`` and ``capturable`` change nothing here.
    """

    PAIRS = {"betas": ("beta1", "beta2")}  # noqa: RUF012 - a constant of the class

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": float(lr),
            "beta1": float(betas[0]),
            "beta2": float(betas[1]),
            "eps": float(eps),
            "weight_decay": float(weight_decay),
            "momentum_decay": float(momentum_decay),
            "decoupled_weight_decay": bool(decoupled_weight_decay),
            **without_effect(
                "NAdam",
                maximize=maximize,
                foreach=foreach,
                capturable=capturable,
                differentiable=differentiable,
                lacks=("fused",),
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """Zero moments, the count of steps and the product of all mu so far."""
        like, count = parameter.detach(), zero_count(parameter)
        return {
            "exp_avg": zeros_like(like),
            "exp_avg_sq": zeros_like(like),
            "mu_product": ones((), dtype=count.dtype, device=parameter.device),
            "step": count,
        }

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        lr, beta1, beta2, decay = (setting[name] for name in ("lr", "beta1", "beta2", "momentum_decay"))
        count = counted(state)
        grad = decayed_either_way(parameter, grad, setting)
        first, second, product = state["exp_avg"], state["exp_avg_sq"], state["mu_product"]
        momentum = beta1 * (1.0 - 0.5 * 0.96 ** (count * decay))
        ahead = beta1 * (1.0 - 0.5 * 0.96 ** ((count + 1.0) * decay))
        product *= rounded(momentum, product)
        average_in(first, beta1, grad)
        average_in(second, beta2, grad * grad)
        spread = sqrt(second / rounded(1.0 - beta2**count, parameter)) + setting["eps"]
        now = product.astype(count.dtype)
        by_gradient = lr * (1.0 - momentum) / (1.0 - now)
        by_moment = lr * ahead / (1.0 - now * ahead)
        parameter -= rounded(by_gradient, parameter) * (grad / spread) + rounded(by_moment, parameter) * (
            first / spread
        )
