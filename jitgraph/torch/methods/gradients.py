"""The gradient of a tensor, as a method."""

from __future__ import annotations

from typing import Any

from jitgraph.torch.autograd import gradients
from jitgraph.torch.tensors import Tensor


def backward(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Accumulate the gradient of this tensor, a scalar unless ``gradient`` is given, into ``.grad`` of the leaves.

    Those are ``inputs``, or all on which the tensor depends. Errors as of ``torch.autograd.backward``.
    """
    gradients.backward(self, gradient, retain_graph, create_graph, inputs=inputs)
