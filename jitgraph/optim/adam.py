"""Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.nn.module import Parameter
from jitgraph.optim.optimizer import Optimizer, Setting
from jitgraph.tensor import Tensor, lifting
from jitgraph.tensor.functions.creation import zeros, zeros_like


class Adam(Optimizer):
    """Bias-corrected moments: ``p -= lr * m_hat / (sqrt(v_hat) + eps)``; weight decay is added to the gradient."""

    decoupled = False

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {
            "lr": float(lr),
            "beta1": float(betas[0]),
            "beta2": float(betas[1]),
            "eps": float(eps),
            "weight_decay": float(weight_decay),
        }
        super().__init__(params, defaults)

    def renamed(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """PyTorch's ``betas`` are two floats of their own, so that each may change from call to call of a trace."""
        return dict(zip(("beta1", "beta2"), map(float, group["betas"]), strict=True)) if "betas" in group else {}

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Tensor]:
        """Zero moments and the step count, a 0-d float (float32, or float64 for float64 parameters)."""
        count = dtypes.float64 if parameter.dtype == dtypes.float64 else dtypes.float32
        like = parameter.detach()
        return {
            "exp_avg": zeros_like(like),
            "exp_avg_sq": zeros_like(like),
            "step": zeros((), dtype=count, device=parameter.device),
        }

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Tensor], setting: Setting) -> None:
        """One step for one parameter."""
        if not setting.is_zero("weight_decay"):
            if self.decoupled:
                parameter *= 1.0 - setting["lr"] * setting["weight_decay"]
            else:
                grad = grad + setting["weight_decay"] * parameter
        handles = (parameter, state["exp_avg"], state["exp_avg_sq"], state["step"])
        values = [handle.value for handle in handles]
        numbers = [lifting.value_of(setting[name], dtypes.float64) for name in ("lr", "beta1", "beta2", "eps")]
        made = ops.adam_step(values[0], grad.value, *values[1:], *numbers)
        for handle, value in zip(handles, made, strict=True):
            handle._rebind(value)


class AdamW(Adam):
    """Adam with weight decay applied to the parameter itself, scaled by ``lr``."""

    decoupled = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
