"""What the tape keeps of ``x[index]`` with ints, slices, ``...`` and None, and what such an index cuts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgraph import ops
from jitgraph.eager.partial_cotangents import PartialCotangent
from jitgraph.eager.tape import EagerValue, Record
from jitgraph.ir import context
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
