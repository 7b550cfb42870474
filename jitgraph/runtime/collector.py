"""A pause for Python's cyclic collector, for as long as any thread compiles or traces."""

from __future__ import annotations

import gc
import threading
from typing import Final

from jitgraph.runtime import forks


class _Paused:
    """While any thread is inside, the cyclic collector waits. One may be inside several times.

    A compilation makes tens of thousands of objects that stay or go by their reference counts; looking through them,
    and through all that the program has loaded, again and again took a tenth of its time. And a collection in the
    middle of a traced function would run code that is no part of it: finalisers and ``gc.callbacks``.
    """

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._inside: dict[int, int] = {}  # how often, by thread
        self._was_enabled = False

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._lock:
            if not self._inside:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        with self._lock:
            self._inside[me] -= 1
            if not self._inside[me]:
                del self._inside[me]
                self._end()

    def _end(self) -> None:
        if not self._inside and self._was_enabled:
            gc.enable()

    def in_child(self) -> None:
        """After a fork only the thread that forked is left."""
        me = threading.get_ident()
        if self._inside:
            self._inside = {me: self._inside[me]} if me in self._inside else {}
            self._end()


PAUSED: Final = _Paused()
forks.in_child(PAUSED.in_child)
