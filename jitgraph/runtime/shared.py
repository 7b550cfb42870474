"""Settings of the whole process that are others while any thread is inside a block."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from jitgraph.runtime import forks


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
