"""Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms")."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jitgraph.nn.module import Parameter
from jitgraph.optim.formulas import average_in, shrink
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import Setting, without_effect
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros_like
from jitgraph.tensor.functions.elementwise import sign


class Lion(Optimizer):
    """``p -= lr * (sign(beta1 * m + (1 - beta1) * g) + weight_decay * p)``, then ``m = beta2 * m + (1 - beta2) * g``.

    PyTorch has none; the formula is the paper's (its program 1), and state "exp_avg" is named as by its authors.
    ``foreach`` changes nothing here.
    """

    PAIRS = {"betas": ("beta1", "beta2")}  # noqa: RUF012 - a constant of the class

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
    ) -> None:
        defaults = {
            "lr": float(lr),
            "beta1": float(betas[0]),
            "beta2": float(betas[1]),
            "weight_decay": float(weight_decay),
            **without_effect(
                "Lion", maximize=maximize, foreach=foreach, lacks=("capturable", "differentiable", "fused")
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """A zero moment."""
        return {"exp_avg": zeros_like(parameter.detach())}

    def is_fresh(self, state: Mapping[str, Any], group: Mapping[str, Any]) -> bool:
        """Never: a moment of zeros is all that there is."""
        return False

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        lr, beta1, beta2 = (setting[name] for name in ("lr", "beta1", "beta2"))
        shrink(parameter, lr, setting)
        moment = state["exp_avg"]
        parameter -= lr * sign(beta1 * moment + (1.0 - beta1) * grad)
        average_in(moment, beta2, grad)
