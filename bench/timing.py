"""Interleaved timing: candidates take turns, so a drift of the machine's speed falls on all alike."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

import numpy as np

ROUNDS = 30


def interleaved(
    candidates: Mapping[str, Callable[[], object]],
    *,
    rounds: int = ROUNDS,
    calls: int = 1,
    clock: Callable[[], float] = time.perf_counter,
    pause: float = 0.0,
) -> dict[str, np.ndarray]:
    """Seconds per call of each candidate by ``clock``: one number a round, after one round of warm-up.

    ``pause`` seconds go before each turn, in which the threads of the one before it stop to spin.
    """
    for candidate in candidates.values():
        candidate()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, candidate in candidates.items():
            time.sleep(pause)
            started = clock()
            for _ in range(calls):
                candidate()
            times[name].append((clock() - started) / calls)
    return {name: np.array(values) for name, values in times.items()}


def run_python(*arguments: str) -> None:
    """A new Python process, which may keep its compiled modules as an installed package does."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, *arguments], check=True, env=environment)


def interval(ratios: np.ndarray, *, resamples: int = 2000) -> tuple[float, float]:
    """95 % bootstrap interval of the median."""
    draws = np.random.default_rng(0).choice(ratios, (resamples, len(ratios)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return float(low), float(high)


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> str:
    """The median of round-by-round ratios with its interval, as text."""
    ratios = numerator / denominator
    low, high = interval(ratios)
    return f"{np.median(ratios):.2f} (95 %: {low:.2f} to {high:.2f})"


def median_us(times: np.ndarray) -> str:
    """The median in microseconds, as text."""
    return f"{1e6 * float(np.median(times)):.1f} us"
