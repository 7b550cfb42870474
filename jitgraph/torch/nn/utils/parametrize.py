"""``torch.nn.utils.parametrize``: parameters computed from others whenever a module is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jitgraph.nn.utils import parametrize
from jitgraph.nn.utils.parametrize import is_parametrized as is_parametrized
from jitgraph.nn.utils.parametrize import register_parametrization as register_parametrization
from jitgraph.nn.utils.parametrize import remove_parametrizations as remove_parametrizations
from jitgraph.torch.nn.module import layer

ParametrizationList = layer(parametrize.ParametrizationList)


@contextmanager
def cached() -> Iterator[None]:
    """A block that changes nothing: in a trace a parametrisation that is asked for again is computed once."""
    yield


def type_before_parametrizations(module: Any) -> type:
    """The class of a module without its parametrisations."""
    return getattr(type(module), "_parametrized_from", type(module))


def transfer_parametrizations_and_params(from_module: Any, to_module: Any, tensor_name: str | None = None) -> Any:
    """Give a module the parametrisations, with their parameters, of another one; returns it."""
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        holder = from_module.parametrizations[name]
        for parametrization in holder:
            register_parametrization(to_module, name, parametrization)
        own = to_module.parametrizations[name]
        for part, parameter in holder._parameters.items():
            setattr(own, part, parameter)
    return to_module
