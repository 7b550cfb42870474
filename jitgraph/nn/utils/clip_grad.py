"""Limiting the size of gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable

from jitgraph.autograd import no_grad
from jitgraph.dtypes import DType, float32, float64, is_complex, part_of
from jitgraph.errors import JitgraphError
from jitgraph.ir import context
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import zeros
from jitgraph.tensor.functions.elementwise import clip, minimum, sqrt, square
from jitgraph.tensor.functions.manipulation import stack
from jitgraph.tensor.functions.norms import whole_range_norm
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.gradients import updated


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    members = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p for p in members if p.grad is not None]


def _widest(members: set[DType]) -> DType:
    """The only dtype; of several the widest, float32 at least."""
    return members.pop() if len(members) == 1 else max(members | {float32}, key=lambda dtype: dtype.itemsize)


def _wide_norm(tensors: list[Tensor], p: float) -> Tensor:
    """The joint norm in float64, in which no square of a narrower number leaves the range."""
    sizes = [x.abs() if is_complex(x.dtype) else x for x in tensors]
    narrow = all(x.dtype != float64 for x in sizes)
    wide = [x.astype(float64) for x in sizes]
    if p == 2 and narrow:
        total = square(wide[0]).sum()
        for part in wide[1:]:
            total = total + square(part).sum()
        return sqrt(total)
    each = [whole_range_norm(reshape(x, (-1,)), p, 0) for x in wide]
    return whole_range_norm(stack(each, axis=0), p, 0)


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
    tensor_list = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not tensor_list:
        return zeros(())
    wide = _wide_norm(tensor_list, float(norm_type))
    norm: Tensor = wide.astype(_widest({part_of(x.dtype) for x in tensor_list}))
    if error_if_nonfinite:
        if context.current().trace is not None:
            raise JitgraphError("error_if_nonfinite=True in a trace\n  hint: jg.debug.check the norm that is returned")
        if not math.isfinite(norm.item()):
            raise JitgraphError(f"the {norm_type}-norm of the gradients is {norm.item()}")
    return norm


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
    with_grads = _gradients(parameters)
    with no_grad():
        gradients = [p.grad for p in with_grads if p.grad is not None]
        norm = get_total_norm(gradients, norm_type, error_if_nonfinite)
        wide = _wide_norm(gradients, float(norm_type)) if gradients else norm
    clip_grads_with_norm_(with_grads, max_norm, wide)
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
            p.grad = updated(gradient, gradient * scale.astype(gradient.dtype))


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Limit every gradient element to at most ``clip_value`` in size, in place; ``foreach`` changes nothing."""
    with no_grad():
        for p in _gradients(parameters):
            gradient = p.grad
            assert gradient is not None
            p.grad = updated(gradient, clip(gradient, -clip_value, clip_value))
