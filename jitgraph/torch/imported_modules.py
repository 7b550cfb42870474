"""Modules that PyTorch's programs import by its own layout: those that have the names of a package here, and reasons.

``torch.nn.modules.loss`` has the names of ``torch.nn``. A module of PyTorch's that is none here is a
ModuleNotFoundError with the reason that the error for the attribute has.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from jitgraph.torch import absent

_ROOT: Final = f"{__package__}."
_SAME_NAMES: Final = {
    "nn.modules": "activation adaptive channelshuffle container distance flatten fold linear loss normalization "
    "padding pixelshuffle pooling rnn sparse transformer upsampling",
    "nn.utils": "clip_grad convert_parameters",
    "optim": "adadelta adafactor adagrad adam adamax adamw asgd lbfgs nadam radam rmsprop rprop sgd",
    "utils": "dlpack",
}
"""Packages, and modules of PyTorch's in them."""

_OWNERS: Final = {"nn.modules": f"{_ROOT}nn", "utils": _ROOT.rstrip(".")}
"""Where the names of such modules are, where that is not their package."""


class _SameNames:
    """What makes a module that has the names of another one."""

    def __init__(self, owner: str) -> None:
        self._owner = owner

    def create_module(self, spec: ModuleSpec) -> None:
        """The usual module."""

    def exec_module(self, module: ModuleType) -> None:
        """Let the module answer with the owner's names."""
        owner = importlib.import_module(self._owner)

        def attribute(name: str) -> Any:
            if name.startswith("__"):  # what import and inspection ask of a module is not the owner's
                raise AttributeError(name)
            return getattr(owner, name)

        module.__getattr__ = attribute  # type: ignore[method-assign]


class Finder:
    """Finds, after all others, modules of PyTorch's layout."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The specification of such a module; ModuleNotFoundError with the reason where there is one."""
        if not fullname.startswith(_ROOT):
            return None
        package, _, name = fullname.removeprefix(_ROOT).rpartition(".")
        if name in _SAME_NAMES.get(package, "").split():
            loader = _SameNames(_OWNERS.get(package, _ROOT + package))
            return ModuleSpec(fullname, loader)  # type: ignore[arg-type]  # importlib.abc loads importlib.resources
        owner = f"torch.{package}" if package else "torch"
        reason = absent.reason_for(owner, name)
        if reason is not None:
            raise ModuleNotFoundError(f"No module named '{owner}.{name}': {reason}", name=fullname)
        return None


def install() -> None:
    """Let imports find these modules."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.append(Finder())
