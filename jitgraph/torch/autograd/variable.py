"""``torch.autograd.Variable``, the name that tensors with gradients once had."""

from __future__ import annotations

from typing import Any

from jitgraph.torch.tensors import Tensor


class _OfTensors(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_OfTensors):
    """``Variable(x, requires_grad)`` is the tensor x without history; every tensor is an instance."""

    def __new__(cls, data: Any, requires_grad: bool = False) -> Any:
        return data.detach().requires_grad_(requires_grad) if requires_grad or data.requires_grad else data
