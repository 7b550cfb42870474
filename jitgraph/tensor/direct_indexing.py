"""Indices of tensors and arrays outside of traces, where the tape keeps nothing: NumPy applies them at once.

What NumPy refuses, and what it takes for something else than ``indexing.py`` does, is left to the general way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.handle import ValueHandle
from jitgraph.eager.tape import EagerValue
from jitgraph.ir import context
from jitgraph.tensor import direct
from jitgraph.tensor.direct_calls import is_basic


def get(x: Any, index: Any) -> EagerValue | None:
    """``x[index]`` for an index with tensors or arrays, in memory of its own; None for the general way."""
    cut = _taken(index)
    view = direct.view(x, lambda array: array[cut]) if cut is not None else None
    if view is None or view.array.flags.c_contiguous:
        return view
    return EagerValue(view.array.copy())


def put(value: Any, index: Any, filler: Any) -> EagerValue | None:
    """``value`` with ``filler``, a value of its dtype, written at an index; None for the general way."""
    now = context.current()
    if now.trace is not None or now.emitter is not EAGER or now.profile is not None:
        return None
    if not (_is_bare(value) and _is_bare(filler)):
        return None
    cut = _taken(index)
    if cut is None or not _is_in_order(cut):
        return None
    array = value.array.copy()
    try:
        array[cut] = filler.array
    except direct.REFUSALS:
        return None
    return EagerValue(array)


def _is_bare(value: Any) -> bool:
    return value.__class__ is EagerValue and value.record is None


def _taken(index: Any) -> tuple[Any, ...] | None:
    """An index as NumPy takes it, with one ``...``: ints, slices, None, arrays of ints and masks; None for others."""
    items: list[Any] = []
    for item in index if index.__class__ is tuple else (index,):
        taken = item if is_basic(item) else _array_of(item)
        if taken is None and item is not None:
            return None
        items.append(taken)
    return direct.items_of(tuple(items))


def _array_of(item: Any) -> np.ndarray[Any, Any] | None:
    if isinstance(item, ValueHandle):
        if item._value.__class__ is not EagerValue:
            return None
        item = item._value.array
    if item.__class__ is not np.ndarray or item.dtype.kind not in "iub" or item.dtype == dtypes.uint64:
        return None  # of uint64 NumPy takes the greatest for negative numbers
    return item if item.shape or item.dtype.kind != "b" else None


def _is_in_order(cut: tuple[Any, ...]) -> bool:
    """Whether NumPy writes in row-major order, of which the last of several writes to a place follows."""
    arrays = [item for item in cut if isinstance(item, np.ndarray)]
    if all(array.dtype.kind == "b" for array in arrays):
        return True  # no place is named twice
    return len(arrays) == 1 and arrays[0].flags.c_contiguous
