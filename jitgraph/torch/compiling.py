"""``torch.compile``: jitgraph's ``script``, which also compiles loops and branches that depend on tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jitgraph as jg


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "jitgraph",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """A function, or of a module a module with its state, that runs as native code. Without a model, a decorator.

    There is always one graph, and sizes that vary are found out by themselves, so ``fullgraph``, ``dynamic`` and
    ``mode`` change nothing; ``options`` are those of ``jg.script``. ``disable`` gives the model back. RuntimeError for
    a backend of PyTorch's that is a callable.
    """
    if model is None:
        kept: dict[str, Any] = {"backend": backend, "options": options, "disable": disable}
        return functools.partial(compile, **kept)
    if disable:
        return model
    if not isinstance(backend, str):
        raise RuntimeError("torch.compile(backend=...) takes a name: the compiler is always jitgraph's")
    from jitgraph.torch.nn.compiled import OptimizedModule  # here, as functions compile without layers
    from jitgraph.torch.nn.module import Module

    if isinstance(model, Module):
        return OptimizedModule(model, options or {})
    return jg.script(model, **(options or {}))
