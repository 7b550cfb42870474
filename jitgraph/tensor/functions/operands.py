"""What functions over tensors take: tensors, arrays and numbers as tensors, in floats where they compute in floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph import dtypes
from jitgraph.eager import placement
from jitgraph.errors import DTypeError
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.elementwise import astype
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


def tensor_like(x: TensorLike) -> Tensor:
    """A new handle on what ``x`` means."""
    return wrap(lifting.value_of(x))


def index_positions(indices: TensorLike, name: str) -> Any:
    """The value of ``indices`` as ops take positions; DTypeError where they are no integers."""
    value = lifting.value_of(indices)
    if not dtypes.is_integer(value.dtype):
        raise DTypeError(f"{name}: indices are integers, not {value.type}", hint="indices.astype(jg.int64)")
    return lifting.positions(value)


def float_tensor(x: TensorLike) -> Tensor:
    """``x`` in floats or complex numbers: integers and bools in float32."""
    tensor = tensor_like(x)
    return tensor if dtypes.is_inexact(tensor.dtype) else astype(tensor, dtypes.float32)


def float_tensors(*xs: TensorLike) -> list[Tensor]:
    """The operands in their common inexact dtype, integers and bools in float32, and in one shape."""
    dtype = lifting.common_dtype(*xs)
    target = dtype if dtypes.is_inexact(dtype) else dtypes.float32
    return [wrap(value) for value in lifting.together(*lifting.operands(*xs, dtype=target))]


def promoted(*xs: TensorLike) -> list[Tensor]:
    """The operands as tensors of one dtype and one shape."""
    return [wrap(value) for value in lifting.together(*lifting.operands(*xs))]


def in_float64(function: Callable[..., Tensor], *xs: TensorLike) -> Tensor:
    """``function`` of the operands in float64, rounded once to their common float dtype."""
    tensors = float_tensors(*xs)
    values = [x.value for x in tensors]
    on_device = next((value for value in values if placement.is_on_device([value])), None)
    if on_device is not None:
        placement.common_device("a function in float64", values)
    with placement.beside(on_device):
        return astype(function(*(astype(x, dtypes.float64) for x in tensors)), tensors[0].dtype)
