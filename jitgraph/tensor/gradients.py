"""Where a gradient starts, and the sweep of the tape that brings it to the leaves."""

from __future__ import annotations

from typing import Any

from jitgraph.dtypes import is_complex
from jitgraph.eager import placement, tape
from jitgraph.eager.handle import COMPUTED
from jitgraph.errors import DeviceError, DTypeError, ShapeError
from jitgraph.ir import context
from jitgraph.runtime.buffer import CPU
from jitgraph.tensor import lifting
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.reading import ReadableHandle


def cotangent(tensor: ReadableHandle, gradient: TensorLike | None) -> Any:
    """The value with which the gradient of ``tensor`` starts: ``gradient``, or 1 for a tensor of one element.

    ShapeError where ``gradient`` is not of its type, or is wanted.
    """
    if gradient is None:
        if tensor.size != 1:
            raise ShapeError(
                f"a gradient without a cotangent needs a scalar; the shape is {tuple(tensor.shape)}",
                hint="reduce first (loss.mean()) or pass gradient=",
            )
        if is_complex(tensor.dtype):
            raise DTypeError(
                f"a gradient without a cotangent needs a real number, not {tensor.dtype.name}",
                hint="take a real loss, such as jg.abs(x) or x.real, or pass gradient=",
            )
        one = lifting.constant(1.0, tensor.dtype, tensor.shape)
        return one if tensor.device == CPU else placement.copied(one, tensor.device)
    value = lifting.value_of(gradient, tensor.dtype)
    if isinstance(value, COMPUTED) and value.device != tensor.device:
        raise DeviceError(
            f"the cotangent is on {value.device}, the tensor on {tensor.device}", hint="gradient.to(x.device)"
        )
    if tuple(value.type.shape) != tuple(tensor.shape) or value.type.dtype != tensor.dtype:
        raise ShapeError(f"the cotangent is {value.type}, the tensor {tensor.value.type}")
    return value


def leaf_gradients(
    tensor: ReadableHandle, gradient: TensorLike | None, *, retain_graph: bool, create_graph: bool
) -> list[tuple[Any, Any]]:
    """The leaves on which ``tensor`` depends, each with the value of its gradient, outside of traces."""
    by_record = tape.sweep(
        [tensor.value],
        [cotangent(tensor, gradient)],
        targets=None,
        create_graph=create_graph,
        retain_graph=retain_graph,
    )
    alive = [(record.handle(), value) for record, value in by_record.items()]
    return [(handle, value) for handle, value in alive if handle is not None]


def notify(leaf: Any) -> None:
    """Call what waits for the ``.grad`` of a leaf, which has just been accumulated."""
    if leaf._hooks is not None:
        for _, when, hook in leaf._hooks.entries:
            if when == tape.ACCUMULATED:
                hook(leaf)


def accumulated(gradient: Any, fresh: Any) -> Any:
    """What ``.grad`` is after another gradient: the sum."""
    return updated(gradient, gradient + fresh)


def updated(gradient: Any, new: Any) -> Any:
    """What ``.grad`` is after it got new elements: of PyTorch's API the same tensor, unless its graph is recorded."""
    if gradient._api != "torch" or context.current().grad_enabled:
        return new
    gradient._rebind(new.value)
    return gradient


def zeroed(gradient: Any, zeros: Any) -> Any:
    """What ``.grad`` is after ``zero_grad(set_to_none=False)``: ``zeros``, without a history."""
    with context.using(grad_enabled=False):
        return zeros if gradient.requires_grad else updated(gradient, zeros)
