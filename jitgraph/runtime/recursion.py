"""Room for the frames that tracing puts between those of the user's functions."""

from __future__ import annotations

import sys
from typing import Final

from jitgraph.runtime.shared import Shared

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
