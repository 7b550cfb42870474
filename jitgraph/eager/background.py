"""Work that may be late: a thread does it while calls go on without, as they did before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Final

from jitgraph.runtime import forks
from jitgraph.runtime.loader.pool import can_start

Task = Callable[[], None]


class Background:
    """Tasks by key, which one thread runs in order; it ends with the last of them, or with the program.

    A task is forgotten once it has run, so its errors are its own to keep. A fork's child, which has no such thread,
    starts one when a task is given again.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: dict[Hashable, Task] = {}
        self._lock: Any = forks.lock()
        self._thread: threading.Thread | None = None

    def run(self, key: Hashable, task: Task) -> None:
        """Let the thread run a task, unless it has one of this key to run, or runs it now."""
        with self._lock:
            self._tasks.setdefault(key, task)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._work, name=self._name)
                if not can_start(self._thread):  # the next task tries again
                    self._thread = None

    def wait(self) -> None:
        """Return once no task is left."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        key: Hashable = _NOTHING
        while True:
            with self._lock:
                self._tasks.pop(key, None)
                if not self._tasks or not threading.main_thread().is_alive():  # the program ends, and waits for this
                    self._thread = None
                    return
                key, task = next(iter(self._tasks.items()))
            task()


_NOTHING: Final = object()
