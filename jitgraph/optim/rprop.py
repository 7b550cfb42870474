"""Resilient backpropagation (Riedmiller and Braun 1993)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jitgraph.errors import JitgraphError
from jitgraph.nn.module import Parameter
from jitgraph.optim.formulas import zero_count
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import Setting, without_effect
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import ones_like, zeros_like
from jitgraph.tensor.functions.elementwise import maximum, minimum, sign, where


class Rprop(Optimizer):
    """Steps by the gradient's sign, of sizes that grow by ``etas[1]`` and shrink by ``etas[0]`` where the sign changes.

    Sizes begin with ``lr`` and stay within ``step_sizes``; where the sign changed a parameter does not move.
    ``foreach`` and ``capturable`` change nothing here.
    """

    PAIRS = {"etas": ("eta_minus", "eta_plus"), "step_sizes": ("step_size_min", "step_size_max")}  # noqa: RUF012

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise JitgraphError(f"Rprop: etas are {etas}; the first lies between 0 and 1, the second above 1")
        defaults = {
            "lr": float(lr),
            "eta_minus": float(etas[0]),
            "eta_plus": float(etas[1]),
            "step_size_min": float(step_sizes[0]),
            "step_size_max": float(step_sizes[1]),
            **without_effect(
                "Rprop",
                maximize=maximize,
                foreach=foreach,
                capturable=capturable,
                differentiable=differentiable,
                lacks=("fused",),
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """The gradient before, zero at first, the sizes of steps, and the count of steps."""
        like = parameter.detach()
        return {"prev": zeros_like(like), "step_size": zeros_like(like), "step": zero_count(parameter)}

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        before, size, step = state["prev"], state["step_size"], state["step"]
        size[...] = where(step == 0, zeros_like(size) + setting["lr"], size)  # the rate may change until the first step
        step += 1
        agreement = sign(grad * before)
        turned = agreement < 0
        same = ones_like(size)
        size *= where(turned, same * setting["eta_minus"], where(agreement > 0, same * setting["eta_plus"], same))
        size[...] = minimum(maximum(size, setting["step_size_min"]), setting["step_size_max"])
        grad = where(turned, zeros_like(grad), grad)
        parameter -= sign(grad) * size
        before[...] = grad
