"""Norms of rows, with derivatives that stay finite at 0."""

from __future__ import annotations

from jitgraph.errors import JitgraphError
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.norms import p_norm


def norm(x: Tensor, p: float, axis: int, *, keepdims: bool = True) -> Tensor:
    """``p_norm`` along ``axis`` for p > 0; JitgraphError for other orders."""
    if not p > 0:
        raise JitgraphError(f"a {p}-norm\n  hint: p is a positive number, or infinite for the largest element")
    return p_norm(x, float(p), axis, keepdims=keepdims)
