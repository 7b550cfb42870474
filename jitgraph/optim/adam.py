"""Adam, AdamW and what is made of them: Adamax, NAdam and RAdam."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.nn.module import Parameter
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import (
    Setting,
    average_in,
    counted,
    decayed,
    decayed_either_way,
    rate,
    rounded,
    without_effect,
    zero_count,
)
from jitgraph.tensor import Tensor, lifting
from jitgraph.tensor.functions.creation import ones, zeros_like
from jitgraph.tensor.functions.elementwise import abs, maximum, sqrt, where


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
            "lr": rate(lr),
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
                decoupled_weight_decay=bool(decoupled_weight_decay),
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """Zero moments and the step count, a 0-d float (float32, or float64 for float64 parameters)."""
        like = parameter.detach()
        state = {"step": zero_count(parameter), "exp_avg": zeros_like(like), "exp_avg_sq": zeros_like(like)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(like)
        return state

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
            "lr": rate(lr),
            "beta1": float(betas[0]),
            "beta2": float(betas[1]),
            "eps": float(eps),
            "weight_decay": float(weight_decay),
            **without_effect(
                "Adamax", foreach=foreach, maximize=maximize, differentiable=differentiable, capturable=capturable
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """A zero moment and norm, and the count of steps."""
        like = parameter.detach()
        return {"step": zero_count(parameter), "exp_avg": zeros_like(like), "exp_inf": zeros_like(like)}

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        beta1, beta2 = setting["beta1"], setting["beta2"]
        count = counted(state)
        grad = decayed(parameter, grad, setting)
        moment, norm = state["exp_avg"], state["exp_inf"]
        average_in(moment, beta1, grad)
        norm[...] = maximum(beta2 * norm, abs(grad) + setting["eps"])
        parameter -= rounded(setting["lr"] / (1.0 - beta1**count), parameter) * (moment / norm)


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
            "lr": rate(lr),
            "beta1": float(betas[0]),
            "beta2": float(betas[1]),
            "eps": float(eps),
            "weight_decay": float(weight_decay),
            "momentum_decay": float(momentum_decay),
            "decoupled_weight_decay": bool(decoupled_weight_decay),
            **without_effect(
                "NAdam", maximize=maximize, foreach=foreach, capturable=capturable, differentiable=differentiable
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """Zero moments, the count of steps and the product of all mu so far."""
        like, count = parameter.detach(), zero_count(parameter)
        return {
            "step": count,
            "mu_product": ones((), dtype=count.dtype, device=parameter.device),
            "exp_avg": zeros_like(like),
            "exp_avg_sq": zeros_like(like),
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
            "lr": rate(lr),
            "beta1": float(betas[0]),
            "beta2": float(betas[1]),
            "eps": float(eps),
            "weight_decay": float(weight_decay),
            **without_effect(
                "RAdam",
                maximize=maximize,
                foreach=foreach,
                capturable=capturable,
                decoupled_weight_decay=bool(decoupled_weight_decay),
                differentiable=differentiable,
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """Zero moments and the count of steps."""
        like = parameter.detach()
        return {"step": zero_count(parameter), "exp_avg": zeros_like(like), "exp_avg_sq": zeros_like(like)}

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
