"""Python ints that stand as tensors inside a trace: where one would lose its value, the graph raises OverflowError.

A Python int has no limits. The int64 that stands for it does, and so has a dtype that it takes beside a tensor; Python
and eager tensors do not round or wrap silently there, and neither does a graph. Of values whose ends are known (the
number of a step, and what is computed from it and constants) nothing is checked that cannot happen.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.dtypes import DType
from jitgraph.ir import context
from jitgraph.ir.op import Op

Ends: TypeAlias = "tuple[int, int]"
_LEAST, _GREATEST = dtypes.LIMITS[dtypes.int64]
_APART: Final = 2.0**62  # what wraps differs by 2**64 from the true result, which float64 gives within 2**12


def note_ends(value: Any, least: int, greatest: int) -> None:
    """Say between which ends an int64 value of the current trace lies."""
    context.current().trace.ends[value.ir] = least, greatest


def require_held(value: Any, dtype: DType) -> None:
    """A check that ``dtype`` holds an int64 value that stands for a Python int, as a tensor refuses other ints."""
    ends = _ends_of(value)
    least, greatest = _exact(dtype)
    if ends is not None and least <= ends[0] and ends[1] <= greatest:
        return
    if dtypes.is_float(dtype) and dtype.itemsize > 2:
        back = ops.cast(ops.cast(value, dtype=dtype), dtype=dtypes.int64)
        held = ops.eq(back, value)
    else:
        held = _between(value, least, greatest)
    if held is not None:
        _check(held, f"a Python int of this loop or branch does not fit {dtype.name}")


def require_no_overflow(op: Op, xs: Sequence[Any], values: Sequence[Any], result: Any) -> None:
    """A check that an op on int64 values ``values``, which stand for Python ints ``xs``, has not left int64."""
    if result.dtype != dtypes.int64 or op not in (ops.add, ops.sub, ops.mul, ops.pow):
        return
    ends = [(x, x) if type(x) is int else _ends_of(value) for x, value in zip(xs, values, strict=True)]
    python = {ops.add: operator.add, ops.sub: operator.sub, ops.mul: operator.mul}.get(op)
    if python is not None and None not in ends:
        found = [python(a, b) for a in ends[0] or () for b in ends[1] or ()]
        if min(found) >= _LEAST and max(found) <= _GREATEST:
            note_ends(result, min(found), max(found))
            return
    message = "a Python int of this loop or branch leaves the range of int64"
    for constant, other in ((xs[1], values[0]), (xs[0], values[1])) if op in (ops.add, ops.sub) else ():
        if type(constant) is int:
            held = _beside(constant, other, op is ops.sub, constant is xs[0])
            if held is not None:
                _check(held, message)
            return
    wide = [ops.cast(value, dtype=dtypes.float64) for value in (*values, result)]
    difference = ops.abs(ops.sub(op(*wide[:2]), wide[2]))
    limit = ops.full(shape=difference.shape, value=_APART, dtype=dtypes.float64)
    _check(ops.lt(difference, limit), message)


def _beside(constant: int, value: Any, subtracts: bool, first: bool) -> Any:
    """Whether the sum or difference of a constant and a value stays in int64; None where it always does."""
    if subtracts and first:
        return _between(value, constant - _GREATEST, constant - _LEAST)
    shift = -constant if subtracts else constant
    return _between(value, _LEAST - shift, _GREATEST - shift)


def _ends_of(value: Any) -> Ends | None:
    trace = context.current().trace
    found: Ends | None = None if trace is None else trace.ends.get(getattr(value, "ir", None))
    return found


def _exact(dtype: DType) -> Ends:
    """Between which ends ``dtype`` takes every int."""
    if not dtypes.is_float(dtype):
        return dtypes.LIMITS[dtype]
    if dtype.itemsize == 2:  # it rounds what is written, but refuses infinity
        greatest = 65519 if dtype == dtypes.float16 else _GREATEST
    else:
        greatest = 1 << (np.finfo(dtype).nmant + 1)
    return -greatest, greatest


def _between(value: Any, least: int, greatest: int) -> Any:
    tests = []
    if least > _LEAST:
        tests.append(ops.ge(value, _constant(value, least)))
    if greatest < _GREATEST:
        tests.append(ops.le(value, _constant(value, greatest)))
    return None if not tests else tests[0] if len(tests) == 1 else ops.logical_and(*tests)


def _constant(value: Any, number: int) -> Any:
    return ops.full(shape=value.shape, value=number, dtype=dtypes.int64)


def _check(held: Any, message: str) -> None:
    ops.check(held, kind="OverflowError", message=message)
