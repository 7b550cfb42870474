"""What ``f.cache_info()`` tells: the calls of a traced function by what served them."""

from __future__ import annotations

from typing import Any

from jitgraph.records import NamedTuple


class _Counts(NamedTuple):
    hits: int
    misses: int
    currsize: int


class CacheInfo(_Counts):
    """Calls served by a specialisation that was there, those that made one, and specialisations held now.

    Of the ``misses``, ``traces`` found trace and code in the compile cache on disk, ``code`` were recorded and found
    their code there, and ``compiled`` were recorded and compiled.
    """

    traces: int = 0
    code: int = 0
    compiled: int = 0


class Origins:
    """Where new specialisations came from."""

    def __init__(self) -> None:
        self.traces = 0
        self.code = 0
        self.compiled = 0

    def count(self, *, traced: bool, forward: Any) -> None:
        """One more: recorded, or found as a trace, with the code ``forward``."""
        if not traced:
            self.traces += 1
        elif getattr(forward, "is_found", False):
            self.code += 1
        else:
            self.compiled += 1

    def info(self, hits: int, misses: int, currsize: int) -> CacheInfo:
        """All counts together."""
        cache_info = CacheInfo(hits, misses, currsize)
        vars(cache_info).update(vars(self))
        return cache_info
