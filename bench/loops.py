"""Nanoseconds an iteration of loops with small carries, beside Python's, and loops over elements beside Numba's.

Each iteration needs what the one before gave, so its operations wait for each other: with latencies of 4 cycles for
additions and multiplications and 14 for a division (of processors since 2015), no code takes fewer cycles than shown.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import jitgraph as jg
from bench.element_loops import element_loops, programs
from bench.timing import interleaved, ratio

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


def _elements() -> None:
    """The loops of ``element_loops.py``; Numba, where it is installed, takes turns with jitgraph."""
    try:
        numba: Any = importlib.import_module("numba")
    except ModuleNotFoundError:
        numba = None
    plain = programs(np.zeros, np.int64)
    ours = programs(lambda shape, dtype=jg.float64: jg.zeros(shape, dtype=dtype), jg.int64)
    for name, text, arrays, before in element_loops():
        mine, tensors = jg.script(ours[name]), [jg.asarray(array) for array in arrays]
        runs: dict[str, Callable[[], object]] = {"jitgraph": partial(mine, *tensors)}
        if numba is not None:
            theirs = numba.njit(plain[name])
            runs["numba"] = partial(theirs, *arrays)
            np.testing.assert_array_equal(np.asarray(mine(*tensors)), theirs(*arrays))
        times = interleaved(runs)
        line = f"{text:42} {1e3 * float(np.median(times['jitgraph'])):9.3f} ms; {before:.1f} s when a write copied"
        print(line + (f"; Numba times {ratio(times['jitgraph'], times['numba'])}" if numba is not None else ""))


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
    _elements()


if __name__ == "__main__":
    main()
