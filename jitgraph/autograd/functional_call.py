"""functional_call: a module called with other tensors in place of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jitgraph.autograd.substitution import is_module, standing_for
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.tensor import lifting


def functional_call(
    module: Any,
    parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """``module(*args, **kwargs)`` with these tensors, by dotted name, in place of its parameters and buffers.

    ``parameters`` is a dict of tensors, or several, of the shapes and dtypes of the module's own, else ShapeError or
    DTypeError; tensors that it does not name are the module's. Gradients flow to the tensors given, and the module is
    left as it was: what it writes into them is dropped. ``args`` is a tuple, or one argument. JitgraphError for names
    that the module does not have.
    """
    if not is_module(module):
        raise JitgraphError(f"functional_call takes a module first, not a {type(module).__name__}")
    overrides: dict[str, Any] = {}
    for part in [parameters] if isinstance(parameters, Mapping) else parameters:
        overrides |= part
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    unknown = [name for name in overrides if name not in own]
    if unknown:
        raise JitgraphError(
            f"functional_call: {type(module).__name__} has no tensor {unknown[0]!r}\n"
            f"  hint: its tensors are {', '.join(own) or 'none'}"
        )
    values = []
    for name, tensor in overrides.items():
        value = lifting.value_of(tensor)
        if tuple(value.type.shape) != tuple(own[name].shape):
            shape = tuple(own[name].shape)
            raise ShapeError(f"functional_call: {name} has the shape {shape}, not {tuple(value.type.shape)}")
        if value.type.dtype != own[name].dtype:
            raise DTypeError(f"functional_call: {name} is {own[name].dtype.name}, not {value.type.dtype.name}")
        values.append(value)
    with standing_for([own[name] for name in overrides], values):
        return module(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
