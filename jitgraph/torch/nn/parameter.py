"""``torch.nn.Parameter`` and ``torch.nn.Buffer``: the tensors of modules."""

from __future__ import annotations

from typing import Any

import jitgraph as jg
from jitgraph.eager.handle import NATIVE_CLASSES
from jitgraph.nn.module import ModuleBuffer
from jitgraph.nn.module import Parameter as JitgraphParameter
from jitgraph.runtime import imports
from jitgraph.torch.sharing import begin
from jitgraph.torch.tensors import Tensor
from jitgraph.torch.view_steps import Detach


class Parameter(Tensor, JitgraphParameter):
    """A tensor that a module learns: a leaf that requires a gradient unless told otherwise.

    It shares the elements of the tensor of which it is made: writes to one are seen in the other.
    """

    __slots__ = ()

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        if not _shares(self, data):
            JitgraphParameter.__init__(self, data, requires_grad)
        elif requires_grad:
            self.requires_grad_()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A parameter of its own on the same value, without ``.grad``, as in PyTorch."""
        copied = super().__deepcopy__(memo)
        copied.grad = None
        return copied


NATIVE_CLASSES["torch", True] = Parameter


class Buffer(Tensor, ModuleBuffer):
    """A tensor that, set as an attribute of a module, is state that is not learned.

    It shares the elements of the tensor of which it is made.
    """

    __slots__ = ()

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        if _shares(self, data):
            self.persistent = persistent
        else:
            ModuleBuffer.__init__(self, data, persistent=persistent)


def _shares(new: Tensor, data: Any) -> bool:
    """Whether a new tensor has the elements of ``data`` from now on: those of a tensor."""
    if not isinstance(data, Tensor):
        return False
    begin(new, data, Detach())
    return True


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
