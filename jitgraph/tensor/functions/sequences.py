"""Arguments that are one int or several: axes, shapes, shifts, repetitions; every kind of sequence lists them alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph import foreign
from jitgraph.eager.handle import ValueHandle
from jitgraph.ir import context


def items(argument: Any) -> tuple[Any, ...] | None:
    """What an argument lists: a tuple, list, range or other sequence, an array or tensor of one axis or more.

    None of anything else, which stands for one number: an int of any kind, a size with a name, an array without axes.
    TraceError for a tensor whose elements a trace does not know.
    """
    if isinstance(argument, Sequence) and not isinstance(argument, str | bytes):
        return tuple(map(_plain, argument))
    if isinstance(argument, ValueHandle):
        return tuple(argument.tolist()) if argument.ndim else None  # type: ignore[attr-defined]
    if isinstance(argument, np.ndarray):
        return tuple(argument.tolist()) if argument.ndim else None
    if not isinstance(argument, np.generic) and foreign.is_array(argument):
        array = foreign.array_of(argument, "the argument")
        return tuple(array.tolist()) if array.ndim else None
    return None


def _plain(item: Any) -> Any:
    """An int of NumPy's, or one in an array or tensor without axes, as Python's; anything else as it is."""
    if item.__class__ is int:
        return item
    if isinstance(item, np.integer):
        return int(item)
    known = isinstance(item, np.ndarray) or (isinstance(item, ValueHandle) and context.current().trace is None)
    if known and not item.ndim and item.dtype.kind in "iu":
        return int(item.item())
    return item


def listed(argument: Any) -> tuple[Any, ...]:
    """What an argument lists; a number alone is the one thing in a tuple."""
    found = items(argument)
    return (argument,) if found is None else found


def for_each(argument: Any, count: int) -> tuple[Any, ...]:
    """What an argument lists; a number alone ``count`` times."""
    found = items(argument)
    return (argument,) * count if found is None else found
