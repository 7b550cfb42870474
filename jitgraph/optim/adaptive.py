"""Optimisers with a step size for each element: Adagrad, Adadelta, RMSprop, Rprop and Adafactor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from jitgraph import dtypes
from jitgraph.dtypes import is_complex
from jitgraph.errors import DTypeError
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
from jitgraph.tensor.dtype_queries import finfo
from jitgraph.tensor.functions.creation import full_like, ones_like, zeros, zeros_like
from jitgraph.tensor.functions.elementwise import maximum, minimum, rsqrt, sign, sqrt, where
from jitgraph.tensor.functions.reductions import mean, sum

# ----------------------------------------------------------------------
# Adagrad (Duchi, Hazan and Singer 2011).


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
            "lr": rate(lr),
            "lr_decay": float(lr_decay),
            "eps": float(eps),
            "weight_decay": float(weight_decay),
            "initial_accumulator_value": float(initial_accumulator_value),
            **without_effect("Adagrad", foreach=foreach, maximize=maximize, differentiable=differentiable, fused=fused),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """The sum of squares, which begins with ``initial_accumulator_value``, and the count of steps."""
        begin = group["initial_accumulator_value"]
        if is_complex(parameter.dtype):  # of both parts
            begin = complex(begin, begin)
        return {"step": zero_count(parameter), "sum": full_like(parameter.detach(), begin)}

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


# ----------------------------------------------------------------------
# Adadelta (Zeiler 2012).


class Adadelta(Optimizer):
    """``p -= lr * d`` with ``d = sqrt(u + eps) / sqrt(v + eps) * g``; v and u average g^2 and d^2 by ``rho``.

    Weight decay is added to the gradient. ``foreach`` and ``capturable`` change nothing here.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": rate(lr),
            "rho": float(rho),
            "eps": float(eps),
            "weight_decay": float(weight_decay),
            **without_effect(
                "Adadelta", maximize=maximize, capturable=capturable, foreach=foreach, differentiable=differentiable
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """Zero averages of squared gradients and moves, and the count of steps."""
        like = parameter.detach()
        return {"step": zero_count(parameter), "square_avg": zeros_like(like), "acc_delta": zeros_like(like)}

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        rho, eps = setting["rho"], setting["eps"]
        grad = decayed(parameter, grad, setting)
        square, moves, step = state["square_avg"], state["acc_delta"], state["step"]
        step += 1
        average_in(square, rho, grad * grad)
        move = sqrt(moves + eps) / sqrt(square + eps) * grad
        average_in(moves, rho, move * move)
        parameter -= setting["lr"] * move


# ----------------------------------------------------------------------
# RMSprop (Hinton 2012, lecture 6e), with PyTorch's settings.


class RMSprop(Optimizer):
    """``v = alpha * v + (1 - alpha) * g^2``; ``p -= lr * g / (sqrt(v) + eps)``, with momentum and centring if asked.

    ``foreach`` and ``capturable`` change nothing here.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": rate(lr),
            "momentum": float(momentum),
            "alpha": float(alpha),
            "eps": float(eps),
            "centered": centered,
            "weight_decay": float(weight_decay),
            **without_effect(
                "RMSprop", capturable=capturable, foreach=foreach, maximize=maximize, differentiable=differentiable
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """Zero averages: of squares, of gradients where centred, and a momentum buffer where there is momentum."""
        like = parameter.detach()
        state = {"step": zero_count(parameter), "square_avg": zeros_like(like)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(like)
        if group["centered"]:
            state["grad_avg"] = zeros_like(like)
        return state

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        grad = decayed(parameter, grad, setting)
        if (setting["centered"] and "grad_avg" not in state) or (
            "momentum_buffer" not in state and not setting.is_zero("momentum")
        ):
            self._complete(state, parameter, setting.group)
        alpha, square, step = setting["alpha"], state["square_avg"], state["step"]
        step += 1
        average_in(square, alpha, grad * grad)
        variance = square
        if "grad_avg" in state:
            average = state["grad_avg"]
            average_in(average, alpha, grad)
            variance = square - average * average
        move = grad / (sqrt(variance) + setting["eps"])
        if "momentum_buffer" in state:
            buffer = state["momentum_buffer"]
            buffer *= setting["momentum"]
            buffer += move
            move = buffer
        parameter -= setting["lr"] * move


# ----------------------------------------------------------------------
# Resilient backpropagation (Riedmiller and Braun 1993).


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
            raise SettingError(f"Rprop: etas are {etas}; the first lies between 0 and 1, the second above 1")
        defaults = {
            "lr": rate(lr),
            "eta_minus": float(etas[0]),
            "eta_plus": float(etas[1]),
            "step_size_min": float(step_sizes[0]),
            "step_size_max": float(step_sizes[1]),
            **without_effect(
                "Rprop", foreach=foreach, maximize=maximize, differentiable=differentiable, capturable=capturable
            ),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """The gradient before, zero at first, the sizes of steps, and the count of steps."""
        like = parameter.detach()
        return {"step": zero_count(parameter), "prev": zeros_like(like), "step_size": zeros_like(like)}

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


# ----------------------------------------------------------------------
# Adafactor (Shazeer and Stern 2018).


class Adafactor(Optimizer):
    """Adam's second moment as rows times columns, with steps relative to a parameter's size; PyTorch's variant.

    Rows and columns are those of the last two axes; a vector has its second moment whole. ``eps`` are a floor of the
    second moment (None: the machine epsilon of the parameter's dtype) and one of a parameter's size. ``foreach``
    changes nothing here.
    """

    PAIRS = {"eps": ("eps1", "eps2")}  # noqa: RUF012 - a constant of the class

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if beta2_decay > 0 or d < 1 or (eps[0] or 0.0) < 0 or eps[1] < 0:
            actual = f"beta2_decay={beta2_decay}, d={d}, eps={eps}"
            raise SettingError(
                f"Adafactor takes a beta2_decay of at most 0, d of at least 1 and no negative eps: {actual}"
            )
        defaults = {
            "lr": rate(lr),
            "beta2_decay": float(beta2_decay),
            "eps1": None if eps[0] is None else float(eps[0]),
            "eps2": float(eps[1]),
            "d": float(d),
            "weight_decay": float(weight_decay),
            **without_effect("Adafactor", foreach=foreach, maximize=maximize),
        }
        super().__init__(params, defaults)

    def initial_state(self, parameter: Parameter, group: Mapping[str, Any]) -> dict[str, Any]:
        """Zero means of squares over rows and columns, or of each element, and the count of steps."""
        if dtypes.is_complex(parameter.dtype):
            raise DTypeError("Adafactor takes no complex parameters", hint="SGD or Adam does")
        count = zero_count(parameter)
        if parameter.ndim < 2:
            return {"step": count, "variance": zeros_like(parameter.detach())}
        *lead, rows, columns = parameter.shape
        factory_kwargs: Any = {"dtype": parameter.dtype, "device": parameter.device}
        return {
            "step": count,
            "row_var": zeros((*lead, rows, 1), **factory_kwargs),
            "col_var": zeros((*lead, 1, columns), **factory_kwargs),
        }

    def update(self, parameter: Parameter, grad: Tensor, state: dict[str, Any], setting: Setting) -> None:
        """One step for one parameter."""
        lr, count = setting["lr"], counted(state)
        floor = float(finfo(parameter.dtype).eps) if setting["eps1"] is None else setting["eps1"]
        share = rounded(count ** setting["beta2_decay"], parameter)
        elements = math.prod(parameter.shape)
        size = sqrt(sum(parameter * parameter) / elements).astype(dtypes.float64)
        rate = maximum(size, setting["eps2"]) * minimum(1.0 / sqrt(count), lr)
        shrink(parameter, lr, setting)
        square = grad * grad
        if "variance" in state:
            estimate = state["variance"]
            estimate += share * (square - estimate)
        else:
            rows, columns = state["row_var"], state["col_var"]
            rows += share * (mean(square, axis=-1, keepdims=True) - rows)
            columns += share * (mean(square, axis=-2, keepdims=True) - columns)
            estimate = rows * columns / maximum(mean(rows, axis=-2, keepdims=True), floor)
        move = rsqrt(maximum(estimate, floor * floor)) * grad
        spread = sqrt(sum(move * move) / elements).astype(dtypes.float64) / setting["d"]
        parameter -= rounded(rate / maximum(spread, 1.0), parameter) * move
