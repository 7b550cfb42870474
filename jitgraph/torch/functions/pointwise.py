"""Functions of each element: arithmetic, with the forms that write in place."""

from __future__ import annotations

from typing import Any

import jitgraph as jg
from jitgraph.torch.adapters import with_out
from jitgraph.torch.promotion import promoted


def _scaled(other: Any, alpha: Any) -> Any:
    return other if alpha == 1 else other * alpha


@with_out
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``input + alpha * other``."""
    x, y = promoted(input, other)
    return jg.add(x, _scaled(y, alpha))


@with_out
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """``input - alpha * other``."""
    x, y = promoted(input, other)
    return jg.subtract(x, _scaled(y, alpha))


@with_out
def mul(input: Any, other: Any) -> Any:
    """``input * other``."""
    return jg.multiply(*promoted(input, other))


@with_out
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sum over axes."""
    return jg.sum(input, axis=dim, keepdims=keepdim, dtype=dtype)
