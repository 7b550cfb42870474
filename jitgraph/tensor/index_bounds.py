"""Integers and slices of an index on an axis of known or named size: places and bounds that lie within it."""

from __future__ import annotations

from typing import Any

from jitgraph.errors import IndexingError, ShapeError, UndecidedError
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
    if isinstance(size, int):
        trace = context.current().trace
        first, last, step = slice(_known(item.start, trace), _known(item.stop, trace), step).indices(size)
        if step > 0:
            return first, max(first, last), step, False
        count = max(0, -(-(first - last) // -step))
        lowest = first + (count - 1) * step
        return (lowest, first + 1, -step, True) if count else (0, 0, -step, True)
    if step < 0 and (item.start is not None or item.stop is not None):
        raise UndecidedError(f"a reversed slice with bounds on the named size {size}", hint="flip first, then slice")
    start = _bound(item.start, size, 0)
    stop = _bound(item.stop, size, size)
    if step < -1:
        raise UndecidedError(f"a reversed slice with a step on the named size {size}", hint="flip first, then slice")
    return start, stop, abs(step), step < 0


def _known(bound: Any, trace: Any) -> int | None:
    if bound is None:
        return None
    if trace is not None and not hasattr(bound, "__index__") and isinstance(bound, int):
        raise UndecidedError("a symbolic bound on an axis of known size", hint="jg.where, or name the axis's size too")
    return _integer(bound, "bound")


def _integer(number: Any, what: str) -> int:
    if not hasattr(number, "__index__"):
        raise IndexingError(f"a slice's {what} must be an integer, not {number.__class__.__name__}")
    return int(number.__index__())


def _bound(bound: Any, size: DimLike, default: DimLike) -> DimLike:
    """A bound on a named size: taken to lie within it, which becomes a constraint of the trace."""
    if bound is None:
        return default
    trace = context.current().trace
    offset = trace.to_dim(bound) if trace is not None and scalars.is_varying(bound) else _integer(bound, "bound")
    number: DimLike = size + offset if isinstance(offset, int) and offset < 0 else offset
    known = context.constraints()
    if not (known.at_least(size, number) and known.at_least(number, 0)):
        raise ShapeError(
            f"slice bound {bound} lies outside the named size {size}",
            hint="slices of a named size lie within it; leave a size that may be smaller out of dynamic_shapes",
        )
    return number
