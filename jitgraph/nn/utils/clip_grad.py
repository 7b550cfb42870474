"""Limiting the size of gradients."""

from __future__ import annotations

from collections.abc import Iterable

from jitgraph.autograd import no_grad
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros
from jitgraph.tensor.functions.elementwise import minimum, sqrt, square


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale the gradients in place so that their joint 2-norm is at most ``max_norm``.

    Returns the norm before, 0 without gradients.
    """
    members = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    given = [p for p in members if p.grad is not None]
    if not given:
        return zeros(())
    with no_grad():
        squares = [square(p.grad).sum() for p in given if p.grad is not None]
        total = squares[0]
        for part in squares[1:]:
            total = total + part
        norm: Tensor = sqrt(total)
        scale = minimum(max_norm / (norm + 1e-6), 1.0)
        for p in given:
            gradient = p.grad
            assert gradient is not None
            p.grad = gradient * scale.astype(gradient.dtype)
    return norm
