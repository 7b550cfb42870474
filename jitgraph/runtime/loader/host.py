"""The host of native code: its table of functions, its pool, and what forks and the end of the process do to them."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from typing import Final

from jitgraph.runtime.loader.abi import ABI_VERSION, ASKED_TYPE, INTERRUPTED, Host, function_address, libc
from jitgraph.runtime.loader.guarded import Guarded
from jitgraph.runtime.loader.image import Image
from jitgraph.runtime.loader.pool import Pool, thread_count

_POLLS: Final = 64
"""How many polls may be under way at once: those of other threads, and of native code that handlers call."""


class Runtime:
    """A host table with its thread pool; one serves the whole process unless a caller makes its own."""

    def __init__(self, threads: int | None = None) -> None:
        """``threads`` counts the caller too; None asks ``thread_count()`` when the pool is first needed."""
        self._threads = threads
        self._pool: Pool | None = None
        self._lock = threading.RLock()
        self.settled = False
        self.host = Host(abi_version=ABI_VERSION)
        if libc is not None:
            self.signals = Guarded(ctypes.pythonapi.PyErr_CheckSignals, INTERRUPTED, _POLLS)
            self._poll = ASKED_TYPE(self.signals.ask)
            self.host.alloc = function_address(libc.malloc)
            self.host.free = function_address(libc.free)
            self.host.poll = function_address(self._poll)
            self.host.syscall = function_address(libc.syscall)
        _runtimes.add(self)

    def attach(self, image: Image) -> None:
        """Start the pool if ``image`` has a worker function and no pool runs yet."""
        if self.settled or not image.export("worker"):
            return
        with self._lock:
            if self.settled:
                return
            workers = (thread_count() if self._threads is None else self._threads) - 1
            if workers > 0:
                self._pool = Pool(image, workers)
                self.host.pool = self._pool.address
                weakref.finalize(self, self._pool.dismiss)
            self.settled = True

    def close(self) -> None:
        """Stop the pool; later calls run on their own thread alone."""
        with self._lock:
            self.settled = True
        if self._pool is not None:
            # host.pool stays: a call of another thread may hold it, and a pool without workers runs serially.
            self._pool.stop()

    def after_fork(self) -> None:
        """In a forked child: the threads are gone, so forget them; the next call starts its own."""
        self._lock = threading.RLock()
        self._pool = None
        self.host.pool = None
        self.settled = False


_runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()


def _renew_runtimes() -> None:
    for runtime in list(_runtimes):
        runtime.after_fork()


def _at_exit() -> None:
    for runtime in list(_runtimes):
        runtime.host.poll = None
        runtime.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_runtimes)
atexit.register(_at_exit)

process_runtime: Final = Runtime()
