"""Work that no handler of a signal may cut: it runs in a thread of its own, as Python runs handlers in the main one.

What a handler raises between two of LLVM's functions would leave a module, a context or a target machine behind for as
long as the process lives, and a lock of the package taken.
"""

from __future__ import annotations

import _thread
import functools
import os
import threading
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

_PATIENCE: Final = 1.0
"""Seconds after which the main thread looks whether it is in a child, where the other thread is not."""


def undisturbed(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """``function``, which an exception from a handler does not leave half done: the call ends, the work goes on."""

    @functools.wraps(function)
    def call(*args: _P.args, **keywords: _P.kwargs) -> _R:
        if threading.get_ident() != threading.main_thread().ident:
            return function(*args, **keywords)
        results: list[_R] = []
        failures: list[BaseException] = []
        running = _thread.allocate_lock()  # a plain one: Python's own events are Python code that can be cut

        def work() -> None:
            try:
                results.append(function(*args, **keywords))
            except BaseException as error:
                failures.append(error)
            finally:
                running.release()

        process = os.getpid()
        running.acquire()
        try:
            _thread.start_new_thread(work, ())
        except RuntimeError:  # the system gives no thread: better a call that can be cut than none
            return function(*args, **keywords)
        while not running.acquire(timeout=_PATIENCE):
            if os.getpid() != process:
                break
        if failures:
            raise failures[0]
        return results[0] if results else function(*args, **keywords)

    return call
