"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jitgraph import dtypes
from jitgraph.errors import JitgraphError
from jitgraph.nn.module import Parameter
from jitgraph.optim.formulas import decayed
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import Setting, without_effect
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros, zeros_like


class SGD(Optimizer):
    """``buf = momentum * buf + g; p -= lr * buf`` (with Nesterov: ``p -= lr * (g + momentum * buf)``).

    ``weight_decay`` adds ``weight_decay * p`` to the gradient; ``dampening`` applies from the second step on. The
    formulas are those of PyTorch's SGD (Sutskever et al. 2013). ``foreach`` and ``fused`` change nothing here.
    """

    HIDDEN = ("step",)

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = {
            "lr": float(lr),
            "momentum": float(momentum),
            "dampening": float(dampening),
            "weight_decay": float(weight_decay),
            "nesterov": nesterov,
            **without_effect(
                "SGD",
                maximize=maximize,
                foreach=foreach,
                differentiable=differentiable,
                fused=fused,
                lacks=("capturable",),
            ),
        }
        if nesterov and (momentum <= 0 or dampening != 0):
            raise JitgraphError("SGD: nesterov needs a momentum and no dampening")
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """A momentum buffer of zeros and the number of steps; nothing without momentum."""
        if group["momentum"] == 0:
            return {}
        return {
            "momentum_buffer": zeros_like(parameter.detach()),
            "step": zeros((), dtype=dtypes.part_of(parameter.dtype), device=parameter.device),
        }

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        grad = decayed(parameter, grad, setting)
        if not state and not setting.is_zero("momentum"):
            self._complete(state, parameter, setting.group)
        if state:
            buffer, step = state["momentum_buffer"], state["step"]
            buffer *= setting["momentum"]
            if setting.is_zero("dampening"):
                buffer += grad
            else:
                later = (step > 0).astype(parameter.dtype)
                buffer += grad * (1.0 - setting["dampening"] * later)
            step += 1
            grad = grad + setting["momentum"] * buffer if setting["nesterov"] else buffer
        parameter -= setting["lr"] * grad
