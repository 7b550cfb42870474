"""Random streams: the handles that hold their states, for transforms that run a function more than once."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

_STATES: Final[weakref.WeakValueDictionary[int, Any]] = weakref.WeakValueDictionary()  # by id: tensors compare
_DEFAULT: Final[list[Any]] = []


def register(handle: Any) -> None:
    """Note that a handle holds the state of a stream: a ``uint64[2]`` of seed and counter."""
    _STATES[id(handle)] = handle


def set_default(handle: Any) -> None:
    """Note which stream functions draw from that are given none."""
    _DEFAULT[:] = [handle]


def default() -> Any:
    """The handle of the stream that functions draw from by default; None where nothing has drawn yet."""
    return _DEFAULT[0] if _DEFAULT else None


def is_state(handle: Any) -> bool:
    """Whether a handle holds the state of a stream."""
    return _STATES.get(id(handle)) is handle


def snapshot() -> list[tuple[Any, Any]]:
    """The handles of all streams with their values, outside of traces."""
    return [(handle, handle.value) for handle in _STATES.values()]


@contextmanager
def at(states: Sequence[tuple[Any, Any]]) -> Iterator[None]:
    """A block in which the streams stand where ``snapshot`` was asked; afterwards where they stood before."""
    now = snapshot()
    try:
        for handle, value in states:
            handle._rebind(value)
        yield
    finally:
        for handle, value in now:
            handle._rebind(value)
