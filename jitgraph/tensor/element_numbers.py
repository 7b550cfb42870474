"""Whether the numbers that are recorded are those of one element, of which nothing raises (``jg.elementwise``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from jitgraph.dtypes import DType, float32

_RECORDED: Final[ContextVar[DType | None]] = ContextVar("jitgraph_elements", default=None)


@contextmanager
def of_one_element(floating: DType) -> Iterator[None]:
    """What is recorded is a function of one element: its numbers wrap, or are NaN, where Python's would raise.

    Where Python would make a float of an int, as ``math`` does, it is one of the dtype ``floating``.
    """
    token = _RECORDED.set(floating)
    try:
        yield
    finally:
        _RECORDED.reset(token)


def are_total() -> bool:
    """Whether a function of one element is recorded."""
    return _RECORDED.get() is not None


def floating() -> DType:
    """The dtype of an int that becomes a float."""
    return _RECORDED.get() or float32
