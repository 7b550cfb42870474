"""A pause for Python's cyclic collector, for as long as any thread compiles or traces; and what it need not look at."""

from __future__ import annotations

import gc
from typing import Final

from jitgraph.runtime.shared import Shared


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
_FROZEN_BY_PYTHON: Final = 1000  # CPython 3.12 begins with 375 frozen objects; who freezes a program has thousands


def age() -> None:
    """Put all objects among those that only a full collection looks at, without looking at any.

    The classes, functions and tables of a module stay as long as the process. The collector would look through those of
    the two hundred modules that compile a first function, some of them twice, which takes a tenth of that time. Where
    the program has frozen objects, they stay frozen and nothing is done.
    """
    if gc.get_freeze_count() < _FROZEN_BY_PYTHON:
        gc.freeze()
        gc.unfreeze()
