"""Setting a module's parameters and buffers from a state dict, all or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from jitgraph.autograd import no_grad
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import asarray

if TYPE_CHECKING:
    from jitgraph.nn.module import Module


class Keys(NamedTuple):
    """What ``load_state_dict`` found no place or no value for."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def load(module: Module, state: Mapping[str, Any], strict: bool) -> Keys:
    """As ``Module.load_state_dict``; the texts of errors are PyTorch's."""
    if not isinstance(state, Mapping):
        raise JitgraphError(f"load_state_dict takes a dict of arrays by name, not a {type(state).__name__}")
    waiting: Any
    for path, waiting in module.named_modules():
        if waiting._deferred is not None:
            waiting.materialize_from(state, f"{path}." if path else "")
    own = dict(module._persistent())
    keys = Keys([name for name in own if name not in state], [name for name in state if name not in own])
    values, mismatches = {}, []
    for name, tensor in own.items():
        if name not in state:
            continue
        given = state[name]
        value = given.detach().value if isinstance(given, Tensor) else asarray(given).value
        if tuple(value.type.shape) != tuple(tensor.shape):
            mismatches.append(
                f"size mismatch for {name}: copying a param with shape {tuple(value.type.shape)} from checkpoint, "
                f"the shape in current model is {tuple(tensor.shape)}."
            )
            continue
        values[name] = lifting.cast(value, tensor.dtype)
    problems = []
    if strict and keys.unexpected_keys:
        problems.append(f"Unexpected key(s) in state_dict: {_quoted(keys.unexpected_keys)}. ")
    if strict and keys.missing_keys:
        problems.append(f"Missing key(s) in state_dict: {_quoted(keys.missing_keys)}. ")
    if problems or mismatches:
        lines = "\n\t".join([*problems, *mismatches])
        kind = JitgraphError if problems else ShapeError
        raise kind(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{lines}")
    with no_grad():
        for name, value in values.items():
            own[name]._rebind(wrap(value).to(own[name].device).value)
    return keys


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
