"""What functions of this package take: shapes to draw, numbers and tensors that parametrise, conditions on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.errors import DTypeError
from jitgraph.ir import context
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op
from jitgraph.random.draws import numbers
from jitgraph.random.generator import Generator, next_key
from jitgraph.tensor import Tensor, lifting, scalars, wrap
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.manipulation import broadcast_arrays, broadcast_to
from jitgraph.tensor.lifting import TensorLike


def at(device: str | None, key: Any) -> Any:
    """A key on the device where numbers are to be drawn; the state stays where it is."""
    return key if device is None else wrap(key).to(device).value


def device_of(x: Any) -> str | None:
    """Where a tensor lies, whose numbers are drawn there, too; None in a trace, which has one place."""
    return x.device if isinstance(x, Tensor) and context.current().trace is None else None


def kind_of(dtype: Any) -> dtypes.DType:
    """The float dtype of numbers to be drawn, float32 for None; DTypeError for another."""
    kind = dtypes.float32 if dtype is None else dtypes.canonical(dtype)
    if not dtypes.is_float(kind):
        raise DTypeError(f"these random numbers are floats, not {kind.name}", hint="jg.random.randint for integers")
    return kind


def drawn(
    op: Op, shape: Sequence[DimLike], dtype: dtypes.DType, generator: Generator | None, device: str | None
) -> Tensor:
    """The next numbers of ``op``, an op of a key, a shape and a dtype, on this device; each element uses one number."""
    return wrap(numbers(op, at(device, next_key(shape, dtype, generator=generator)), shape, dtype))


def moved(unit: Tensor, loc: TensorLike, scale: TensorLike) -> Tensor:
    """``unit * scale + loc`` in the dtype of ``unit``, and ``unit`` itself for the numbers 0 and 1."""
    if scalars.is_scalar(loc) and scalars.is_scalar(scale) and (loc, scale) == (0, 1):
        return unit
    return (unit * scale + loc).astype(unit.dtype)  # type: ignore[no-any-return]


def tensor_of(x: TensorLike) -> Tensor:
    """``x`` itself where it is a tensor, else a tensor of it."""
    return x if isinstance(x, Tensor) else wrap(lifting.value_of(x))


def wide_of(dtype: dtypes.DType) -> dtypes.DType:
    """The float in which numbers for this dtype are computed: float64 for itself, else float32."""
    return dtypes.float64 if dtype == dtypes.float64 else dtypes.float32


def parameters_of(
    shape: Any, dtype: Any, *parameters: TensorLike
) -> tuple[tuple[DimLike, ...], dtypes.DType, list[Tensor], str | None]:
    """The shape and dtype of what is drawn for these parameters, and they as floats of this shape, without gradients.

    Parameters broadcast against each other and to ``shape``. The dtype is theirs where it is a float and none is asked
    for; 16-bit ones are computed in float32. With them comes the device where a tensor among them lies.
    """
    tensors = [tensor_of(each) for each in parameters]
    floats = [each.dtype for each in tensors if dtypes.is_float(each.dtype) and each.ndim]
    kind = kind_of(dtype if dtype is not None or not floats else max(floats, key=lambda each: each.itemsize))
    device = next((device_of(each) for each in parameters if isinstance(each, Tensor)), None)
    values = broadcast_arrays(*(each.detach().astype(wide_of(kind)) for each in tensors))
    if shape is not None:
        values = [broadcast_to(each, shape_of(shape)) for each in values]
    return values[0].value.shape, kind, values, device


def require(condition: Tensor, message: str) -> None:
    """ValueError with the message where an element of ``condition`` is false, at the call and in compiled code."""
    axes = tuple(range(condition.ndim))
    ops.check(ops.reduce_min(condition.value, axes=axes), kind="ValueError", message=message)
