"""The host of native code: its table of functions, Python functions that it may call, its pool, forks and the end."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Generator
from typing import Final, TypeAlias

from jitgraph.runtime.loader.abi import (
    ABI_VERSION,
    ASKED_TYPE,
    CALLBACK_FAILED,
    INTERRUPTED,
    OK,
    Host,
    function_address,
    libc,
)
from jitgraph.runtime.loader.image import Image
from jitgraph.runtime.loader.pool import Pool, thread_count

# ----------------------------------------------------------------------
# Python functions that native code calls: what they raise is kept, and raised when the call has returned.


class Guarded:
    """Runs ``action`` for native code, and keeps what it raises until the call returns.

    Python runs signal handlers at the first step of any function, before its ``try``, and what is raised out of a
    callback is lost. So each turn resumes a generator that already stands inside its ``try``, and all around it is C.
    """

    def __init__(self, action: Callable[[], object], failure: int, ready: int) -> None:
        """``ready`` turns may be under way at once; one that raises gives the code ``failure``."""
        self._action = action
        self._failure = failure
        self._count = ready
        self._raised: dict[int, BaseException] = {}  # by thread
        self._ready: list[Generator[int, None, None]] = []
        self._fill()
        self.ask: Callable[[], int] = map(next, iter(self._ready.pop, None)).__next__
        """0, or the code of the failure where the action raised; to be called by native code."""

    def raised(self) -> BaseException | None:
        """What the action raised in a call of this thread, which has ended."""
        error = self._raised.pop(threading.get_ident(), None)
        self._fill()  # a generator that was interrupted left nobody in its place
        return error

    def _fill(self) -> None:
        while len(self._ready) < self._count:
            self._ready.append(_begun(self._ready, self._raised, self._action, self._failure))


def _begun(
    ready: list[Generator[int, None, None]],
    raised: dict[int, BaseException],
    action: Callable[[], object],
    failure: int,
) -> Generator[int, None, None]:
    def asking() -> Generator[int, None, None]:
        code = OK
        try:
            yield code
            ready.append(_begun(ready, raised, action, failure))
            action()
        except GeneratorExit:  # the runtime is gone
            return
        except BaseException as error:  # whatever it is, it is raised again when the call returns
            raised[threading.get_ident()] = error
            code = failure
        yield code  # nothing before it runs a handler

    generator = asking()
    next(generator)
    return generator


CallbackFunction: TypeAlias = Callable[[int, int, int], None]


def guarded_callback(callback: CallbackFunction, raised: dict[int, BaseException]) -> Callable[..., int]:
    """``callback`` for native code: what it raises is kept for the end of the call, by thread."""

    def run(host: int, call: int, number: int, buffers: int, dims: int) -> int:
        try:
            callback(number, buffers, dims)
        except BaseException as error:  # whatever it is, it is raised again when the call returns
            raised[threading.get_ident()] = error
            return CALLBACK_FAILED
        return OK

    return run


# ----------------------------------------------------------------------
# The host of native code: its table of functions, its pool, and what forks and the end of the process do to them.

_POLLS: Final = 64
"""How many polls may be under way at once: those of other threads, and of native code that handlers call."""


class Runtime:
    """A host table with its thread pool; one serves the whole process unless a caller makes its own."""

    def __init__(self, threads: int | None = None) -> None:
        """``threads`` counts the caller too; None asks ``thread_count()`` when the pool is first needed."""
        self._threads = threads
        self._pool: Pool | None = None
        self._image: Image | None = None  # whose worker function the pool's threads run
        self._dismissed: list[Pool] = []
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
            self._image = image
            self._start(self.threads)
            self.settled = True

    @property
    def threads(self) -> int:
        """How many threads calls use, the caller's included."""
        return thread_count() if self._threads is None else self._threads

    @threads.setter
    def threads(self, count: int) -> None:
        with self._lock:
            if count == self._threads:
                return
            self._threads = count
            if not self.settled or self._image is None:
                return
            if self._pool is not None:
                # A call of another thread may hold the old pool: without workers it runs serially.
                self._dismissed.append(self._pool)
                self._pool.dismiss()
            self._start(count)

    def _start(self, threads: int) -> None:
        """A pool for so many threads, the caller's included."""
        assert self._image is not None
        self._pool = Pool(self._image, threads - 1) if threads > 1 else None
        self.host.pool = None if self._pool is None else self._pool.address
        if self._pool is not None:
            weakref.finalize(self, self._pool.dismiss)

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
        self._dismissed.clear()
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
