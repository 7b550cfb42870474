"""RAdam: Adam with a rectified variance (Liu et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jitgraph.nn.module import Parameter
from jitgraph.optim.formulas import average_in, counted, decayed_either_way, rounded, zero_count
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import Setting, without_effect
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros_like
from jitgraph.tensor.functions.elementwise import maximum, sqrt, where


class RAdam(Optimizer):
    """Adam that moves by the first moment alone until the second one's variance is known, and rectifies it then.

    With ``decoupled_weight_decay`` weights decay as in AdamW. ``foreach`` and ``capturable`` change nothing here.
    """

    PAIRS = {"betas": ("beta1", "beta2")}  # noqa: RUF012 - a constant of the class

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
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
            **without_effect(
                "RAdam",
                maximize=maximize,
                foreach=foreach,
                capturable=capturable,
                differentiable=differentiable,
                lacks=("fused",),
            ),
            "decoupled_weight_decay": bool(decoupled_weight_decay),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """Zero moments and the count of steps."""
        like = parameter.detach()
        return {"exp_avg": zeros_like(like), "exp_avg_sq": zeros_like(like), "step": zero_count(parameter)}

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        lr, beta1, beta2 = (setting[name] for name in ("lr", "beta1", "beta2"))
        count = counted(state)
        grad = decayed_either_way(parameter, grad, setting)
        first, second = state["exp_avg"], state["exp_avg_sq"]
        average_in(first, beta1, grad)
        average_in(second, beta2, grad * grad)
        bias2 = 1.0 - beta2**count
        longest = 2.0 / (1.0 - beta2) - 1.0
        length = longest - 2.0 * count * beta2**count / bias2
        known = length > 5.0
        safe = maximum(length, 5.0)  # where the length is less, the ratio is not used
        ratio = (safe - 4.0) * (safe - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * safe)
        scale = where(known, sqrt(maximum(ratio, 0.0)) * sqrt(bias2), 1.0)
        spread = where(known, sqrt(second) + setting["eps"], 1.0)
        parameter -= rounded(lr / (1.0 - beta1**count) * scale, parameter) * (first / spread)
