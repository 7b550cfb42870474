"""Norms of rows, with derivatives that stay finite at 0."""

from __future__ import annotations

import math

from jitgraph.eager import placement
from jitgraph.errors import JitgraphError
from jitgraph.ops.transcendental import root
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.elementwise import where


def norm(x: Tensor, p: float, axis: int, *, keepdims: bool = True) -> Tensor:
    """(sum |x|^p)^(1/p) along ``axis``, the largest |x| for p infinite; p > 0.

    At an element, and at a row, of 0 all derivatives count as 0, as in PyTorch.
    """
    if not p > 0:
        raise JitgraphError(f"a {p}-norm\n  hint: p is a positive number, or infinite for the largest element")
    if p == math.inf:
        return abs(x).max(axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]
    if p == 2:
        squares = lifting.value_of((x * x).sum(axis=axis, keepdims=keepdims))
        with placement.beside(squares):
            return wrap(root(squares))
    powers = _power(abs(x), p).sum(axis=axis, keepdims=keepdims)
    return _power(powers, 1 / p)


def _power(x: Tensor, exponent: float) -> Tensor:
    """x to a power, for x from 0 up: at 0 the power of 1 stands behind the choice, so that no slope is infinite."""
    if exponent == 1:
        return x
    nothing = x == 0
    result: Tensor = where(nothing, 0.0, where(nothing, 1.0, x) ** exponent)
    return result
