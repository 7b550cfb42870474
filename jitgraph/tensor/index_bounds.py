"""Integers and slices of an index on an axis of known or named size: places and bounds that lie within it."""

from __future__ import annotations

from typing import Any

from jitgraph.errors import IndexingError, UndecidedError
from jitgraph.ir import context
from jitgraph.ir.dims import DimLike
from jitgraph.tensor import scalars


def index_of(item: Any, size: DimLike, axis: int) -> DimLike:
    trace = context.current().trace
    known = context.constraints()
    if not hasattr(item, "__index__"):
        raise IndexingError(f"an index must be an integer, a slice, ..., None or a tensor, not {type(item).__name__}")
    if trace is not None and scalars.is_varying(item):
        position: DimLike = trace.to_dim(item)
        if not isinstance(position, int):
            if not (known.at_least(position, 0) and known.at_least(size, position + 1)):
                raise IndexingError(f"index {position} is out of range for axis {axis} with size {size}")
            return position
        item = position
    number = int(item.__index__())
    bound = -number if number < 0 else number + 1
    if not known.at_least(size, bound):
        raise IndexingError(f"index {number} is out of range for axis {axis} with size {size}")
    return size + number if number < 0 else number


def bounds_of(item: slice, size: DimLike) -> tuple[DimLike, DimLike, int, bool]:
    """Start, stop and positive stride of a slice, and whether its elements are then to be reversed."""
    step = 1 if item.step is None else _integer(item.step, "step")
    if step == 0:
        raise ValueError("a slice's step cannot be 0")
    if isinstance(size, int) and (step < 0 or not any(map(scalars.is_named_size, (item.start, item.stop)))):
        first, last, step = slice(_known(item.start), _known(item.stop), step).indices(size)
        if step > 0:
            return first, max(first, last), step, False
        count = max(0, -(-(first - last) // -step))
        lowest = first + (count - 1) * step
        return (lowest, first + 1, -step, True) if count else (0, 0, -step, True)
    if step < 0 and (item.start is not None or item.stop is not None):
        raise UndecidedError(f"a reversed slice with bounds on the named size {size}", hint="flip first, then slice")
    start, stop = _within(item.start, size, 0), _within(item.stop, size, size)
    if step < -1:
        raise UndecidedError(f"a reversed slice with a step on the named size {size}", hint="flip first, then slice")
    return start, stop if _is_at_least(stop, start) else start, abs(step), step < 0


def _known(bound: Any) -> int | None:
    return None if bound is None else _integer(bound, "bound")


def _within(bound: Any, size: DimLike, default: DimLike) -> DimLike:
    """A bound as Python cuts it, where the bound or the size of the axis is a name.

    On which side of 0 and of ``size`` the bound lies is asked of this call's sizes, and becomes a constraint of the
    trace; where types alone are traced it is taken to lie between them.
    """
    if bound is None:
        return default
    number = dim_of(bound) if scalars.is_varying(bound) else _integer(bound, "bound")
    if (isinstance(number, int) and number < 0) or not _is_at_least(number, 0):
        number = size + number
        if not _is_at_least(number, 0):
            return 0
    return number if _is_at_least(size, number) else size


def dim_of(number: Any) -> DimLike:
    """The size that an int means, one that varies in the trace being recorded included."""
    trace = context.current().trace
    if trace is not None and scalars.is_varying(number):
        return trace.to_dim(number)  # type: ignore[no-any-return]
    return scalars.python_int(number)  # type: ignore[no-any-return]


def _is_at_least(left: DimLike, right: DimLike) -> bool:
    """Whether ``left >= right``: assumed where this call's sizes say so, and else the opposite is."""
    known = context.constraints()
    if known.at_least(left, right):
        return True
    if not known.at_least(right, left + 1):
        raise UndecidedError(f"a slice with a bound of which it is not known whether {left} >= {right}")
    return False


def _integer(number: Any, what: str) -> int:
    if not hasattr(number, "__index__"):
        raise IndexingError(f"a slice's {what} must be an integer, not {number.__class__.__name__}")
    return int(number.__index__())
