"""Milliseconds from calling a newly traced function to its result: the first kernel of a process, and later ones."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

import jitgraph as jg
from bench.digits_step import BATCH, jitgraph_step

FUNCTIONS = {
    "pointwise": lambda x, y: jg.tanh(x * 2.0 + y) * 0.5,
    "row softmax": lambda x, y: jg.softmax(x + y, axis=-1),
    "linear and relu": lambda x, y: jg.relu(x @ y.T),
    "layer norm": lambda x, y: jg.nn.functional.layer_norm(x, (64,), y[0], y[1]),
    "sum of squares": lambda x, y: (x * x + y).sum(),
}
REPEATS = 8


def _milliseconds(run: Callable[[], object]) -> tuple[float, float]:
    """Elapsed time, and that of the processors, which does not count waiting for others."""
    started, used = time.perf_counter(), time.process_time()
    run()
    return 1e3 * (time.perf_counter() - started), 1e3 * (time.process_time() - used)


def _report(name: str, first: tuple[float, float], later: list[tuple[float, float]]) -> None:
    elapsed, used = np.median(later, axis=0)
    print(f"{name:22} {elapsed:6.1f} ms ({used:6.1f} of processors); the first of its kind {first[0]:6.1f} ms")


def main() -> None:
    x, y = (jg.asarray(np.random.default_rng(i).standard_normal((64, 64)).astype(np.float32)) for i in (0, 1))
    elapsed, _ = _milliseconds(lambda: jg.trace(lambda x: x + 1.0)(x))
    print(f"{'first of the process':22} {elapsed:6.1f} ms (loads the compiler)")
    for name, function in FUNCTIONS.items():
        times = []
        for factor in range(2, 3 + REPEATS):  # ints are part of the key: each makes a kernel of its own
            traced = jg.trace(lambda x, y, f=function, s=factor: f(x * s, y))
            times.append(_milliseconds(lambda t=traced: t(x, y)))  # type: ignore[misc]
        _report(name, times[0], times[1:])
    images = jg.asarray(np.random.default_rng(0).random((BATCH, 64), dtype=np.float32))
    labels = jg.asarray(np.random.default_rng(0).integers(0, 10, BATCH))
    times = []
    for factor in range(2, 5):
        step = jitgraph_step()
        traced = jg.trace(lambda x, y, f=step, s=factor: f(x * s, y))
        times.append(_milliseconds(lambda t=traced: t(images, labels)))  # type: ignore[misc]
    _report("digits training step", times[0], times[1:])


if __name__ == "__main__":
    main()
