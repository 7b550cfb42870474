"""The module that ``torch.compile`` makes of a module."""

from __future__ import annotations

from typing import Any

from jitgraph.torch.compiled_functions import compile_function
from jitgraph.torch.nn.module import Module


class OptimizedModule(Module):
    """A module that runs another as native code; the other is its child ``_orig_mod``, whose attributes it has."""

    _orig_mod: Module

    def __init__(self, module: Module, settings: dict[str, Any]) -> None:
        super().__init__()
        super().__setattr__("_orig_mod", module)
        del vars(self)["training"]  # the module's is meant
        vars(self)["_settings"] = settings
        self._compile()

    def _compile(self) -> None:
        vars(self)["_native"] = compile_function(self._orig_mod, **vars(self)["_settings"])

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        return vars(self)["_native"](*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        own = vars(self)
        if "_orig_mod" not in own or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if name in ("cache_info", "cache_clear", "lower"):
            return getattr(own["_native"], name)
        return getattr(own["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_orig_mod" not in vars(self) or name == "_orig_mod" or name in vars(self):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        del state["_native"]  # compiled for this very module
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compile()
