"""Operators on eager tensors that need nothing of ``lifting``: operands of one dtype, and Python numbers that it holds.

An op that is a ufunc of NumPy, and of which the tape keeps nothing, is called at once, and so are views. Any other op
goes to the eager emitter as it is. Where a trace records, or an operand has to be looked at, these answer None, and the
general way is taken, which gives the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitgraph.dtypes import DType, is_float, is_integer
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.handle import ValueHandle
from jitgraph.eager.tape import EagerValue
from jitgraph.ir import context
from jitgraph.ir.op import Op
from jitgraph.runtime import imports

if TYPE_CHECKING:
    from jitgraph.eager import launch, records, rules
else:
    launch = imports.late(__name__, "jitgraph.eager.launch")  # traces ask here, too, and are answered None
    records = imports.late(__name__, "jitgraph.eager.records")
    rules = imports.late(__name__, "jitgraph.eager.rules")

REFUSALS: Final = (ValueError, IndexError, TypeError, OverflowError)
"""What NumPy raises for an index that it does not take."""
_EXACT: Final = 127  # every dtype for numbers holds the ints up to here; below 0 those with a sign do


def binary(op: Op, x: Any, y: Any) -> EagerValue | None:
    """``op`` of a tensor and a tensor or number, in either order; None where the general way has to be taken."""
    now = context.current()
    if now.emitter is not EAGER or now.trace is not None or now.anomaly or now.profile is not None:
        return None
    taped = False
    if isinstance(x, ValueHandle):
        value = x._value
        if value.__class__ is not EagerValue:
            return None
        taped = value.record is not None or x._requires_grad
        left = value.array
        dtype = left.dtype
        if isinstance(y, ValueHandle):
            value = y._value
            if value.__class__ is not EagerValue:
                return None
            taped = taped or value.record is not None or y._requires_grad
            right = value.array
            if right.dtype is not dtype:
                return None
        elif _is_held(y, dtype):
            right = y
        else:
            return None
    elif isinstance(y, ValueHandle):
        value = y._value
        if value.__class__ is not EagerValue:
            return None
        taped = value.record is not None or y._requires_grad
        left, right = x, value.array
        dtype = right.dtype
        if not _is_held(x, dtype):
            return None
    else:
        return None
    ufunc = rules.UFUNCS[op].get(dtype)
    if taped and now.grad_enabled:
        if left.__class__ is not right.__class__ or left.shape != right.shape:
            return None
        if dtype.kind == "c":
            return None
        if ufunc is None or op.vjp is None:
            return EAGER.emit(op, (x.value, y.value), {}, ())[0]  # type: ignore[no-any-return]
        result = launch.silently(ufunc, left, right)
        result = result if result.__class__ is np.ndarray else np.asarray(result)
        output = EagerValue(result)
        return output.part_of(records.OpRecord(op, (x.value, y.value), {}, (output,)), 0)
    if ufunc is None:
        return None
    try:
        result = launch.silently(ufunc, left, right)
    except ValueError:  # the shapes do not fit
        return None
    return EagerValue(result if result.__class__ is np.ndarray else np.asarray(result))


def unary(op: Op, x: Any) -> EagerValue | None:
    """``op`` of a tensor of floats, or of any that its ufunc takes; None where the general way has to be taken."""
    now = context.current()
    if now.emitter is not EAGER or now.trace is not None or now.profile is not None or not isinstance(x, ValueHandle):
        return None
    value = x._value
    if value.__class__ is not EagerValue:
        return None
    dtype = value.array.dtype
    if not (now.grad_enabled and (value.record is not None or x._requires_grad)) and not now.anomaly:
        ufunc = rules.UFUNCS[op].get(dtype)
        if ufunc is not None:
            result = launch.silently(ufunc, value.array)
            return EagerValue(result if result.__class__ is np.ndarray else np.asarray(result))
    return EAGER.emit(op, (x.value,), {}, ())[0] if is_float(dtype) else None


def view(x: Any, index: Callable[[Any], Any]) -> EagerValue | None:
    """``index`` of the array of an eager tensor of which the tape keeps nothing; None where there is none.

    What NumPy refuses is None, too: the general way says what is wrong.
    """
    now = context.current()
    if now.trace is not None or now.emitter is not EAGER or now.profile is not None or not isinstance(x, ValueHandle):
        return None
    value = x._value
    if value.__class__ is not EagerValue or (now.grad_enabled and (value.record is not None or x._requires_grad)):
        return None
    try:
        return EagerValue(index(value.array))
    except REFUSALS:
        return None


def items_of(index: Any) -> tuple[Any, ...]:
    """An index as a tuple with one ``...``, so that what NumPy gives is an array, of rank 0, too."""
    items = index if index.__class__ is tuple else (index,)
    return items if any(item is Ellipsis for item in items) else (*items, ...)


def _is_held(number: Any, dtype: DType) -> bool:
    """Whether a Python number is one that ``dtype`` takes as NumPy does."""
    kind = number.__class__
    if kind is float:
        return dtype.kind == "f"
    if kind is int and -_EXACT <= number <= _EXACT:
        return dtype.kind == "f" or (is_integer(dtype) and (number >= 0 or dtype.kind != "u"))
    return False
