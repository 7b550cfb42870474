"""Milliseconds from calling a newly traced function to its result: the first kernel of a process, and later ones."""

from __future__ import annotations

import time

import numpy as np

import jitgraph as jg

FUNCTIONS = {
    "pointwise": lambda x, y: jg.tanh(x * 2.0 + y) * 0.5,
    "row softmax": lambda x, y: jg.softmax(x + y, axis=-1),
    "linear and relu": lambda x, y: jg.relu(x @ y.T),
    "layer norm": lambda x, y: jg.nn.functional.layer_norm(x, (64,), y[0], y[1]),
    "sum of squares": lambda x, y: (x * x + y).sum(),
}


def main() -> None:
    x, y = (jg.asarray(np.random.default_rng(i).standard_normal((64, 64)).astype(np.float32)) for i in (0, 1))
    started = time.perf_counter()
    jg.trace(lambda x: x + 1.0)(x)
    print(f"{'first of the process':22} {1e3 * (time.perf_counter() - started):6.1f} ms (loads the compiler)")
    for name, function in FUNCTIONS.items():
        times = []
        for factor in range(2, 7):  # ints are part of the key: each makes a kernel of its own
            started = time.perf_counter()
            jg.trace(lambda x, y, f=function, s=factor: f(x * s, y))(x, y)
            times.append(time.perf_counter() - started)
        print(f"{name:22} {1e3 * float(np.median(times)):6.1f} ms")


if __name__ == "__main__":
    main()
