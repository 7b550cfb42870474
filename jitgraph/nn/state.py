"""State dicts of modules: making them, and setting parameters and buffers from one, all or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jitgraph.autograd import no_grad
from jitgraph.dtypes import is_float
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import asarray

if TYPE_CHECKING:
    from jitgraph.nn.module import Module

_EXTRA = "_extra_state"


class Keys(NamedTuple):
    """What ``load_state_dict`` found no place or no value for."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def save(module: Module, destination: dict[str, Any], prefix: str, keep_vars: bool) -> dict[str, Any]:
    """As ``Module.state_dict``, into ``destination``; modules below are asked for their own."""
    _run(module, "saving", prefix, keep_vars)
    for name, tensor in module._own_persistent(prefix):
        destination[name] = tensor if keep_vars else np.array(tensor.detach().cpu().numpy())
    if _has_extra(module):
        destination[prefix + _EXTRA] = module.get_extra_state()
    for name, child in module.named_children():
        child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for when, hook, _ in module._state_hooks:
        if when == "saved":
            changed = hook(module, destination, prefix, {})
            destination = destination if changed is None else changed
    return destination


def _has_extra(module: Module) -> bool:
    """Whether a class of the module's defines ``get_extra_state``, which the base of all only refuses."""
    definer = next(kind for kind in type(module).__mro__ if "get_extra_state" in vars(kind))
    return definer.__module__ != "jitgraph.nn.module"


def _run(module: Module, when: str, *args: Any) -> None:
    for kind, hook, _ in module._state_hooks:
        if kind == when:
            hook(module, *args)


def _prepared(module: Module, state: Mapping[str, Any], strict: bool) -> tuple[dict[str, Any], list[str]]:
    """A copy of a state dict as hooks and classes have changed it, and what they object to."""
    prepared, errors = dict(state), list[str]()
    keys: tuple[list[str], list[str]] = ([], [])
    for path, part in module.named_modules(remove_duplicate=False):
        hook_args: tuple[Any, ...] = (prepared, f"{path}." if path else "", {}, strict, *keys, errors)
        for when, hook, with_module in part._state_hooks:
            if when == "loading":
                hook(part, *hook_args) if with_module else hook(*hook_args)
        part._load_from_state_dict(*hook_args)
    return prepared, errors


def load(module: Module, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> Keys:
    """As ``Module.load_state_dict``; the texts of errors are PyTorch's."""
    if not isinstance(state_dict, Mapping):
        raise JitgraphError(f"load_state_dict takes a dict of arrays by name, not a {type(state_dict).__name__}")
    state, problems = _prepared(module, state_dict, strict)
    waiting: Any
    for path, waiting in module.named_modules():
        if waiting._deferred is not None:
            waiting.materialize_from(state, f"{path}." if path else "")
    own = dict(module._persistent())
    extra = {f"{path}.{_EXTRA}" if path else _EXTRA: part for path, part in module.named_modules() if _has_extra(part)}
    expected_keys = [*own, *extra]
    keys = Keys(
        [name for name in expected_keys if name not in state],
        [name for name in state if name not in own and name not in extra],
    )
    values, mismatches = _values(own, state, assign)
    hooked = any(when == "loaded" for part in module.modules() for when, _, _ in part._state_hooks)
    if problems or mismatches or not hooked:
        _complain(module, [*problems, *_misses(keys, strict)], mismatches)
    before = [own[name].value for name in values]
    _set(own, values.items(), assign)
    if hooked:  # which may change what is missing, and see the new values
        for part in module.modules():
            _run(part, "loaded", keys)
        misses = _misses(keys, strict)
        if misses:
            _set(own, zip(values, before, strict=True), True)
        _complain(module, misses, [])
    for name, part in extra.items():
        if name in state:
            part.set_extra_state(state[name])
    return keys


def _values(own: Mapping[str, Tensor], state: Mapping[str, Any], assign: bool) -> tuple[dict[str, Any], list[str]]:
    """The value of each tensor that the state has, and which shapes differ."""
    values, mismatches = {}, []
    for name, tensor in own.items():
        if name not in state:
            continue
        entry = state[name]
        value = entry.detach().value if isinstance(entry, Tensor) else asarray(entry).value
        if tuple(value.type.shape) != tuple(tensor.shape):
            mismatches.append(
                f"size mismatch for {name}: copying a param with shape {tuple(value.type.shape)} from checkpoint, "
                f"the shape in current model is {tuple(tensor.shape)}."
            )
        elif not assign:
            values[name] = lifting.cast(value, tensor.dtype)
        elif is_float(value.dtype) == is_float(tensor.dtype):
            values[name] = value
        else:
            kinds = f"{value.dtype.name} for {name}, which is {tensor.dtype.name}"
            raise DTypeError(f"load_state_dict(assign=True): {kinds}", hint="leave assign out, which casts")
    return values, mismatches


def _set(own: Mapping[str, Tensor], values: Iterable[tuple[str, Any]], assign: bool) -> None:
    with no_grad():
        for name, value in values:
            tensor = own[name]
            if assign and value.dtype != tensor.dtype:
                tensor.grad = None
            tensor._rebind(value if assign else wrap(value).to(tensor.device).value)


def _misses(keys: Keys, strict: bool) -> list[str]:
    problems = []
    if strict and keys.unexpected_keys:
        problems.append(f"Unexpected key(s) in state_dict: {_quoted(keys.unexpected_keys)}. ")
    if strict and keys.missing_keys:
        problems.append(f"Missing key(s) in state_dict: {_quoted(keys.missing_keys)}. ")
    return problems


def _complain(module: Module, problems: list[str], mismatches: list[str]) -> None:
    if problems or mismatches:
        lines = "\n\t".join([*problems, *mismatches])
        kind = JitgraphError if problems else ShapeError
        raise kind(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{lines}")


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
