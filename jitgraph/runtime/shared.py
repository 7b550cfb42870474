"""Settings of the whole process that are others while any thread is inside a block."""

from __future__ import annotations

import threading

from jitgraph.runtime import forks


class Shared:
    """A block that several threads may be inside, and one several times: the first begins, the last one out ends."""

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

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._lock:
            if not self._inside:
                self.begin()
            self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        with self._lock:
            self._inside[me] -= 1
            if not self._inside[me]:
                del self._inside[me]
                if not self._inside:
                    self.end()

    def _in_child(self) -> None:
        me = threading.get_ident()
        if self._inside:
            self._inside = {me: self._inside[me]} if me in self._inside else {}
            if not self._inside:
                self.end()
