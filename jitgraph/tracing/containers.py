"""Containers whose items can be read without running code of the user's, and how much of them is guarded."""

from __future__ import annotations

from collections import OrderedDict, deque
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

MAX_ELEMENTS: Final = 64  # of a container that is guarded element by element
MAX_BYTES: Final = 1 << 20  # of an array whose contents are guarded, where NumPy and not a graph used it


def same_extent(a: Any, b: Any) -> bool:
    """Whether two containers have the same keys in order, the same members, or the same length."""
    if isinstance(a, dict | MappingProxyType):
        return tuple(a) == tuple(b)
    return frozenset(a) == frozenset(b) if isinstance(a, set | frozenset) else len(a) == len(b)


_PLAIN: Final = (list, tuple, dict, OrderedDict, set, frozenset)
_BASES: Final = (list, tuple, OrderedDict, dict, set, frozenset, deque)
_ACCESS: Final = ("__getitem__", "__iter__", "__len__", "__contains__", "keys", "values", "items", "get")


def is_container(value: Any) -> bool:
    """True for the built-in containers and what derives from them, whose items can be read without running code of the
    user's."""
    kind: Any = type(value)
    return kind in _PLAIN or _reads_plainly(kind)


@lru_cache(maxsize=4096)
def _base_of(kind: Any) -> type[Any] | None:
    return next((base for base in _BASES if base in kind.__mro__), None)


def _reads_plainly(kind: Any) -> bool:
    base = _base_of(kind)
    return base is not None and all(getattr(kind, name, None) is getattr(base, name, None) for name in _ACCESS)
