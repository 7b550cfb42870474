"""Containers of Python's own and what derives from them, and how much of what they hold is guarded."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from jitgraph.tracing.storage import base_of

MAX_ELEMENTS: Final = 64  # of a container that is guarded element by element
MAX_BYTES: Final = 1 << 20  # of an array whose contents are guarded, where NumPy and not a graph used it


def is_container(value: Any) -> bool:
    """True for the built-in containers and what derives from them."""
    return base_of(value) is not None


def same_extent(a: Any, b: Any) -> bool:
    """Whether two containers have the same keys in order, the same members, or the same length."""
    if isinstance(a, dict | MappingProxyType):
        return tuple(a) == tuple(b)
    return frozenset(a) == frozenset(b) if isinstance(a, set | frozenset) else len(a) == len(b)
