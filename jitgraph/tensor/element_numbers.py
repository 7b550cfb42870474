"""Whether the numbers that are recorded are those of one element, of which nothing raises (``jg.elementwise``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_RECORDED: Final[ContextVar[bool]] = ContextVar("jitgraph_elements", default=False)


@contextmanager
def of_one_element() -> Iterator[None]:
    """What is recorded is a function of one element: its numbers wrap, or are NaN, where Python's would raise."""
    token = _RECORDED.set(True)
    try:
        yield
    finally:
        _RECORDED.reset(token)


def are_total() -> bool:
    """Whether a function of one element is recorded."""
    return _RECORDED.get()
