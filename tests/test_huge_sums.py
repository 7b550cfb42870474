"""Sums over what has no memory behind it: of any extent, without a large arena, and stopped by a signal."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

import jitgraph as jg

LONG = 1 << 40


class Stopped(Exception):
    pass


def stop(*_: object) -> None:
    raise Stopped


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "all of an arange": lambda x: (jg.arange(LONG, dtype=jg.float64) * x).sum(),
    "two axes": lambda x: jg.broadcast_to(x, (1 << 20, 1 << 20)).sum(),
    "few rows": lambda x: jg.broadcast_to(x, (3, LONG)).sum(axis=1),
    "many rows": lambda x: jg.broadcast_to(x, (100, LONG)).sum(axis=1),
    "columns": lambda x: jg.broadcast_to(x, (LONG, 3)).sum(axis=0),
    "wide columns": lambda x: jg.broadcast_to(x, (LONG, 100)).sum(axis=0),
    "greatest": lambda x: jg.broadcast_to(x, (LONG,)).max(),
    "greatest of rows": lambda x: jg.broadcast_to(x, (100, LONG)).max(axis=1),
    "place of the greatest in columns": lambda x: jg.argmax(jg.broadcast_to(x, (LONG, 3)), axis=0),
    "mean and variance": lambda x: jg.broadcast_to(x, (LONG,)).var(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_signal_stops_it(name: str) -> None:
    traced = jg.trace(PROGRAMS[name])
    x = jg.asarray(1.5)
    compiled = traced.lower(x).compile()
    before = signal.signal(signal.SIGALRM, stop)
    started = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(Stopped):
            compiled(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - started < 5.0
