"""What the tape keeps of ``x[index]`` with ints, slices, ``...`` and None, what that cuts, and its cotangent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgraph import ops
from jitgraph.eager.launch import silently
from jitgraph.eager.tape import EagerValue, Record, Unfinished, finished
from jitgraph.ir import context
from jitgraph.ir.types import TensorType
from jitgraph.ops.rules import HALF
from jitgraph.tensor.direct import items_of


class IndexedBlock(NamedTuple):
    """The block that an index takes, as the slice op has it, and the shape that it then gets."""

    starts: tuple[int, ...]
    stops: tuple[int, ...]
    strides: tuple[int, ...]
    shape: tuple[int, ...]


class IndexRecord(Record):
    """A part of a tensor; its gradient is the cotangent in its place, and zeros."""

    __slots__ = ("_items",)
    name = "getitem"

    def __init__(self, value: EagerValue, output: EagerValue, index: Any) -> None:
        super().__init__((value,), (output,))
        self._items = items_of(index)

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        (value,) = self.live_inputs()
        (cotangent,) = cotangents
        if not context.current().grad_enabled:
            return [PartialCotangent(cotangent, value.type, self._items)]
        cut = cut_of(value.shape, self._items)
        assert cut is not None
        assert ops.slice.vjp is not None
        extents = tuple([-(-(stop - start) // step) for start, stop, step in zip(*cut[:3], strict=True)])
        return ops.slice.vjp(ops.reshape(cotangent, shape=extents), None, value, **_attrs(cut))


def _attrs(cut: IndexedBlock) -> dict[str, Any]:
    return {"starts": cut.starts, "stops": cut.stops, "strides": cut.strides}


def cut_of(shape: tuple[int, ...], items: tuple[Any, ...]) -> IndexedBlock | None:
    """What items of an index cut; None for steps back, and for what is no index."""
    rest = len(shape) - sum([item is not None and item is not Ellipsis for item in items])
    if rest < 0 or sum([item is Ellipsis for item in items]) != 1:
        return None
    starts: list[int] = []
    stops: list[int] = []
    strides: list[int] = []
    sizes: list[int] = []
    for item in items:
        if item is None:
            sizes.append(1)
            continue
        axis = len(starts)
        extents = shape[axis : axis + rest] if item is Ellipsis else ()
        for extent in extents:
            starts.append(0)
            stops.append(extent)
            strides.append(1)
            sizes.append(extent)
        if item.__class__ is int:
            start = item + shape[axis] if item < 0 else item
            if not 0 <= start < shape[axis]:
                return None
            starts.append(start)
            stops.append(start + 1)
            strides.append(1)
        elif item.__class__ is slice:
            try:
                first, last, step = item.indices(shape[axis])
            except (TypeError, ValueError):
                return None
            if step < 0:
                return None
            last = max(first, last)
            starts.append(first)
            stops.append(last)
            strides.append(step)
            sizes.append(-(-(last - first) // step))
    return IndexedBlock(tuple(starts), tuple(stops), tuple(strides), tuple(sizes))


# ----------------------------------------------------------------------
# Cotangents of parts of a value: each is added where it belongs, into one buffer of the sweep's own.


class PartialCotangent(Unfinished):
    """The cotangent of ``x[items]`` as one of ``x``: zeros elsewhere."""

    __slots__ = ("_items", "_part", "_type")

    def __init__(self, part: EagerValue, type: TensorType, items: tuple[Any, ...]) -> None:
        self._part = part
        self._type = type
        self._items = items

    def value(self) -> EagerValue:
        """The whole of it."""
        buffer = np.zeros(self._type.shape, self._type.dtype)
        buffer[self._items] = self._part.array
        return EagerValue(buffer)

    def added_to(self, known: Any) -> Any:
        """The sum of what came before, which may be a ``CotangentSum`` that grows, and this."""
        if known.__class__ is not CotangentSum:
            first = finished(known)
            if first.dtype in HALF:
                return ops.add(first, self.value())
            known = CotangentSum(first)
        known.add(self._items, self._part.array)
        return known


class CotangentSum(Unfinished):
    """A sum of cotangents of which all but the first are parts, with the bits of the sum of the wholes."""

    __slots__ = ("_buffer",)

    def __init__(self, first: EagerValue) -> None:
        zero = first.dtype.type(0)
        self._buffer = np.asarray(silently(np.add, first.array, zero))  # -0.0 becomes 0.0, as where zeros are added

    def add(self, items: tuple[Any, ...], part: Any) -> None:
        """Add a part in its place; elsewhere nothing changes, as nothing is -0.0 any more."""
        view = self._buffer[items]
        silently(np.add, view, part, view)

    def value(self) -> EagerValue:
        """What was added up; nothing is added any more."""
        return EagerValue(self._buffer)
