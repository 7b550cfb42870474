"""How long calls of a function take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

_BATCH_SECONDS: Final = 1e-3  # a batch of calls is at least so long, so that reading the clock costs nothing beside it
_FEWEST: Final = 5


class Timing(NamedTuple):
    """Seconds of one call: of the first, and over batches of later ones the least, the median and the 9th decile."""

    first: float
    least: float
    median: float
    ninth_decile: float
    calls: int


def time_calls(
    call: Callable[[], Any], seconds: float, advance: Callable[[float], None] = lambda share: None
) -> Timing:
    """Time a call repeatedly for about ``seconds``, at least 5 times; ``advance`` hears the share that is done."""
    begin = time.perf_counter()
    call()
    first = time.perf_counter() - begin
    batch, elapsed = 1, first
    while elapsed < _BATCH_SECONDS:
        begin = time.perf_counter()
        for _ in range(batch):
            call()
        elapsed = time.perf_counter() - begin
        if elapsed < _BATCH_SECONDS:
            batch *= 2
    samples: list[float] = []
    start = time.perf_counter()
    while len(samples) < _FEWEST or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        for _ in range(batch):
            call()
        samples.append((time.perf_counter() - begin) / batch)
        advance(min(1.0, (time.perf_counter() - start) / seconds) if seconds else 1.0)
    ordered = sorted(samples)
    return Timing(first, ordered[0], ordered[len(ordered) // 2], ordered[len(ordered) * 9 // 10], batch * len(samples))
