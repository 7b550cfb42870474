"""Values of a running model: tensors, and host values, which are NumPy arrays.

Host values are small constants, sizes, and what is computed of these alone: shapes are Python numbers by them. An
array of objects has integers of which some are symbolic sizes, or it has texts. Dtypes that tensors lack, such as
float8 and int4, are host arrays too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np

from jitgraph import dtypes
from jitgraph.errors import LoadError, TraceError, UnsupportedOp
from jitgraph.ir import context, dims
from jitgraph.tensor import Tensor
from jitgraph.tensor import functions as fn

Array = np.ndarray[Any, Any]

TEXT: Final = np.dtype(object)

DTYPES: Final[Mapping[int, np.dtype[Any]]] = {
    1: np.dtype(np.float32),
    2: np.dtype(np.uint8),
    3: np.dtype(np.int8),
    4: np.dtype(np.uint16),
    5: np.dtype(np.int16),
    6: np.dtype(np.int32),
    7: np.dtype(np.int64),
    8: TEXT,
    9: np.dtype(np.bool_),
    10: np.dtype(np.float16),
    11: np.dtype(np.float64),
    12: np.dtype(np.uint32),
    13: np.dtype(np.uint64),
    14: np.dtype(np.complex64),
    15: np.dtype(np.complex128),
    16: np.dtype(ml_dtypes.bfloat16),
    17: np.dtype(ml_dtypes.float8_e4m3fn),
    18: np.dtype(ml_dtypes.float8_e4m3fnuz),
    19: np.dtype(ml_dtypes.float8_e5m2),
    20: np.dtype(ml_dtypes.float8_e5m2fnuz),
    21: np.dtype(ml_dtypes.uint4),
    22: np.dtype(ml_dtypes.int4),
    23: np.dtype(ml_dtypes.float4_e2m1fn),
    24: np.dtype(ml_dtypes.float8_e8m0fnu),
    25: np.dtype(ml_dtypes.uint2),
    26: np.dtype(ml_dtypes.int2),
}
"""The dtypes by the numbers of ``TensorProto.DataType``."""

NUMBERS: Final[Mapping[np.dtype[Any], int]] = {dtype: number for number, dtype in DTYPES.items()}

STORED: Final = frozenset(DTYPES[number] for number in range(17, 27))
"""Dtypes that arrays have and tensors do not."""


def dtype_of_number(number: int) -> np.dtype[Any]:
    """The dtype that ONNX numbers so; LoadError for none."""
    dtype = DTYPES.get(number)
    if dtype is None:
        raise LoadError(f"there is no dtype with the number {number}")
    return dtype


def is_text(value: Any) -> bool:
    """Whether a value is a host array of texts."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "O":
        return False
    return value.size == 0 or isinstance(value.flat[0], str)


def is_recording() -> bool:
    """Whether a trace records what is called."""
    return context.current().trace is not None


def dtype_of(value: Any) -> np.dtype[Any]:
    """The dtype of a tensor or host value: int64 of symbolic sizes."""
    if isinstance(value, Tensor):
        return np.dtype(value.dtype)
    return np.dtype(np.int64) if value.dtype == object and not is_text(value) else value.dtype


def shape_of(value: Any) -> tuple[Any, ...]:
    """The shape of a tensor or host value."""
    return tuple(value.shape)


def tensor(value: Any) -> Any:
    """A value as a tensor; sequences and None stay. UnsupportedOp for dtypes that tensors lack."""
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == object and not is_text(value):
        if value.ndim == 0:
            return _number(value.item())
        return fn.reshape(fn.stack([_number(each) for each in value.flat]), value.shape)
    if value.dtype in STORED or is_text(value):
        kind = "texts" if is_text(value) else value.dtype.name
        raise UnsupportedOp(f"tensors of {kind} are only stored, cast and dequantised")
    return fn.asarray(value)


def _number(value: Any) -> Any:
    return fn.asarray(value, dtype=dtypes.int64)


def host(value: Any, what: str = "an operand") -> Any:
    """A value as an array; TraceError where a recording knows the elements of no tensor."""
    if not isinstance(value, Tensor):
        return value
    if is_recording():
        raise TraceError(
            f"{what} depends on the elements of a tensor, and decides about shapes",
            hint="onnx.load(..., static_sizes=[name]) where it is a size, else module.forward(...), node by node",
        )
    return np.asarray(value.detach().numpy())


def objects(values: Any) -> Array:
    """A vector of numbers as a host value: int64, or objects where some are symbolic."""
    values = list(values)
    if all(type(value) is int or isinstance(value, np.integer) for value in values):
        return np.array(values, np.int64)
    result = np.empty(len(values), object)
    for i, value in enumerate(values):
        result[i] = value
    return result


def sizes(value: Any) -> list[Any]:
    """A host value as a list of Python ints and symbolic sizes."""
    return [each if value.dtype == object else int(each) for each in value.flat]


def is_free(size: Any) -> bool:
    """Whether a number is symbolic and free in a trace: Python that asks for its value holds it to that."""
    if type(size) is int or getattr(size, "dim", None) is None:
        return False
    return bool(dims.names(size.numbers.trace.constraints.reduce(size.dim)))


_MOST_QUOTIENTS: Final = 3


def hold_nested_sizes(value: Any) -> None:
    """Hold sizes that are quotients of quotients of a free size to their values in this call.

    Such are the sizes of images behind a handful of strided convolutions: loops over them cost a multiple of what loops
    over numbers cost, to compile and to run.
    """
    if not isinstance(value, Tensor) or all(type(size) is int for size in value.shape):
        return
    for size in value.shape:
        dim = getattr(size, "dim", None)
        if dim is None or dims.quotients(dim) <= _MOST_QUOTIENTS:
            continue
        constraints = size.numbers.trace.constraints
        if constraints.sizes is not None and not dims.names(dim) & constraints.declared:
            int(size)


def one(value: Any) -> Any:
    """The one element of a host value as a Python number or a symbolic size."""
    if value.size != 1:
        raise UnsupportedOp(f"one number was expected, and there are {value.size}")
    return value.flat[0] if value.dtype == object else value.flat[0].item()
