"""``torch._dynamo``: settings and calls of programs that tell PyTorch's capture what to do; they change nothing."""

from __future__ import annotations

from typing import Final

from jitgraph.torch.backends import Backend
from jitgraph.torch.compiler import allow_in_graph, assume_constant_result, disable, is_compiling, list_backends, reset

__all__ = ["allow_in_graph", "assume_constant_result", "config", "disable", "is_compiling", "list_backends", "reset"]

config: Final = Backend(
    accumulated_recompile_limit=256, cache_size_limit=8, capture_dynamic_output_shape_ops=True,
    capture_scalar_outputs=True, recompile_limit=8, suppress_errors=False, verbose=False,
)  # fmt: skip
