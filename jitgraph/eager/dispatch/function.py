"""NativeFunction: a Python function with tables, so that calls of kinds that came back go past it."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from jitgraph.eager.dispatch.start import is_supported
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime import forks, shared
from jitgraph.runtime.cpython import api
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.cpython.api import put_word, word
from jitgraph.runtime.cpython.native_fields import class_with_native_fields

FEW: Final = 4
"""Calls of one kind that Python serves before a table is worth while."""
MOST_TABLES: Final = 16

if TYPE_CHECKING:
    from jitgraph.eager.dispatch.start import NativeRuntime
    from jitgraph.eager.dispatch.table import NativeTable

    class _NativeFields:
        pass
else:
    _NativeFields = class_with_native_fields("NativeWords", *[""] * len(layout.FUNCTION_WORDS))


class NativeFunction(_NativeFields):
    """Calls ``python`` with positional arguments, or, once it has tables, the code of the first one that fits."""

    __slots__ = ("_lock", "_most", "_signature", "_tables", "python")

    def __init__(self, python: Callable[..., Any], count: int, most: int = MOST_TABLES) -> None:
        """At most ``most`` tables serve calls with ``count`` positional arguments."""
        self._most = most
        self.python = python
        self._tables: list[tuple[Any, NativeTable]] = []
        self._lock = forks.lock()
        self._signature = _signature(count)

    def __call__(self, *args: Any) -> Any:
        return self.python(*args)

    def add(self, key: Any, table: NativeTable, runtime: NativeRuntime) -> None:
        """Let a table serve calls of the kind that ``key`` names; the one used longest ago may go for it."""
        with self._lock, shared.PAUSED.inside():  # no code of the user's runs, which might want other locks
            before = self._tables
            rest = [known for known in before if known[0] != key]
            rest.sort(key=lambda known: -known[1].used)
            # other threads and signal handlers call meanwhile: half made, the chain may be a circle
            put_word(id(self) + layout.FUNCTION["vectorcall"], 0)
            self._tables = [(key, table), *rest[: self._most - 1]]
            for (_, one), following in itertools.zip_longest(self._tables, self._tables[1:]):
                one.follow_with(None if following is None else following[1])
            words = {"signature": ctypes.addressof(self._signature), "fallback": id(self.python),
                     "table": table.address, "vectorcall": runtime.vectorcall}  # fmt: skip
            for name, value in words.items():
                put_word(id(self) + layout.FUNCTION[name], value)
        del before, rest  # what was replaced goes here

    def has(self, key: Any) -> bool:
        """Whether there is a table of this key."""
        return any(known == key for known, _ in self._tables)

    @property
    def hits(self) -> int:
        """How many calls its tables have served."""
        return sum(table.hits for _, table in self._tables)


def enable_vectorcall(kind: type) -> None:
    """Let CPython call objects of a class through the word ``vectorcall``; those that bind, as methods like functions.

    While the word is 0, ``__call__`` is called, as it is where CPython lays out classes in another way.
    """
    if not is_supported() or word(id(kind) + cpython.TYPE_FLAGS) != kind.__flags__:
        return
    if word(id(kind) + cpython.TYPE_VECTORCALL_OFFSET) not in (0, layout.FUNCTION["vectorcall"]):  # a base may have it
        return
    flags = cpython.HAVE_VECTORCALL | (cpython.METHOD_DESCRIPTOR if hasattr(kind, "__get__") else 0)
    put_word(id(kind) + cpython.TYPE_VECTORCALL_OFFSET, layout.FUNCTION["vectorcall"])
    put_word(id(kind) + cpython.TYPE_FLAGS, kind.__flags__ | flags)


enable_vectorcall(NativeFunction)

_kept: Final[list[Any]] = []
api.never_free(_kept)


@cache
def _signature(count: int) -> Any:
    """The words of so many positional parameters without names or defaults; they stay for good."""
    nothing = (ctypes.c_uint64 * max(1, count))()
    words = {"count": count, "positional": count, "names": ctypes.addressof(nothing)}
    words["defaults"] = words["names"]
    signature = (ctypes.c_uint64 * len(layout.SIGNATURE))(*(words.get(name, 0) for name in layout.SIGNATURE))
    _kept.append((nothing, signature))
    return signature
