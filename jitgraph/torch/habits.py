"""What jitgraph's errors say of PyTorch's names that it lacks: where ``jitgraph.torch`` has them, or why not."""

from __future__ import annotations

from typing import Final

from jitgraph.runtime import imports
from jitgraph.torch import absent
from jitgraph.torch.tensors import Tensor

_PACKAGES: Final = {"jg.data": "torch.utils.data", "x": "torch"}
"""PyTorch's packages that have the names of what is called otherwise here."""


def hint(owner: str, name: str) -> str | None:
    """What to do for a name of PyTorch's that ``owner`` lacks: "jg", "jg.nn", a tensor "x"; None for other names."""
    package = _PACKAGES.get(owner) or owner.replace("jg", "torch", 1)
    if owner == "x" and hasattr(Tensor, name):
        return f"write x.{name}, of a tensor of jitgraph.torch"
    try:
        if owner != "x" and hasattr(imports.module(f"jitgraph.{package}"), name):
            return f"write {package}.{name}, after import jitgraph.torch as torch"
    except ModuleNotFoundError:  # PyTorch has no such package
        return None
    return absent.reason_for(package, name)
