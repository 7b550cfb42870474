"""What functions over tensors take: tensors, arrays and numbers as tensors, in floats where they compute in floats."""

from __future__ import annotations

from jitgraph import dtypes
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.elementwise import astype
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


def tensor_like(x: TensorLike) -> Tensor:
    """A new handle on what ``x`` means."""
    return wrap(lifting.value_of(x))


def float_tensor(x: TensorLike) -> Tensor:
    """``x`` in floats or complex numbers: integers and bools in float32."""
    tensor = tensor_like(x)
    return tensor if dtypes.is_inexact(tensor.dtype) else astype(tensor, dtypes.float32)


def float_tensors(*xs: TensorLike) -> list[Tensor]:
    """The operands in their common inexact dtype, integers and bools in float32, and in one shape."""
    dtype = lifting.common_dtype(*xs)
    target = dtype if dtypes.is_inexact(dtype) else dtypes.float32
    return [wrap(value) for value in lifting.together(*lifting.operands(*xs, dtype=target))]
