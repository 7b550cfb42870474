"""``torch.nn.Parameter`` and ``torch.nn.Buffer``: the tensors of modules."""

from __future__ import annotations

from typing import Any

import jitgraph as jg
from jitgraph.eager.handle import NATIVE_CLASSES
from jitgraph.nn.module import ModuleBuffer
from jitgraph.nn.module import Parameter as JitgraphParameter
from jitgraph.runtime import imports
from jitgraph.torch.tensors import Tensor


class Parameter(Tensor, JitgraphParameter):
    """A tensor that a module learns: a leaf that requires a gradient unless told otherwise."""

    __slots__ = ()

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        JitgraphParameter.__init__(self, data, requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A parameter of its own on the same value, without ``.grad``, as in PyTorch."""
        copied = super().__deepcopy__(memo)
        copied.grad = None
        return copied


NATIVE_CLASSES["torch", True] = Parameter


class Buffer(Tensor, ModuleBuffer):
    """A tensor that, set as an attribute of a module, is state that is not learned."""

    __slots__ = ()

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        ModuleBuffer.__init__(self, data, persistent=persistent)


_CLASSES: dict[type, type] = {jg.Tensor: Tensor, JitgraphParameter: Parameter, ModuleBuffer: Buffer}


def adopt(tensor: Any) -> None:
    """Make a tensor of jitgraph's one of PyTorch's, the object itself; others stay."""
    kind = _CLASSES.get(tensor.__class__)
    if kind is not None:
        tensor.__class__ = kind


def __getattr__(name: str) -> Any:
    if name not in ("UninitializedBuffer", "UninitializedParameter"):
        raise AttributeError(f"module 'torch.nn.parameter' has no attribute '{name}'")
    return getattr(imports.module("jitgraph.torch.nn.uninitialized"), name)  # which imports this module
