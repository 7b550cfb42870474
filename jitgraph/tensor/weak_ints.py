"""Python ints that a graph computes: between which ends they lie, and checks of what an integer dtype has room for.

A Python int has no limits. The int64 that stands for it does, and so has an integer dtype that it takes beside a
tensor; Python and eager tensors do not wrap silently there, and neither does a graph. Of values whose ends are known
(the number of a step, and what is computed from it and constants) nothing is checked that cannot happen.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from jitgraph import dtypes, ops
from jitgraph.dtypes import DType
from jitgraph.ir import context
from jitgraph.location import text_at, user_location
from jitgraph.tensor import element_numbers

Ends: TypeAlias = "tuple[int, int]"
LEAST, GREATEST = dtypes.LIMITS[dtypes.int64]
_KIND: Final = "OverflowError"


def note_ends(value: Any, least: int, greatest: int) -> None:
    """Say between which ends an int64 value of the current trace lies."""
    context.current().trace.ends[value.ir] = least, greatest


def ends_of(value: Any) -> Ends | None:
    """Between which ends an int64 value of the current trace lies, where that is known."""
    trace = context.current().trace
    ends: Ends | None = None if trace is None else trace.ends.get(getattr(value, "ir", None))
    return ends


def require_room(value: Any, dtype: DType) -> None:
    """A check that an integer dtype holds an int64 value that stands for a Python int, as a tensor refuses others."""
    if element_numbers.are_total():
        return
    least, greatest = dtypes.LIMITS[dtype]
    ends = ends_of(value)
    if ends is not None and least <= ends[0] and ends[1] <= greatest:
        return
    holds = between(value, least, greatest)
    if holds is not None:
        text = text_at(user_location())
        message = f"a Python int of this loop or branch does not fit {dtype.name}{text and f': {text}'}"
        ops.check(holds, kind=_KIND, message=message)


def between(value: Any, least: int, greatest: int) -> Any:
    """Whether an int64 value lies between two ends; None where it always does."""
    tests = []
    if least > LEAST:
        tests.append(ops.ge(value, ops.full(shape=(), value=least, dtype=dtypes.int64)))
    if greatest < GREATEST:
        tests.append(ops.le(value, ops.full(shape=(), value=greatest, dtype=dtypes.int64)))
    return None if not tests else tests[0] if len(tests) == 1 else ops.logical_and(*tests)
