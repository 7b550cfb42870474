"""What TorchScript's code reads of its objects and sets in them.

A trace follows the functions of this file as it follows the user's code: so attributes that steer a recording are
guarded, and those that it sets are set again at each call. The rest of the evaluator it does not follow.
"""

from __future__ import annotations

from typing import Any

from jitgraph.torch.torchscript import calling
from jitgraph.tracing.script import staging


def get_attribute(owner: Any, name: str) -> Any:
    """An attribute of a module or object; lists and dicts are guarded with what is in them."""
    return calling.itself(getattr(owner, name))


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """Set an attribute of a module or object; one that has an equal number or text already stays as it is."""
    if calling.is_same_constant(getattr(owner, name, None), value):
        return
    staging.changing(owner, name)
    setattr(owner, name, value)


def get_state(owner: Any, name: str) -> Any:
    """An attribute that the code replaces: in a trace a tensor of its own, which stays when the attribute changes."""
    value = getattr(owner, name)
    return calling.snapshot(value) if calling.is_recording() else calling.itself(value)


def set_state(owner: Any, name: str, value: Any) -> None:
    """Replace an attribute: in a trace by writing to the tensor that is there, where it has the same type."""
    if calling.is_recording() and calling.overwritten(getattr(owner, name, None), value):
        return
    set_attribute(owner, name, value)


def change(owner: Any, method: str, *args: Any) -> Any:
    """Call a method that changes a list or dict, which may be an attribute of a module."""
    return staging.callee(getattr(owner, method))(*args)


def set_item(owner: Any, key: Any, value: Any) -> None:
    """Set an element of a list or dict."""
    staging.changing(owner)
    owner[key] = value


def delete_item(owner: Any, key: Any) -> None:
    """Remove an element of a list or dict."""
    staging.changing(owner)
    del owner[key]


def reach(module: Any) -> None:
    """Go along the submodules, so that a trace knows where each of them is found."""
    for name in type(module).script_children:
        child = getattr(module, name)
        if child is not None:
            reach(child)
