"""What the functions share: PyTorch's ``dim`` beside ``axis``, operands of one dtype, pairs of sizes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from jitgraph import dtypes
from jitgraph.errors import DTypeError, JitgraphError, OptionError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.dims import DimLike
from jitgraph.tensor import Tensor, lifting, scalars, wrap
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import for_each

R = TypeVar("R")
_PYTORCH = {"axis": "dim", "keepdims": "keepdim"}


def axis_or_dim(function: Callable[..., R]) -> Callable[..., R]:
    """``function``, whose parameters ``dim`` and ``keepdim`` may be given as ``axis`` and ``keepdims``, too."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> R:
        for name, other in _PYTORCH.items():
            if name in kwargs:
                if other in kwargs:
                    raise JitgraphError(f"{function.__name__}: {name}= and {other}= say the same; give one")
                kwargs[other] = kwargs.pop(name)
        return function(*args, **kwargs)

    return call


def floats(*xs: TensorLike | None, optional: int = 0) -> list[Any]:
    """Values of the promoted float dtype (float32 for integers), each in its own shape.

    The last ``optional`` may be None, and stay so; DTypeError for others that are.
    """
    for x in xs[: len(xs) - optional]:
        if x is None:
            raise lifting.no_operand(None)
    values = lifting.alike(*xs)
    if values is not None and dtypes.is_float(next(value for value in values if value is not None).dtype):
        return values
    present = [x for x in xs if x is not None]
    dtype = lifting.common_dtype(*present)
    target = dtype if dtypes.is_float(dtype) else dtypes.float32
    return [None if x is None else lifting.cast(lifting.value_of(x, target), target) for x in xs]


def lowered(x: Tensor) -> Tensor:
    """x as autocast gives it to a product: PReLU and recurrent layers stand in PyTorch's list of those."""
    low = context.current().autocast
    return x if low is None or x.dtype == dtypes.float64 else wrap(lifting.cast(x.value, low))


def loss_floats(*xs: TensorLike) -> list[Any]:
    """``floats`` for a loss: under autocast 16-bit floats become float32, as those of all losses in PyTorch's lists."""
    values = floats(*xs)
    if context.current().autocast is None or values[0].dtype.itemsize > 2:
        return values
    return [lifting.cast(value, dtypes.float32) for value in values]


def same_shape(shape: Sequence[DimLike], other: Sequence[DimLike]) -> bool:
    """Whether two shapes are one; sizes with names that nothing tells apart are taken to be equal."""
    return len(shape) == len(other) and all(map(context.constraints().same, shape, other))


def fits(x: Tensor, shape: Sequence[DimLike]) -> bool:
    """Whether a tensor has a shape, as ``same_shape`` says."""
    return same_shape(x.value.type.shape, shape)


def repeated(name: str, what: str, argument: Any, count: int) -> tuple[int, ...]:
    """One int for each of ``count`` spatial axes, from an int, or a sequence of that length or of one int for all."""
    listed = for_each(argument, count)
    sizes = tuple(map(scalars.python_int, listed * count if len(listed) == 1 else listed))
    if len(sizes) != count or not all(isinstance(size, int) for size in sizes):
        raise JitgraphError(f"{name}: {what}={argument!r} is neither an int nor {count} ints")
    return sizes


def written(input: TensorLike, result: Tensor, inplace: bool) -> Tensor:
    """``result``; or with ``inplace`` the tensor ``input``, whose value it is from now on.

    DTypeError where their dtypes differ, JitgraphError for what is no tensor, or a leaf that requires a gradient.
    """
    if not inplace:
        return result
    if not isinstance(input, Tensor):
        raise JitgraphError(f"inplace=True writes to a tensor, not to a {type(input).__name__}")
    if input.dtype != result.dtype:
        raise DTypeError(
            f"inplace=True: the result is {result.dtype.name}, which a tensor of {input.dtype.name} does not hold",
            hint="leave inplace out",
        )
    if input.value is result.value:  # of dropout that drops nothing
        return input
    if input.requires_grad and input.is_leaf and context.current().grad_enabled:
        raise JitgraphError(
            "inplace=True writes to a leaf that requires a gradient\n  hint: leave inplace out of the first layer"
        )
    input._rebind(result.value)
    return input


def reduction_of(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """The reduction that older code asks for: "none" by ``reduce=False``, "sum" by ``size_average=False``, else "mean".

    ``reduction`` where both are None; JitgraphError for anything but a bool, such as a later argument in their place.
    """
    if size_average is None and reduce is None:
        return reduction
    for name, flag in (("size_average", size_average), ("reduce", reduce)):
        if flag is not None and not isinstance(flag, bool):
            raise JitgraphError(f"{name} is True, False or None, not {flag!r}\n  hint: give later arguments by name")
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


# --- operands and reductions of losses --------------------------------------------------------------------------------


def reduced(each: Tensor, reduction: str) -> Tensor:
    """The mean or the sum of losses, or each; OptionError for another word."""
    if reduction == "none":
        return each
    return each.mean() if known_reduction(reduction) == "mean" else each.sum()  # type: ignore[no-any-return]


def known_reduction(reduction: str) -> str:
    """``reduction``; OptionError for another word than "mean", "sum" or "none"."""
    if reduction not in ("mean", "sum", "none"):
        raise OptionError(f"reduction={reduction!r} is not 'mean', 'sum' or 'none'")
    return reduction


def paired(name: str, input: TensorLike, target: TensorLike) -> tuple[Any, Any]:
    """Input and target in their common float dtype; ShapeError where their shapes differ."""
    x, y = loss_floats(input, target)
    if not same_shape(x.shape, y.shape):
        raise ShapeError(
            f"{name} takes an input and a target of one shape, not {x.type} and {y.type}",
            hint="reshape one of them; broadcasting them would compare every one with every other",
        )
    return x, y


def weighted(each: Tensor, weight: TensorLike) -> Tensor:
    """Losses times weights of their shape; ShapeError for weights of another one."""
    w = wrap(lifting.value_of(weight)).astype(each.dtype)
    if not same_shape(w.value.type.shape, each.value.type.shape):
        raise ShapeError(f"a weight for each of {each.value.type} has that shape, not {w.value.type}")
    return each * w  # type: ignore[no-any-return]


def hinge(x: Tensor) -> Tensor:
    """max(0, x)."""
    return x.clip(min=0.0)  # type: ignore[no-any-return]
