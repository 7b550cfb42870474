"""What functions of this package take: shapes to draw, numbers and tensors that parametrise, conditions on them."""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes, ops
from jitgraph.errors import DTypeError
from jitgraph.ir import context
from jitgraph.ir.dims import DimLike
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.manipulation import broadcast_arrays, broadcast_to
from jitgraph.tensor.lifting import TensorLike


def at(device: str | None, key: Any) -> Any:
    """A key on the device where numbers are to be drawn; the state stays where it is."""
    return key if device is None else wrap(key).to(device).value


def place_of(x: Any) -> str | None:
    """Where a tensor lies, whose numbers are drawn there, too; None in a trace, which has one place."""
    return x.device if isinstance(x, Tensor) and context.current().trace is None else None


def kind_of(dtype: Any) -> dtypes.DType:
    """The float dtype of numbers to be drawn, float32 for None; DTypeError for another."""
    kind = dtypes.float32 if dtype is None else dtypes.canonical(dtype)
    if not dtypes.is_float(kind):
        raise DTypeError(f"these random numbers are floats, not {kind.name}", hint="jg.random.randint for integers")
    return kind


def parameters_of(
    shape: Any, dtype: Any, *given: TensorLike
) -> tuple[tuple[DimLike, ...], dtypes.DType, list[Tensor], str | None]:
    """The shape and dtype of what is drawn for these parameters, and they as floats of this shape, without gradients.

    Parameters broadcast against each other and to ``shape``. The dtype is theirs where it is a float and none is asked
    for; 16-bit ones are computed in float32. With them comes the device where a tensor among them lies.
    """
    tensors = [each if isinstance(each, Tensor) else wrap(lifting.value_of(each)) for each in given]
    floats = [each.dtype for each in tensors if dtypes.is_float(each.dtype) and each.ndim]
    kind = kind_of(dtype if dtype is not None or not floats else max(floats, key=lambda each: each.itemsize))
    wide = dtypes.float64 if kind == dtypes.float64 else dtypes.float32
    device = next((place_of(each) for each in given if isinstance(each, Tensor)), None)
    values = broadcast_arrays(*(each.detach().astype(wide) for each in tensors))
    if shape is not None:
        values = [broadcast_to(each, shape_of(shape)) for each in values]
    return values[0].value.shape, kind, values, device


def require(condition: Tensor, message: str) -> None:
    """ValueError with the message where an element of ``condition`` is false, at the call and in compiled code."""
    axes = tuple(range(condition.ndim))
    ops.check(ops.reduce_min(condition.value, axes=axes), kind="ValueError", message=message)
