"""A pause for Python's cyclic collector, for as long as any thread compiles or traces."""

from __future__ import annotations

import gc
import threading
from typing import Final


class _Paused:
    """While any thread is inside, the cyclic collector waits. One may be inside several times.

    A compilation makes tens of thousands of objects that stay or go by their reference counts; looking through them,
    and through all that the program has loaded, again and again took a tenth of its time. And a collection in the
    middle of a traced function would run code that is no part of it: finalisers and ``gc.callbacks``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._was_enabled = False

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._was_enabled:
                gc.enable()


PAUSED: Final = _Paused()
