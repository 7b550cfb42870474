"""Cotangents of parts of a value: each is added where it belongs, into one buffer of the sweep's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph import ops
from jitgraph.eager.launch import silently
from jitgraph.eager.tape import EagerValue, Unfinished, finished
from jitgraph.ir.types import TensorType
from jitgraph.ops.rules import HALF


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
