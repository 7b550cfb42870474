"""Muon, which steps matrices by orthogonal ones (Jordan et al. 2024, "Muon: an optimizer for hidden layers")."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.nn.module import Parameter
from jitgraph.optim.formulas import average_in, shrink
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import Setting
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros_like
from jitgraph.tensor.functions.elementwise import maximum, sqrt

_COEFFICIENTS: Final = (3.4445, -4.7750, 2.0315)  # by the authors: the steepest slope at 0 that keeps near 1 what is
_MOST_STEPS: Final = 100
_RATES: Final = (None, "original", "match_rms_adamw")


class Muon(Optimizer):
    """SGD with momentum whose step for each matrix is brought near the closest orthogonal one: for hidden layers.

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
            raise JitgraphError(f"Muon: ns_coefficients are three numbers, not {ns_coefficients!r}")
        if not 0 <= ns_steps < _MOST_STEPS:
            raise JitgraphError(f"Muon: ns_steps={ns_steps} does not lie between 0 and {_MOST_STEPS - 1}")
        if adjust_lr_fn not in _RATES:
            raise JitgraphError(f"Muon: adjust_lr_fn={adjust_lr_fn!r} is none of {', '.join(map(repr, _RATES))}")
        defaults = {
            "lr": float(lr),
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
