"""``torch.compile`` of functions: ``jg.script``, which also compiles loops and branches that depend on tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jitgraph as jg

BACKENDS: Final = ("aot_eager", "cudagraphs", "eager", "inductor", "jitgraph")
"""The names of compilers that programs ask for; it is always jitgraph's."""

_MODES: Final = ("default", "lite", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_OPTIONS: Final = (
    "dynamic_shapes", "static_argnames", "static_argnums", "fastmath", "device", "strict", "verify", "threads",
    "max_bytes",
)  # fmt: skip
_WITHOUT_EFFECT: Final = (
    "coordinate_descent_tuning", "cpp_wrapper", "dce", "epilogue_fusion", "fallback_random", "force_same_precision",
    "freezing", "guard_filter_fn", "layout_optimization", "max_autotune", "max_autotune_gemm", "shape_padding",
    "trace.enabled", "trace.graph_diagram", "triton.cudagraphs",
)  # fmt: skip
"""Options of PyTorch's compiler, which choose among its implementations."""


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
    if backend not in BACKENDS:
        raise RuntimeError(
            f"Invalid backend: {backend!r}, see `torch.compiler.list_backends()` for available backends."
        )
    if mode is not None and options:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    known = {}
    for name, value in (options or {}).items():
        if name in _OPTIONS:
            known[name] = value
        elif name not in _WITHOUT_EFFECT:
            names = ", ".join((*_OPTIONS, *_WITHOUT_EFFECT))
            raise RuntimeError(f"Unexpected optimization option {name}, known options are {names}")
    return jg.script(model, **known)
