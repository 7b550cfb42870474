"""``torch.nn.modules.module``: the class of modules, and hooks of all modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph.nn.hooks import EVERYWHERE, RemovableHandle, registered
from jitgraph.torch.nn.module import Module, _IncompatibleKeys

__all__ = [
    "Module",
    "_IncompatibleKeys",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
]


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before each forward of every module; what it returns replaces the arguments."""
    return registered(EVERYWHERE, "before", hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, result)`` after each forward of every module; what it returns replaces the result."""
    return registered(EVERYWHERE, "always" if always_call else "after", hook, with_kwargs)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` when the gradients of a call of any module are known."""
    return registered(EVERYWHERE, "gradients", hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before the gradients of results go into any module."""
    return registered(EVERYWHERE, "results", hook)


register_module_backward_hook = register_module_full_backward_hook
