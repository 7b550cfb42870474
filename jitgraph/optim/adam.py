"""Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.nn.module import Parameter
from jitgraph.optim.formulas import average_in, counted, decayed_either_way, rounded, zero_count
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import Setting, without_effect
from jitgraph.tensor import Tensor, lifting
from jitgraph.tensor.functions.creation import zeros_like
from jitgraph.tensor.functions.elementwise import maximum, sqrt


class Adam(Optimizer):
    """Bias-corrected moments: ``p -= lr * m_hat / (sqrt(v_hat) + eps)``; weight decay is added to the gradient.

    With ``amsgrad`` the largest second moment so far takes the place of v (Reddi, Kale and Kumar 2018); with
    ``decoupled_weight_decay`` it is AdamW. ``foreach``, ``capturable`` and ``fused`` change nothing here.
    """

    PAIRS = {"betas": ("beta1", "beta2")}  # noqa: RUF012 - a constant of the class

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        defaults = {
            "lr": float(lr),
            "beta1": float(betas[0]),
            "beta2": float(betas[1]),
            "eps": float(eps),
            "weight_decay": float(weight_decay),
            "amsgrad": bool(amsgrad),
            **without_effect(
                type(self).__name__,
                maximize=maximize,
                foreach=foreach,
                capturable=capturable,
                differentiable=differentiable,
                fused=fused,
            ),
            "decoupled_weight_decay": bool(decoupled_weight_decay),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """Zero moments and the step count, a 0-d float (float32, or float64 for float64 parameters)."""
        like = parameter.detach()
        state = {"exp_avg": zeros_like(like), "exp_avg_sq": zeros_like(like)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(like)
        return {**state, "step": zero_count(parameter)}

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        grad = decayed_either_way(parameter, grad, setting)
        if setting["amsgrad"]:
            if "max_exp_avg_sq" not in state:
                self._complete(state, parameter, setting.group)
            _step_by_maximum(parameter, grad, state, setting)
            return
        handles = (parameter, state["exp_avg"], state["exp_avg_sq"], state["step"])
        values = [handle.value for handle in handles]
        numbers = [lifting.value_of(setting[name], dtypes.float64) for name in ("lr", "beta1", "beta2", "eps")]
        updated = ops.adam_step(values[0], grad.value, *values[1:], *numbers)
        for handle, value in zip(handles, updated, strict=True):
            handle._rebind(value)


def _step_by_maximum(parameter: Tensor, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
    count, beta1, beta2 = counted(state), setting["beta1"], setting["beta2"]
    first, second, largest = state["exp_avg"], state["exp_avg_sq"], state["max_exp_avg_sq"]
    average_in(first, beta1, grad)
    average_in(second, beta2, grad * grad)
    largest[...] = maximum(largest, second)
    spread = sqrt(largest) / rounded(sqrt(1.0 - beta2**count), parameter) + setting["eps"]
    parameter -= rounded(setting["lr"] / (1.0 - beta1**count), parameter) * (first / spread)


class AdamW(Adam):
    """Adam with weight decay applied to the parameter itself, scaled by ``lr``."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
