"""What an object holds: containers whose items can be read without running code of the user's, and what puts back
what they, and arrays, held before a function was recorded.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from jitgraph.records import dataclass

MAX_ELEMENTS: Final = 64  # of a container that is guarded element by element
MAX_BYTES: Final = 4 << 10  # of an array whose contents are guarded, where NumPy and not a graph used it
MAX_COPIED: Final = 1 << 20  # bytes of an array whose contents can be put back after a trace


@dataclass(frozen=True, slots=True)
class Contents:
    """A container and what identifies its extent: the keys of a mapping, the members of a set, else the length."""

    container: Any
    keys: Any

    @staticmethod
    def of(container: Any) -> Contents:
        return Contents(container, _extent(container))

    def unchanged(self) -> bool:
        """Whether the container has the same extent now."""
        return bool(_extent(self.container) == self.keys)


def fingerprint(array: Any) -> bytes | int:
    """The bytes of an array, or for a large one their checksum."""
    if array.nbytes <= MAX_COPIED:
        return array.tobytes()  # type: ignore[no-any-return]
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data)


def restore(array: Any, before: bytes | int) -> None:
    """Give an array the contents that it had, where they were kept."""
    if isinstance(before, bytes) and not array.dtype.hasobject and array.tobytes() != before:
        array[...] = np.frombuffer(before, array.dtype).reshape(array.shape)


def keeper(container: Any) -> Callable[[Any], None]:
    """What puts the elements back that a list, dict or set has now."""
    before = container.copy()

    def put_back(now: Any) -> None:
        if isinstance(now, list):
            if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
                now[:] = before
        elif isinstance(now, set):
            if now != before:
                now.clear()
                now.update(before)
        elif list(now) != list(before) or any(now[key] is not before[key] for key in before):
            now.clear()
            now.update(before)

    return put_back


def elements_of(container: Any) -> tuple[Any, ...]:
    """The elements of a container in order; of a mapping its values."""
    return tuple(container.values() if isinstance(container, dict) else container)


def _extent(container: Any) -> Any:
    if isinstance(container, dict | MappingProxyType):
        return tuple(container)
    if isinstance(container, set | frozenset):
        return frozenset(container)
    return len(container)


_PLAIN: Final = (list, tuple, dict, OrderedDict, set, frozenset)
_BASES: Final = (list, tuple, OrderedDict, dict, set, frozenset, deque)
_ACCESS: Final = ("__getitem__", "__iter__", "__len__", "__contains__", "keys", "values", "items", "get")


def is_container(value: Any) -> bool:
    """True for the built-in containers and what derives from them, whose items can be read without running code of the
    user's."""
    kind: Any = type(value)
    return kind in _PLAIN or _reads_plainly(kind)


@lru_cache(maxsize=4096)
def _reads_plainly(kind: type[Any]) -> bool:
    base = next((base for base in _BASES if issubclass(kind, base)), None)
    return base is not None and all(getattr(kind, name, None) is getattr(base, name, None) for name in _ACCESS)
