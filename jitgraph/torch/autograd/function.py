"""``torch.autograd.Function``: an op of the user's with a gradient of its own, over jitgraph's ``Function``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jitgraph import autograd
from jitgraph.torch.tensors import Tensor, adopted
from jitgraph.torch.writing import overwritten
from jitgraph.transforms.custom import FunctionContext


class FunctionCtx(FunctionContext):
    """What ``forward`` leaves for ``backward``: saved tensors, and any attributes."""

    dirty_tensors: tuple[Any, ...] = ()

    def mark_dirty(self, *tensors: Any) -> None:  # type: ignore[override]
        """Say that ``forward`` wrote to these arguments, and gives them back."""
        self.dirty_tensors = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Taken and not used: a cotangent that does not come is a tensor of zeros."""

    def save_for_forward(self, *tensors: Any) -> None:
        """Taken for forward mode, which asks ``backward``, too."""

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What ``save_for_backward`` was given."""
        return adopted(self._saved)  # type: ignore[no-any-return]

    saved_variables = saved_tensors
    to_save = saved_tensors


class Function(autograd.Function):
    """An op with static methods ``forward(ctx, *args)`` and ``backward(ctx, *cotangents)``, called by ``F.apply``.

    Or ``forward(*args)`` and ``setup_context(ctx, inputs, output)``. Errors as of ``jitgraph.autograd.Function``; a
    ``vmap`` or ``jvp`` that it defines is not asked, as those of the recorded ops are known.
    """

    context_class = FunctionCtx

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """The result of ``forward``; gradients go by ``backward``."""
        written: list[tuple[int, int]] = []  # of results that are arguments written in place: both numbers
        result = adopted(_over(cls, written).apply(*args))
        for number, position in dict(written).items():
            own = overwritten(args[position], result if number < 0 else result[number])
            result = own if number < 0 else type(result)((*result[:number], own, *result[number + 1 :]))
        return result


def _over(cls: type[Function], written: list[tuple[int, int]]) -> type[autograd.Function]:
    """``cls`` as jitgraph's Function, whose tensors become PyTorch's on their way to the user's methods."""
    setup = cls.__dict__.get("setup_context") or getattr(cls, "setup_context", None)

    def forward(ctx: Any, *inputs: Any) -> Any:
        own = adopted(inputs)
        if setup is None:
            out = cls.forward(ctx, *own)
        else:
            out = cls.forward(*own)
            cls.setup_context(ctx, own, out)  # type: ignore[misc]
        written[:] = _written(ctx, own, out)
        return out

    def backward(ctx: Any, *cotangents: Any) -> Any:
        return cls.backward(ctx, *adopted(cotangents))

    members = {"forward": staticmethod(forward), "context_class": cls.context_class}
    if hasattr(cls, "backward"):
        members["backward"] = staticmethod(backward)
    return type(cls.__name__, (autograd.Function,), members)


def _written(ctx: Any, inputs: tuple[Any, ...], out: Any) -> list[tuple[int, int]]:
    results = [(-1, out)] if isinstance(out, Tensor) else list(enumerate(out if isinstance(out, tuple | list) else ()))
    return [
        (number, position)
        for number, result in results
        for position, x in enumerate(inputs)
        if result is x and any(x is dirty for dirty in ctx.dirty_tensors)
    ]


class NestedIOFunction(Function):
    """A Function whose arguments and results may be nested, as those of every Function here."""


InplaceFunction = Function


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A ``backward`` whose results carry no gradient of their own."""

    @functools.wraps(fn)
    def call(ctx: Any, *args: Any) -> Any:
        with autograd.no_grad():
            return fn(ctx, *args)

    return call
