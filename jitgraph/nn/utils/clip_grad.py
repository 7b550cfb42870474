"""Limiting the size of gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable

from jitgraph.autograd import no_grad
from jitgraph.dtypes import bfloat16, float16, float32
from jitgraph.errors import JitgraphError
from jitgraph.ir import context
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros
from jitgraph.tensor.functions.elementwise import clip, minimum, sqrt, square
from jitgraph.tensor.functions.manipulation import stack
from jitgraph.tensor.functions.norms import p_norm
from jitgraph.tensor.functions.shapes import reshape


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    members = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p for p in members if p.grad is not None]


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The ``norm_type``-norm of all elements of all tensors, 0 for none; inf gives the largest magnitude.

    ``foreach`` changes nothing. With ``error_if_nonfinite`` JitgraphError where it is infinite or NaN, which only eager
    code can ask.
    """
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not given:
        return zeros(())
    dtypes_of = {x.dtype for x in given}
    if dtypes_of & {float16, bfloat16}:  # whose squares would overflow, or lose most of their digits in a sum
        result = dtypes_of.pop() if len(dtypes_of) == 1 else float32
        given = [x.astype(float32) if x.dtype in (float16, bfloat16) else x for x in given]
        whole: Tensor = get_total_norm(given, norm_type, error_if_nonfinite).astype(result)
        return whole
    if norm_type == 2:
        total = square(given[0]).sum()
        for part in given[1:]:
            total = total + square(part).sum()
        found: Tensor = sqrt(total)
    else:
        each = [p_norm(reshape(x, (-1,)), float(norm_type), 0) for x in given]
        found = p_norm(stack(each, axis=0), float(norm_type), 0)
    if error_if_nonfinite:
        if context.current().trace is not None:
            raise JitgraphError("error_if_nonfinite=True in a trace\n  hint: jg.debug.check the norm that is returned")
        if not math.isfinite(found.item()):
            raise JitgraphError(f"the {norm_type}-norm of the gradients is {found.item()}")
    return found


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients in place so that their joint norm is at most ``max_norm``; ``foreach`` changes nothing.

    Returns the norm before, 0 without gradients.
    """
    given = _gradients(parameters)
    with no_grad():
        norm = get_total_norm([p.grad for p in given if p.grad is not None], norm_type, error_if_nonfinite)
    clip_grads_with_norm_(given, max_norm, norm)
    return norm


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients in place by ``max_norm / total_norm`` where that is below 1; ``foreach`` changes nothing."""
    with no_grad():
        scale = minimum(max_norm / (total_norm + 1e-6), 1.0)
        for p in _gradients(parameters):
            gradient = p.grad
            assert gradient is not None
            p.grad = gradient * scale.astype(gradient.dtype)


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Hold every element of the gradients between -``clip_value`` and ``clip_value``; ``foreach`` changes nothing."""
    with no_grad():
        for p in _gradients(parameters):
            gradient = p.grad
            assert gradient is not None
            p.grad = clip(gradient, -clip_value, clip_value)
