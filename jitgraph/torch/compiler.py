"""``torch.compiler``: what programs ask of the compiler. It compiles whole functions, so that most changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from jitgraph.ir import context
from jitgraph.torch import module_reasons
from jitgraph.torch.compiling import BACKENDS
from jitgraph.torch.compiling import compile as compile


def is_compiling() -> bool:
    """Whether the code that asks is being compiled."""
    return context.current().trace is not None


def is_exporting() -> bool:
    """Whether the code that asks is being exported: no, PyTorch exports programs."""
    return False


is_dynamo_compiling = is_compiling


def reset() -> None:
    """Changes nothing: code that is compiled is valid while its guards hold."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that ``torch.compile(backend=...)`` takes."""
    return sorted(BACKENDS)


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself, or a decorator: in a compiled function its calls are a part of the one graph."""
    return allow_in_graph if fn is None else fn


def allow_in_graph(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself: all calls are in the graph."""
    return fn


assume_constant_result = allow_in_graph


def nested_compile_region(
    fn: Any = None, *, options: Any = None, max_reuse_entries: int = 8, reuse_hash_fn: Any = None
) -> Any:
    """The function itself, or a decorator: equal parts of a graph are compiled once without being asked."""
    return allow_in_graph if fn is None else fn


def cudagraph_mark_step_begin() -> None:
    """Changes nothing: results are memory of their own."""


def set_stance(
    stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
) -> AbstractContextManager[None]:
    """A block, or a call, that changes nothing: code compiles when its guards ask for it. RuntimeError for others
    than PyTorch's stances."""
    if stance not in ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile"):
        raise RuntimeError(f"invalid torch.compile stance {stance!r}")
    if stance == "force_eager":
        raise RuntimeError("set_stance('force_eager') is not there: set JITGRAPH_DISABLE_JIT=1 in the environment")
    return nullcontext()


__getattr__ = module_reasons.refusal("torch.compiler")
