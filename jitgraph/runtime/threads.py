"""How many threads compiled code uses: ``jg.set_num_threads`` and ``jg.get_num_threads``."""

from __future__ import annotations

from typing import Final

from jitgraph.errors import ArgumentError
from jitgraph.runtime import loader

MOST: Final = 4096


def get_num_threads() -> int:
    """How many threads the loops of compiled code use, the caller's included."""
    return loader.process_runtime.threads


def set_num_threads(count: int, /) -> None:
    """Let the loops of compiled code use ``count`` threads, the caller's included, from the next call on.

    It holds for the whole process and for what is compiled already, in place of JITGRAPH_NUM_THREADS. Results have the
    same bits with any number of threads. Calls that run meanwhile in other threads finish on their own thread alone.
    ArgumentError where ``count`` is not an int from 1 to 4096.
    """
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST:
        raise ArgumentError(f"jg.set_num_threads: {count!r} is not a number of threads, an int from 1 to {MOST}")
    loader.process_runtime.threads = count
