"""``torch.compile``, of functions and of modules."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgraph.torch.compiled_functions import BACKENDS as BACKENDS
from jitgraph.torch.compiled_functions import compile_function
from jitgraph.torch.nn.compiled import OptimizedModule
from jitgraph.torch.nn.module import Module


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
    ``mode`` change nothing; ``options`` are those of ``jg.script``, and those of PyTorch's compiler, without effect.
    ``disable`` gives the model back. RuntimeError for a backend that is a callable, and for unknown names.
    """
    settings: dict[str, Any] = {"backend": backend, "mode": mode, "options": options, "disable": disable}
    if model is None:
        return functools.partial(compile, **settings)
    if isinstance(model, Module) and not disable:
        return OptimizedModule(model, settings)
    return compile_function(model, **settings)
