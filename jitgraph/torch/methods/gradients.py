"""The gradient of a tensor, as a method."""

from __future__ import annotations

from typing import Any

from jitgraph.tensor import gradient_hooks
from jitgraph.torch.autograd import gradients
from jitgraph.torch.tensors import Tensor


def backward(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Accumulate the gradient of this tensor, a scalar unless ``gradient`` is given, into ``.grad`` of the leaves.

    Those are ``inputs``, or all on which the tensor depends. Errors as of ``torch.autograd.backward``.
    """
    gradients.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def register_post_accumulate_grad_hook(self: Tensor, hook: Any) -> Any:
    """Call ``hook(self)`` whenever a backward has added to ``self.grad``; RuntimeError where this is no leaf.

    Compiled functions that were compiled before compile anew. Returns a handle with ``remove()``.
    """
    if not self._requires_grad:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return gradient_hooks.registered_after(self, hook)
