"""``torch.nn.utils.init``: modules whose first values do not matter."""

from __future__ import annotations

import inspect
from typing import Any

import jitgraph as jg


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A module with any values in its parameters: here those with which it begins."""
    if not issubclass(module_cls, jg.nn.Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    return module_cls(*args, **kwargs)
