"""Settings of parameter groups and how an update reads them, and the parts of updates that several optimisers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import float64
from jitgraph.errors import JitgraphError
from jitgraph.ir import context
from jitgraph.nn.module import Parameter
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros
from jitgraph.tracing.call.host import host_float

# ----------------------------------------------------------------------
# Settings of parameter groups: their ranges, PyTorch's that change nothing here, and how an update reads them.


class SettingError(JitgraphError, ValueError):
    """A setting, or a list of parameters, that an optimiser does not take."""


class ParameterTypeError(JitgraphError, TypeError):
    """What is no parameter, where an optimiser takes parameters."""


_NOT_NEGATIVE: Final = (
    "lr",
    "eps",
    "weight_decay",
    "momentum",
    "lr_decay",
    "initial_accumulator_value",
    "momentum_decay",
)
_BELOW_ONE: Final = ("beta1", "beta2", "eta_minus")
_FRACTIONS: Final = ("rho",)


def rate(lr: Any) -> float:
    """A learning rate as a float, from a tensor too; SettingError for one of several elements."""
    if isinstance(lr, Tensor) and tuple(lr.shape) not in ((), (1,)):
        raise SettingError(f"a learning rate is one number, not a tensor {lr._static.type}")
    return float(lr)


def require_in_range(settings: Mapping[str, Any]) -> None:
    """SettingError where a setting of a group is none that its formula takes; NaN is none."""
    for name in _NOT_NEGATIVE:
        value = settings.get(name, 0.0)
        if value is not None and not value >= 0:
            what = "the learning rate" if name == "lr" else name
            raise SettingError(f"{what} is {value}; it must not be negative")
    for name in _BELOW_ONE:
        if not 0.0 <= settings.get(name, 0.0) < 1.0:
            raise SettingError(f"{name} is {settings[name]}; it must lie between 0 and 1, and below 1")
    for name in _FRACTIONS:
        if not 0.0 <= settings.get(name, 0.0) <= 1.0:
            raise SettingError(f"{name} is {settings[name]}; it must lie between 0 and 1")


def without_effect(kind: str, **settings: Any) -> dict[str, Any]:
    """``maximize``, and PyTorch's choices among its implementations, which change nothing here, as settings of a group.

    They are those of PyTorch's optimiser, in its order. JitgraphError for ``differentiable=True``.
    """
    if settings.get("differentiable"):
        raise JitgraphError(
            f"{kind}(differentiable=True) is not there: a step changes parameters without a gradient of its own\n"
            "  hint: write the step as a function of parameters, and call the model by jg.functional_call"
        )
    flags = ("maximize", "capturable", "differentiable")
    return {name: bool(value) if name in flags else value for name, value in settings.items()}


class SettingsGroup(dict[str, Any]):
    """The settings of a parameter group. PyTorch's name of a pair, such as "betas", reads and writes its two floats."""

    pairs: Mapping[str, tuple[str, ...]] = {}  # of a class of optimisers, set where a group is made

    def __missing__(self, name: str) -> Any:
        if name not in self.pairs:
            raise KeyError(name)
        return tuple(dict.__getitem__(self, each) for each in self.pairs[name])

    def __setitem__(self, name: str, value: Any) -> None:
        names = self.pairs.get(name)
        if names is None:
            dict.__setitem__(self, name, value)
            return
        values = tuple(value)
        if len(values) != len(names):
            raise SettingError(f"{name} are {len(names)} numbers, not {value!r}")
        for each, number in zip(names, values, strict=True):
            dict.__setitem__(self, each, float(number) if isinstance(number, int) else number)

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self, name) or name in self.pairs

    def get(self, name: str, default: Any = None) -> Any:
        """As a dict's."""
        return self[name] if name in self else default  # noqa: SIM401 - a dict's own get asks no __missing__

    def update(self, *others: Any, **settings: Any) -> None:
        """As a dict's."""
        for name, value in dict(*others, **settings).items():
            self[name] = value


class Setting:
    """A group's settings as an update reads them: floats become inputs of a traced step, so they may change freely."""

    def __init__(self, group: dict[str, Any]) -> None:
        self.group = group

    def __getitem__(self, name: str) -> Any:
        value = self.group[name]
        if isinstance(value, float):
            return host_float(self.group, name)
        if isinstance(value, Tensor):
            return _number(value)
        return value.item() if isinstance(value, np.number) else value

    def is_zero(self, name: str) -> bool:
        """Whether a setting is 0, which leaves out its part of the update; a tensor counts as none."""
        value = self.group[name]
        return not isinstance(value, Tensor) and bool(value == 0)


def _number(setting: Tensor) -> Any:
    """A tensor of one element, such as a learning rate, as updates take numbers: it lifts no dtype."""
    if context.current().trace is None:
        return setting.item()
    scalar = setting.detach().reshape(()).astype(float64)
    scalar._weak = True
    return scalar


# ----------------------------------------------------------------------
# The parts of updates that several optimisers share: counts of steps, weight decay, running averages.


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
