"""A pause for Python's cyclic collector, for as long as any thread compiles or traces."""

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
