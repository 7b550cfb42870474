"""Comparisons of numbers that no common dtype holds: answered exactly, as NumPy does, not after a conversion.

A Python int beyond an integer dtype is less or greater than all of its numbers; a negative number is less than all of
uint64. Floats are compared in the promoted dtype, as everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.dtypes import DType
from jitgraph.eager import placement
from jitgraph.eager.handle import ValueHandle
from jitgraph.ir.op import Op
from jitgraph.ops.complex_forms import of_complex
from jitgraph.tensor import lifting, scalars
from jitgraph.tensor.lifting import TensorLike


def compare(op: Op, x: TensorLike, y: TensorLike) -> Any:
    """The value of ``op`` (eq, ne, lt, le, gt or ge) of two operands."""
    if _stands_for_int(x) and not _stands_for_int(y):
        return compare(ops.SWAPPED[op], y, x)
    if _stands_for_int(y) and not lifting.is_weak(x) and not dtypes.is_inexact(lifting.dtype_of(x)):
        return _with_int(op, x, y)
    if lifting.is_weak(x) or lifting.is_weak(y) or not _differ(lifting.dtype_of(x), lifting.dtype_of(y)):
        values = lifting.operands(x, y)
        return (of_complex(op) if dtypes.is_complex(values[0].dtype) else op)(*values)
    if dtypes.is_signed(lifting.dtype_of(y)):
        return compare(ops.SWAPPED[op], y, x)
    return _signed_with_uint64(op, x, y)


def _stands_for_int(x: Any) -> bool:
    """Whether x is a Python int, or stands for one that may be different at each call."""
    if scalars.is_scalar(x):
        return isinstance(x, int) and not isinstance(x, bool)
    return lifting.is_weak(x) and dtypes.is_integer(lifting.dtype_of(x))


def _differ(a: DType, b: DType) -> bool:
    """Whether two integer dtypes have no common one."""
    return dtypes.is_integer(a) and dtypes.is_integer(b) and dtypes.is_float(dtypes.promote(a, b))


def _with_int(op: Op, x: TensorLike, number: Any) -> Any:
    """An integer tensor with a Python int: one that varies is an int64, as it may leave the tensor's dtype."""
    if scalars.is_checked(number):
        return op(*lifting.operands(x, number))
    if type(number) is not int and scalars.is_varying(number):
        varying = number.value_in(dtypes.int64)
        if varying is not None:
            return compare(op, x, ValueHandle._of(varying))
    if not scalars.is_scalar(number):
        return compare(op, x, ValueHandle._of(number.value))
    least, greatest = dtypes.LIMITS[dtypes.promote_scalar(lifting.dtype_of(x), 0)]
    if least <= number <= greatest:
        return op(*lifting.operands(x, number))
    value = lifting.value_of(x)
    answer = _of_numbers(op, 0, 1) if number > 0 else _of_numbers(op, 1, 0)
    with placement.beside(value):
        return lifting.constant(answer, dtypes.bool_, value.shape)


def _of_numbers(op: Op, x: int, y: int) -> bool:
    assert op.evaluate is not None
    return bool(op.evaluate(np.int64(x), np.int64(y)))


def _signed_with_uint64(op: Op, x: TensorLike, y: TensorLike) -> Any:
    """``op`` of a signed x and an unsigned y: below 0 the sign answers, else both are compared as uint64."""
    signed, unsigned = lifting.value_of(x), lifting.value_of(y)
    shape = lifting.broadcast_shapes(signed.shape, unsigned.shape)
    signed, unsigned = lifting.broadcast_to(signed, shape), lifting.broadcast_to(unsigned, shape)
    negative = ops.lt(signed, lifting.repeated(0, signed.dtype, shape))
    alike = op(lifting.cast(signed, dtypes.uint64), unsigned)
    return ops.select(negative, lifting.repeated(_of_numbers(op, 0, 1), dtypes.bool_, shape), alike)
