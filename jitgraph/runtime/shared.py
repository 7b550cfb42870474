"""Settings of the whole process while any thread is inside a block: the cyclic collector paused, deeper recursion."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from jitgraph.runtime import forks

# ----------------------------------------------------------------------
# Settings of the whole process that are others while any thread is inside a block.


class Shared:
    """A setting for blocks that several threads may be inside, and one several times: the first begins, the last ends.

    A signal handler may raise anywhere, in here too: ``end`` may then find half of what ``begin`` does, and run twice.
    """

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._inside: dict[int, int] = {}  # how often, by thread
        forks.in_child(self._in_child)

    def begin(self) -> None:
        """Change the setting."""
        raise NotImplementedError

    def end(self) -> None:
        """Change it back."""
        raise NotImplementedError

    def has_this_thread(self) -> bool:
        """Whether this thread is inside a block with the setting."""
        return threading.get_ident() in self._inside

    @contextmanager
    def inside(self) -> Iterator[None]:
        """A block with the setting. Where a handler raises at its very edge, the generator's own end leaves it."""
        me, counted = threading.get_ident(), False
        try:
            with self._lock:
                first = not self._inside
                self._inside[me] = self._inside.get(me, 0) + 1
                counted = True
                if first:
                    self.begin()
            yield
        finally:
            if counted:
                with self._lock:
                    self._inside[me] -= 1
                    if not self._inside[me]:
                        del self._inside[me]
                    if not self._inside:
                        try:
                            self.end()
                        except BaseException:  # a handler raised before its first line
                            self.end()
                            raise

    def _in_child(self) -> None:
        me = threading.get_ident()
        if self._inside:
            self._inside = {me: self._inside[me]} if me in self._inside else {}
            if not self._inside:
                self.end()


# ----------------------------------------------------------------------
# A pause for Python's cyclic collector, for as long as any thread compiles or traces.


class _Paused(Shared):
    """While any thread is inside, the cyclic collector waits.

    A compilation makes tens of thousands of objects that stay or go by their reference counts; looking through them,
    and through all that the program has loaded, again and again took a tenth of its time. And a collection in the
    middle of a traced function would run code that is no part of it: finalisers and ``gc.callbacks``.
    """

    _was_enabled = False

    def begin(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def end(self) -> None:
        was_enabled, self._was_enabled = self._was_enabled, False
        if was_enabled:
            gc.enable()


PAUSED: Final = _Paused()


# ----------------------------------------------------------------------
# Room for the frames that tracing puts between those of the user's functions.

FRAMES_OF_A_CALL: Final = 5
"""By which Python counts one call of a traced function inside of another, the function's own frame included."""

_OWN_FRAMES: Final = 200  # of tracing itself, below the innermost call


class _Deeper(Shared):
    """While any thread is inside, traced functions may call each other as deeply as plain ones."""

    _before = _meanwhile = 0

    def begin(self) -> None:
        self._before = sys.getrecursionlimit()
        self._meanwhile = FRAMES_OF_A_CALL * self._before + _OWN_FRAMES
        sys.setrecursionlimit(self._meanwhile)

    def end(self) -> None:
        if sys.getrecursionlimit() == self._meanwhile:  # else the user has set another
            sys.setrecursionlimit(self._before)


DEEPER: Final = _Deeper()
