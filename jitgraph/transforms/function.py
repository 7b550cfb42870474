"""Function: an op of the user's as a class with ``forward`` and ``backward``, in PyTorch's terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from jitgraph import tree
from jitgraph.errors import JitgraphError
from jitgraph.tensor import Tensor
from jitgraph.transforms.rules import GradientRule, apply, is_tensor


class FunctionContext:
    """What ``forward`` leaves for ``backward``: saved tensors, and any attributes."""

    def __init__(self, needs_input_grad: Sequence[bool] = ()) -> None:
        self._saved: tuple[Any, ...] = ()
        self._fixed: tuple[Any, ...] = ()
        self.needs_input_grad = tuple(needs_input_grad)

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors that ``backward`` needs, as ``saved_tensors``."""
        self._saved = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What ``save_for_backward`` was given."""
        return self._saved

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say that no gradient flows to these results."""
        self._fixed = tensors

    def mark_dirty(self, *tensors: Tensor) -> NoReturn:
        """Not taken: values are immutable, so that no argument changes in place."""
        raise JitgraphError("ctx.mark_dirty: a forward changes no argument\n  hint: return the new tensor")

    def set_materialize_grads(self, value: bool) -> None:
        """Taken with True alone, which is how it is: a cotangent that does not come is a tensor of zeros."""
        if not value:
            raise JitgraphError("ctx.set_materialize_grads(False) is not taken: missing cotangents are zeros")


class Function:
    """An op with a gradient of its own: static methods ``forward(ctx, *args)`` and ``backward(ctx, *cotangents)``.

    Or ``forward(*args)`` and ``setup_context(ctx, inputs, output)``. ``F.apply(*args)`` calls it. ``backward`` gets a
    cotangent for each result and gives one for each argument: of its shape, or None. In a trace both are recorded, as
    one op that saves to a file and can be batched; outside they are plain Python. JitgraphError for a number of
    cotangents that is not that of the arguments, ShapeError for one of another shape.
    """

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    setup_context: Callable[..., Any] | None = None

    def __init__(self) -> None:
        raise JitgraphError(f"{type(self).__name__}() is not called\n  hint: {type(self).__name__}.apply(...)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """The result of ``forward``; gradients go by ``backward``."""
        for method in ("forward", "backward"):
            if not hasattr(cls, method):
                raise JitgraphError(f"{cls.__name__} defines no {method}()\n  hint: a static method")
        needs = tuple(isinstance(x, Tensor) and bool(x.requires_grad) for x in args)

        def forward(*inputs: Any) -> tuple[Any, Any]:
            ctx = FunctionContext(needs)
            if cls.setup_context is None:
                out = cls.forward(ctx, *inputs)
            else:
                out = cls.forward(*inputs)
                cls.setup_context(ctx, inputs, out)
            fixed = [any(x is leaf for x in ctx._fixed) for leaf in _results(out)]
            return out, (vars(ctx), fixed)

        def backward(residuals: Any, cotangents: Any) -> list[Any]:
            state, fixed = residuals
            ctx = FunctionContext()
            vars(ctx).update(state)
            cts = [None if flag else ct for flag, ct in zip(fixed, _results(cotangents), strict=True)]
            grads = cls.backward(ctx, *cts)
            grads = tuple(grads) if isinstance(grads, tuple | list) else (grads,)
            if len(grads) != len(args):
                raise JitgraphError(
                    f"{cls.__name__}: backward gives {len(grads)} cotangents for {len(args)} arguments\n"
                    "  hint: a cotangent, or None, for each argument of forward"
                )
            return [ct for arg, entry in zip(args, grads, strict=True) for ct in _of_argument(cls, arg, entry)]

        return apply(GradientRule(cls, cls.__name__, lambda *given: forward(*given)[0], forward, backward), args)


def _results(out: Any) -> tuple[Any, ...]:
    return tuple(out) if isinstance(out, tuple | list) else (out,)


def _of_argument(cls: type, arg: Any, entry: Any) -> list[Any]:
    """The cotangents of the tensors in an argument; only one that is a tensor itself has one."""
    if is_tensor(arg):
        return [entry]
    if entry is not None:
        raise JitgraphError(f"{cls.__name__}: backward gives a cotangent for an argument that is no tensor")
    return [None for leaf in tree.flatten(arg)[0] if is_tensor(leaf)]


def passing(on_gradients: Callable[[tuple[Any, ...]], tuple[Any, ...]], *xs: Tensor) -> tuple[Tensor, ...]:
    """The same tensors, whose gradients pass a function; what that gives takes their place."""

    class Passing(Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
            return tuple(x.detach() for x in inputs)

        @staticmethod
        def backward(ctx: Any, *cts: Tensor) -> tuple[Any, ...]:
            return on_gradients(cts)

    outputs: tuple[Tensor, ...] = Passing.apply(*xs)
    return outputs
