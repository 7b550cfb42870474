"""Nanoseconds an iteration of loops with small carries, compiled, beside a loop in Python.

Each iteration needs what the one before gave, so its operations wait for each other: with latencies of 4 cycles for
additions and multiplications and 14 for a division (of processors since 2015), no code takes fewer cycles than shown.
"""

from __future__ import annotations

import time

import numpy as np

import jitgraph as jg
from bench.timing import interleaved

TURNS = 200_000


def _newton(x: jg.Tensor, n: jg.Tensor) -> jg.Tensor:
    turn = jg.asarray(0)
    while turn < n:
        x = 0.5 * (x + 2.0 / x)
        turn = turn + 1
    return x


def _euler(y: jg.Tensor, n: jg.Tensor) -> jg.Tensor:
    turn = jg.asarray(0)
    while turn < n:
        y = y + (y * y * 0.01 - y * 0.5) * 0.001
        turn = turn + 1
    return y


def _filter(xs: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
    return jg.scan(lambda state, x: (state * 0.9 + x, state * 2.0), jg.asarray(np.float64(0.0)), xs)  # type: ignore[no-any-return]


def _python(turns: int) -> float:
    x = 3.0
    started = time.perf_counter()
    for _ in range(turns):
        x = 0.5 * (x + 2.0 / x)
    return (time.perf_counter() - started) / turns


def main() -> None:
    n = jg.asarray(np.int64(TURNS))
    newton, euler, scan = jg.script(_newton), jg.script(_euler), jg.trace(_filter)
    x, y = jg.asarray(np.float64(3.0)), jg.asarray(np.arange(1.0, 5.0))
    xs = jg.asarray(np.random.default_rng(0).random(TURNS))
    times = interleaved({"newton": lambda: newton(x, n), "euler": lambda: euler(y, n), "scan": lambda: scan(xs)})
    what = {
        "newton": ("Newton's iteration, one float64", 22),
        "euler": ("a step of an ODE, four float64", 20),
        "scan": ("a scan that filters, one float64", 8),
    }
    for name, (text, cycles) in what.items():
        nanoseconds = 1e9 * float(np.median(times[name])) / TURNS
        print(f"{text:34} {nanoseconds:6.2f} ns; the chain of its operations takes {cycles} cycles")
    print(f"Newton's iteration in Python       {1e9 * min(_python(TURNS) for _ in range(5)):6.2f} ns")


if __name__ == "__main__":
    main()
