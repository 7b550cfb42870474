"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jitgraph as jg
from jitgraph.torch.tensors import adopted


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``module(*args, **kwargs)`` with these tensors, by dotted name, in place of its parameters and buffers.

    With ``strict`` they are all of the module's own, else RuntimeError. A tensor that two modules share is replaced
    wherever it is used, as ``tie_weights`` says in PyTorch.
    """
    dicts = (
        [parameter_and_buffer_dicts] if isinstance(parameter_and_buffer_dicts, Mapping) else parameter_and_buffer_dicts
    )
    merged: dict[str, Any] = {}
    for given in dicts:
        for name, value in given.items():
            if name in merged:
                raise ValueError(f"{name} appears in multiple dictionaries; behavior of functional call is ambiguous")
            merged[name] = value
    if strict:
        own = {name for name, _ in (*module.named_parameters(), *module.named_buffers())}
        if own != merged.keys():
            raise RuntimeError(
                f"Error(s) in loading parameters: unexpected {sorted(merged.keys() - own)}, missing "
                f"{sorted(own - merged.keys())}"
            )
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    return adopted(jg.functional_call(module, merged, positional, kwargs or {}))


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of modules of one class, each stacked along a first axis: what ``vmap`` maps over."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = _stacked([dict(model.named_parameters()) for model in models])
    return parameters, _stacked([dict(model.named_buffers()) for model in models])


def _stacked(states: list[dict[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, first in states[0].items():
        column = [state[name] for state in states]
        if first.is_leaf and first.requires_grad:  # leaves of their own, for an optimiser
            with jg.no_grad():
                stacked: Any = adopted(jg.stack(column))
            result[name] = stacked.detach().requires_grad_()
        else:
            result[name] = adopted(jg.stack(column))
    return result


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let all batch norms below ``root`` normalise by the batch alone, without running statistics; gives root."""
    for module in root.modules():
        if hasattr(module, "track_running_stats") and hasattr(module, "running_mean"):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
