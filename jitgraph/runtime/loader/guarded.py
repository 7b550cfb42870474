"""Python functions that native code calls: what they raise is kept, and raised when the call has returned."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from typing import TypeAlias

from jitgraph.runtime.loader.abi import CALLBACK_FAILED, OK


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
