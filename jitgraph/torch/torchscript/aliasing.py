"""Operators whose results share elements with their operand, for code that writes in place.

Code without such writes computes with values, and needs no views. Where an archive writes in place, tensors are
``jitgraph.torch.Tensor``, and the operators that PyTorch answers by a view give one here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from jitgraph.tensor import Tensor
from jitgraph.torch import tensors
from jitgraph.torch.functions import views
from jitgraph.torch.scalar_types import scalar_type
from jitgraph.torch.tensors import Tensor as TorchTensor
from jitgraph.torch.tensors import adopted

_LARGEST: Final = (1 << 63) - 1


def shared(x: Any) -> Any:
    """A tensor of another class as one that shares its elements and may have views; others as they are."""
    if not isinstance(x, Tensor) or isinstance(x, TorchTensor):
        return x
    return views.alias(x)  # type: ignore[arg-type]


def _view(self: Any, size: Any) -> Any:
    return views.view(self, scalar_type(size) if not isinstance(size, list | tuple) else tuple(size))


def _slice(self: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    end = None if type(end) is int and end >= _LARGEST else end
    return views.slice_of(self, dim, start, end, step)


def _sized(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, sizes, *rest, **kwargs: function(self, tuple(sizes), *rest, **kwargs)


def _listed(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: [*function(*args, **kwargs)]


VIEWS: Final[Mapping[str, Callable[..., Any]]] = {
    "view": _view, "view_as": views.view_as, "alias": views.alias, "reshape": _sized(views.reshape),
    "reshape_as": views.reshape_as, "permute": _sized(views.permute), "transpose": views.transpose,
    "swapaxes": views.transpose, "swapdims": views.transpose, "t": views.t, "adjoint": views.adjoint,
    "movedim": views.movedim, "moveaxis": views.movedim, "expand": _sized(views.expand), "expand_as": views.expand_as,
    "broadcast_to": _sized(views.broadcast_to), "unsqueeze": views.unsqueeze, "squeeze": views.squeeze,
    "flatten": views.flatten, "ravel": views.ravel, "unflatten": views.unflatten, "select": views.select,
    "narrow": views.narrow, "slice": _slice, "unbind": _listed(views.unbind), "split": _listed(views.split),
    "split_with_sizes": _listed(views.split_with_sizes), "chunk": _listed(views.chunk),
    "tensor_split": _listed(views.tensor_split), "diagonal": views.diagonal, "unfold": views.unfold,
    "as_strided": views.as_strided, "detach": tensors.detached, "numpy_T": lambda self: self.T,
    "contiguous": views.contiguous, "view_as_real": views.view_as_real, "view_as_complex": views.view_as_complex,
}  # fmt: skip
"""By the name of an operator its view, of ATen's signature."""

ITSELF: Final = frozenset({"to", "dropout", "type_as", "positive", "resolve_conj", "resolve_neg", "alpha_dropout"})
"""Operators that give their operand itself where they have nothing to do."""


def viewing(name: str) -> Callable[..., Any] | None:
    """The view of an operator; None where its result is a new tensor."""
    function = VIEWS.get(name)
    if function is None:
        return None

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(shared(self), *args, **kwargs)

    return call


def owning(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator with results of the class that has views."""
    if name not in ITSELF:
        return lambda *args, **kwargs: adopted(function(*args, **kwargs))

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(self, *args, **kwargs)
        if isinstance(result, Tensor) and isinstance(self, Tensor) and result.value is self.value:
            return self
        return adopted(result)

    return call


def writes_in_place(names: Iterable[str]) -> bool:
    """Whether code that calls these operators writes to tensors."""
    return any(name.endswith("_") and not name.endswith("__") for name in names)
