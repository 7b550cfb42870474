"""Optimisers that step along gradients or momentum: SGD, ASGD, Lion and Muon."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.errors import DTypeError, ShapeError
from jitgraph.nn.module import Parameter
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import (
    Setting,
    SettingError,
    average_in,
    counted,
    decayed,
    rate,
    rounded,
    shrink,
    without_effect,
    zero_count,
)
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import ones, zeros, zeros_like
from jitgraph.tensor.functions.elementwise import maximum, sign, sqrt, where

# ----------------------------------------------------------------------
# Stochastic gradient descent with momentum.


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
            "lr": rate(lr),
            "momentum": float(momentum),
            "dampening": float(dampening),
            "weight_decay": float(weight_decay),
            "nesterov": nesterov,
            **without_effect("SGD", maximize=maximize, foreach=foreach, differentiable=differentiable, fused=fused),
        }
        if nesterov and (momentum <= 0 or dampening != 0):
            raise SettingError("SGD: nesterov needs a momentum and no dampening")
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


# ----------------------------------------------------------------------
# Averaged stochastic gradient descent (Polyak and Juditsky 1992).


class ASGD(Optimizer):
    """``p -= eta * (g + lambd * p)`` with ``eta = lr / (1 + lambd * lr * t) ** alpha``; state "ax" has p's average.

    The average begins at step ``t0``. Weight decay is added to the gradient. ``foreach`` and ``capturable`` change
    nothing here.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = {
            "lr": rate(lr),
            "lambd": float(lambd),
            "alpha": float(alpha),
            "t0": float(t0),
            "weight_decay": float(weight_decay),
            **without_effect(
                "ASGD", foreach=foreach, maximize=maximize, differentiable=differentiable, capturable=capturable
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """The average, the next rate and weight of the average, and the count of steps."""
        count, device = zero_count(parameter), parameter.device
        return {
            "step": count,
            "eta": zeros((), dtype=count.dtype, device=device),
            "mu": ones((), dtype=count.dtype, device=device),
            "ax": zeros_like(parameter.detach()),
        }

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        lr, lambd = setting["lr"], setting["lambd"]
        eta, weight, average = state["eta"], state["mu"], state["ax"]
        now = where(state["step"] == 0, zeros_like(eta) + lr, eta)  # the rate may change until the first step
        count = counted(state)
        grad = decayed(parameter, grad, setting)
        parameter *= rounded(1.0 - lambd * now.astype(count.dtype), parameter)
        parameter -= rounded(now, parameter) * grad
        moved = average + (parameter - average) * rounded(weight, parameter)
        average[...] = where(weight == 1, parameter.detach(), moved)
        eta[...] = (lr / (1.0 + lambd * lr * count) ** setting["alpha"]).astype(eta.dtype)
        weight[...] = (1.0 / maximum(count - setting["t0"], 1.0)).astype(weight.dtype)


# ----------------------------------------------------------------------
# Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms").


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
            "lr": rate(lr),
            "beta1": float(betas[0]),
            "beta2": float(betas[1]),
            "weight_decay": float(weight_decay),
            **without_effect("Lion", maximize=maximize, foreach=foreach),
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


# ----------------------------------------------------------------------
# Muon, which steps matrices by orthogonal ones (Jordan et al. 2024, "Muon: an optimizer for hidden layers").

_COEFFICIENTS: Final = (3.4445, -4.7750, 2.0315)  # by the authors: the steepest slope at 0 that keeps near 1 what is
_MOST_STEPS: Final = 100
_RATES: Final = (None, "original", "match_rms_adamw")


class Muon(Optimizer):
    """SGD with momentum whose step for each matrix is approximately orthogonalised, for hidden layers.

    Parameters are matrices, else ShapeError; biases, embeddings and the last layer want another optimiser, such as
    AdamW. The momentum is ``m = momentum * m + (1 - momentum) * g``, with ``nesterov`` looked ahead once more, and
    ``p -= rate * orthogonal(m)`` after ``p *= 1 - lr * weight_decay``. ``adjust_lr_fn`` says what the rate for a matrix
    of A rows and B columns is: "original" (also None) ``lr * sqrt(max(1, A / B))``, "match_rms_adamw"
    ``lr * 0.2 * sqrt(max(A, B))``, with which learning rates of AdamW fit (Liu et al. 2025). Products are computed in
    the parameter's dtype, at least float32, where PyTorch rounds them to bfloat16.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = _COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if len(ns_coefficients) != 3:
            raise SettingError(f"Muon: ns_coefficients are three numbers, not {ns_coefficients!r}")
        if not 0 <= ns_steps < _MOST_STEPS:
            raise SettingError(f"Muon: ns_steps={ns_steps} does not lie between 0 and {_MOST_STEPS - 1}")
        if adjust_lr_fn not in _RATES:
            raise SettingError(f"Muon: adjust_lr_fn={adjust_lr_fn!r} is none of {', '.join(map(repr, _RATES))}")
        defaults = {
            "lr": rate(lr),
            "weight_decay": float(weight_decay),
            "momentum": float(momentum),
            "nesterov": bool(nesterov),
            "ns_coefficients": tuple(map(float, ns_coefficients)),
            "eps": float(eps),
            "ns_steps": int(ns_steps),
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """A zero moment. ShapeError for what is no matrix, DTypeError for a complex one."""
        if parameter.ndim != 2:
            raise ShapeError(
                f"Muon takes matrices, not a parameter of shape {tuple(parameter.shape)}",
                hint="give it [p for p in parameters if p.ndim == 2], and the others to an AdamW of their own",
            )
        if dtypes.is_complex(parameter.dtype):
            raise DTypeError("Muon takes no complex parameters", hint="SGD or Adam does")
        return {"momentum_buffer": zeros_like(parameter.detach())}

    def is_fresh(self, state: Mapping[str, Any], group: Mapping[str, Any]) -> bool:
        """Never: a moment of zeros is all that there is."""
        return False

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        lr, momentum, moment = setting["lr"], setting["momentum"], state["momentum_buffer"]
        average_in(moment, momentum, grad)
        towards = (1.0 - momentum) * grad + momentum * moment if setting["nesterov"] else moment
        step = _orthogonal(towards, setting)
        shrink(parameter, lr, setting)
        parameter -= lr * _ratio(parameter, setting["adjust_lr_fn"]) * step.astype(parameter.dtype)


def _ratio(parameter: Tensor, adjust_lr_fn: str | None) -> float:
    """What the learning rate is scaled by for the shape of a matrix."""
    rows, columns = (int(size) for size in parameter.shape)
    if adjust_lr_fn == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / columns)) if columns else 1.0


def _orthogonal(matrix: Tensor, setting: Setting) -> Tensor:
    """``U diag(s) V^T`` for ``matrix = U S V^T``, with s brought near 1, by quintic steps of Newton and Schulz."""
    a, b, c = setting["ns_coefficients"]
    x = matrix.astype(dtypes.float32) if matrix.dtype.itemsize < 4 else matrix
    tall = int(x.shape[0]) > int(x.shape[1])
    x = x.T if tall else x
    x = x / maximum(sqrt((x * x).sum()), setting["eps"])  # no singular value is above 1
    for _ in range(setting["ns_steps"]):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if tall else x
