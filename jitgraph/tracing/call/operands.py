"""Operands of compiled calls: what callers pass as eager values whose memory native code can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph import foreign
from jitgraph.dtypes import is_float
from jitgraph.eager.handle import ValueHandle
from jitgraph.eager.native import owned_value, readable, readable_as
from jitgraph.eager.tape import EagerValue, native_type
from jitgraph.errors import JitgraphError
from jitgraph.ir.types import TensorType
from jitgraph.runtime import loader
from jitgraph.tensor import scalars


def operand(value: EagerValue, type: TensorType) -> EagerValue | None:
    """``value`` for native code that takes ``type``; None where it is of another."""
    array = value.array
    if (array.dtype is not type.dtype and array.dtype != type.dtype) or array.shape != type.shape:
        return None
    return readable_as(value, array, type)


def scalar(number: float) -> EagerValue:
    """A Python float as an operand."""
    array = np.array(number, "d")
    return owned_value(array, native_type(array.dtype, ()), loader.address_of(array))


def number_operand(number: int | float, dtype: np.dtype[Any]) -> EagerValue:
    """A Python number in ``dtype`` as an operand; OverflowError where ``dtype`` does not hold it."""
    scalars.require_representable(number, dtype)
    value = float(number) if is_float(dtype) else number
    with np.errstate(over="ignore"):
        array = np.array(value, dtype) if dtype.itemsize > 2 else np.full((), value, dtype)  # which round 16 bits apart
    return owned_value(array, native_type(array.dtype, ()), loader.address_of(array))


def argument_array(x: Any, dtype: np.dtype[Any]) -> Any:
    """An argument as an array of ``dtype`` that native code can be given; None where it is none, or to be refused.

    A tensor is none, though it could be read as one: its call gives out and writes handles.
    """
    if isinstance(x, ValueHandle):
        return None
    try:
        array = foreign.as_argument(x, "the argument")
    except JitgraphError:  # raised with the name of the argument where the call is found to fit nothing
        return None
    return array if isinstance(array, np.ndarray) and array.dtype == dtype else None


def array_operand(array: Any) -> EagerValue:
    """An array of the caller's as an operand."""
    return readable(EagerValue(array, access="borrowed"))


def arrays_of(operands: Sequence[EagerValue]) -> list[Any]:
    """The arrays of operands."""
    return [value.array for value in operands]
