"""Adamax: Adam by the infinity norm (Kingma and Ba 2015, section 7.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jitgraph.nn.module import Parameter
from jitgraph.optim.formulas import average_in, counted, decayed, rounded, zero_count
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import Setting, without_effect
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros_like
from jitgraph.tensor.functions.elementwise import abs, maximum


class Adamax(Optimizer):
    """``u = max(beta2 * u, |g| + eps); p -= lr / (1 - beta1 ** t) * m / u``; weight decay is added to the gradient.

    ``foreach`` and ``capturable`` change nothing here.
    """

    PAIRS = {"betas": ("beta1", "beta2")}  # noqa: RUF012 - a constant of the class

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = {
            "lr": float(lr),
            "beta1": float(betas[0]),
            "beta2": float(betas[1]),
            "eps": float(eps),
            "weight_decay": float(weight_decay),
            **without_effect(
                "Adamax",
                maximize=maximize,
                foreach=foreach,
                capturable=capturable,
                differentiable=differentiable,
                lacks=("fused",),
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """A zero moment and norm, and the count of steps."""
        like = parameter.detach()
        return {"exp_avg": zeros_like(like), "exp_inf": zeros_like(like), "step": zero_count(parameter)}

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        beta1, beta2 = setting["beta1"], setting["beta2"]
        count = counted(state)
        grad = decayed(parameter, grad, setting)
        moment, norm = state["exp_avg"], state["exp_inf"]
        average_in(moment, beta1, grad)
        norm[...] = maximum(beta2 * norm, abs(grad) + setting["eps"])
        parameter -= rounded(setting["lr"] / (1.0 - beta1**count), parameter) * (moment / norm)
