"""Who is told of compilations as they happen: what ``jg.explain()`` returns, while its block runs.

With no watcher nothing is made and nobody is told; calls that compile nothing never look here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol


class Watcher(Protocol):
    """What is told. Moments are seconds of ``time.perf_counter``."""

    def specialised(self, function: Any, specialisation: Any, retrace: Any, begin: float, *, was_stored: bool) -> None:
        """A traced function has code for one more kind of call; ``was_stored``: its trace was found on disk."""
        ...

    def failed(self, function: Any, location: Any, begin: float, error: BaseException) -> None:
        """A traced function that is called at ``location`` could not be recorded or compiled."""
        ...

    def gradient_compiled(self, specialisation: Any, runnable: Any, begin: float) -> None:
        """The backward code of a specialisation was compiled, or found in the cache, just now."""
        ...

    def op_compiled(self, name: str, begin: float) -> None:
        """The code of an eager op was compiled, or found in the cache, just now."""
        ...

    def ran_eagerly(self, function: Any) -> None:
        """A call of a traced function ran as plain Python."""
        ...


WATCHERS: Final[list[Watcher]] = []


def tell(message: Callable[[Watcher], None]) -> None:
    """Pass a message on to each watcher."""
    for watcher in tuple(WATCHERS):
        message(watcher)
