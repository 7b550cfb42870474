"""The parts of updates that several optimisers share: counts of steps, weight decay, running averages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jitgraph import dtypes
from jitgraph.nn.module import Parameter
from jitgraph.optim.settings import Setting
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros


def zero_count(parameter: Tensor) -> Tensor:
    """A count of steps: a 0-d float32, or float64 for float64 and complex128 parameters, beside the parameter."""
    dtype = dtypes.float64 if dtypes.part_of(parameter.dtype) == dtypes.float64 else dtypes.float32
    return zeros((), dtype=dtype, device=parameter.device)


def counted(state: Mapping[str, Any]) -> Tensor:
    """Count a step; the number of it as a 0-d float64, as ``1 - beta ** step`` would cancel in float32."""
    step = state["step"]
    step += 1
    return step.astype(dtypes.float64)  # type: ignore[no-any-return]


def rounded(number: Any, parameter: Tensor) -> Any:
    """A number that an update reckoned in float64, in the parameter's dtype."""
    return number.astype(parameter.dtype) if isinstance(number, Tensor) else number


def decayed(parameter: Parameter, grad: Tensor, setting: Setting) -> Tensor:
    """The gradient with ``weight_decay * parameter``, the slope of a squared penalty, added to it."""
    return grad if setting.is_zero("weight_decay") else grad + setting["weight_decay"] * parameter


def shrink(parameter: Parameter, lr: Any, setting: Setting) -> None:
    """Scale a parameter by ``1 - lr * weight_decay``: decay that is decoupled from the gradient (AdamW)."""
    if not setting.is_zero("weight_decay"):
        parameter *= 1.0 - lr * setting["weight_decay"]


def decayed_either_way(parameter: Parameter, grad: Tensor, setting: Setting) -> Tensor:
    """The gradient to go by: with decay added, or as it is where ``decoupled_weight_decay`` shrinks the parameter."""
    if not setting["decoupled_weight_decay"]:
        return decayed(parameter, grad, setting)
    shrink(parameter, setting["lr"], setting)
    return grad


def average_in(average: Tensor, rate: Any, value: Tensor) -> None:
    """Move an exponential running average to ``rate * average + (1 - rate) * value``, in place."""
    average *= rate
    average += (1.0 - rate) * value
