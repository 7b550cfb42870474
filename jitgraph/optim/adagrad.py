"""Adagrad (Duchi, Hazan and Singer 2011)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jitgraph.dtypes import is_complex
from jitgraph.nn.module import Parameter
from jitgraph.optim.formulas import counted, decayed, rounded, zero_count
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import Setting, without_effect
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import full_like
from jitgraph.tensor.functions.elementwise import sqrt


class Adagrad(Optimizer):
    """``s += g^2; p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)``; weight decay is added to the gradient.

    ``foreach`` and ``fused`` change nothing here.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = {
            "lr": float(lr),
            "lr_decay": float(lr_decay),
            "eps": float(eps),
            "weight_decay": float(weight_decay),
            "initial_accumulator_value": float(initial_accumulator_value),
            **without_effect(
                "Adagrad",
                maximize=maximize,
                foreach=foreach,
                differentiable=differentiable,
                fused=fused,
                lacks=("capturable",),
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """The sum of squares, which begins with ``initial_accumulator_value``, and the count of steps."""
        begin = group["initial_accumulator_value"]
        if is_complex(parameter.dtype):  # of both parts
            begin = complex(begin, begin)
        return {"sum": full_like(parameter.detach(), begin), "step": zero_count(parameter)}

    def is_fresh(self, state: Mapping[str, Any], group: Mapping[str, Any]) -> bool:
        """Never, as PyTorch's makes its state with the optimiser, too."""
        return False

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        count = counted(state)
        grad = decayed(parameter, grad, setting)
        total = state["sum"]
        total += grad * grad
        rate = setting["lr"] / (1.0 + (count - 1.0) * setting["lr_decay"])
        parameter -= rounded(rate, parameter) * (grad / (sqrt(total) + setting["eps"]))
