"""``torch.compile`` of functions: ``jg.script``, which also compiles loops and branches that depend on tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jitgraph as jg


def compile_function(
    model: Callable[..., Any],
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "jitgraph",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """As ``torch.compile``, of anything as a function."""
    if disable:
        return model
    if not isinstance(backend, str):
        raise RuntimeError("torch.compile(backend=...) takes a name: the compiler is always jitgraph's")
    return jg.script(model, **(options or {}))
