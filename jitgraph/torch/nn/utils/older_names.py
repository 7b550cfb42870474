"""The older forms of weight_norm and spectral_norm, whose parameters stand beside the weight, and clip_grad_norm.

The weight is computed before each call, by the modules of the newer forms; state dicts have "weight_g", "weight_v" or
"weight_orig", "weight_u" as PyTorch's.
"""

from __future__ import annotations

import warnings
from typing import Any

import jitgraph as jg
from jitgraph.nn.utils import parametrizations
from jitgraph.torch.adapters import torch_function
from jitgraph.torch.nn.parameter import Parameter
from jitgraph.torch.nn.utils.parametrizations import rows_axis
from jitgraph.torch.tensors import Tensor, adopted


class _Norm:
    """Sets a weight before each call, to what a parametrisation makes of other parameters."""

    kind = ""

    def __init__(self, name: str, parametrization: Any, parts: tuple[str, ...]) -> None:
        self.name, self.parametrization, self.parts = name, parametrization, parts

    def weight_of(self, module: Any) -> Any:
        self.parametrization.training = module.training
        return adopted(self.parametrization(*[getattr(module, f"{self.name}{part}") for part in self.parts]))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.weight_of(module))


class WeightNorm(_Norm):
    """The hook of ``weight_norm``."""

    kind = "weight_norm"


class SpectralNorm(_Norm):
    """The hook of ``spectral_norm``."""

    kind = "spectral_norm"


def _register(module: Any, hook: _Norm, parts: dict[str, Any]) -> Any:
    if any(isinstance(other, type(hook)) and other.name == hook.name for _, other, _ in module._hooks):
        raise RuntimeError(f"Cannot register two {hook.kind} hooks on the same parameter {hook.name}")
    delattr(module, hook.name)
    for name, value in parts.items():
        setattr(module, name, value)
    setattr(module, hook.name, Tensor._of(hook.weight_of(module).detach().value))
    module.register_forward_pre_hook(hook)
    return module


def _removed(module: Any, kind: type[_Norm], name: str) -> Any:
    for entry in module._hooks:
        hook = entry[1]
        if isinstance(hook, kind) and hook.name == name:
            with jg.no_grad():
                weight = hook.weight_of(module)
            module._hooks = tuple(other for other in module._hooks if other is not entry)
            for suffix in (*hook.parts, "_u", "_v"):
                if f"{name}{suffix}" in vars(module):
                    delattr(module, f"{name}{suffix}")
                    module._persistence.pop(f"{name}{suffix}", None)
            delattr(module, name)
            setattr(module, name, Parameter(weight.detach()))
            return module
    raise ValueError(f"{kind.kind} of '{name}' not found in {module}")


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Learn the norm ("weight_g") and the direction ("weight_v") of a parameter separately; returns the module."""
    weight = getattr(module, name)
    parametrization = parametrizations._WeightNorm(None if dim == -1 else dim)
    with jg.no_grad():
        magnitude, direction = parametrization.right_inverse(weight)
    parts = {f"{name}_g": Parameter(magnitude), f"{name}_v": Parameter(direction)}
    return _register(module, WeightNorm(name, parametrization, ("_g", "_v")), parts)


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight a parameter again; ValueError where it has no weight_norm."""
    return _removed(module, WeightNorm, name)


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide a parameter ("weight_orig") by its largest singular value; returns the module."""
    weight = getattr(module, name)
    parametrization = parametrizations._SpectralNorm(weight, n_power_iterations, rows_axis(module, dim), eps)
    module.register_buffer(f"{name}_u", parametrization._u)
    module.register_buffer(f"{name}_v", parametrization._v)
    return _register(module, SpectralNorm(name, parametrization, ("_orig",)), {f"{name}_orig": weight})


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight a parameter again; ValueError where it has no spectral_norm."""
    return _removed(module, SpectralNorm, name)


def clip_grad_norm(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
) -> Any:
    """``clip_grad_norm_`` by its older name."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return torch_function(jg.nn.utils.clip_grad_norm_)(parameters, max_norm, norm_type, error_if_nonfinite)
