"""Square float32 products on one thread and on all, as a share of the measured fma peak of one core.

Peak and products on one thread are timed by the processor time of that thread, those on several by the clock.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial

SIZES = (256, 1024)


def measure() -> None:
    import numpy as np

    import jitgraph as jg
    from bench.peak import fma_flops
    from bench.timing import interleaved, ratio

    peak = fma_flops()
    # NumPy's threads spin for more than a tenth of a second after a product
    alone = os.environ["JITGRAPH_NUM_THREADS"] == "1"
    clock, pause = (time.thread_time, 0.0) if alone else (time.perf_counter, 0.3)
    print(f"fma peak of one core {peak / 1e9:.0f} GFLOP/s; threads {os.environ['JITGRAPH_NUM_THREADS']}")
    product = jg.trace(lambda a, b: a @ b)
    for n in SIZES:
        a, b = (np.random.default_rng(i).standard_normal((n, n)).astype(np.float32) for i in (0, 1))
        x, y = jg.asarray(a), jg.asarray(b)
        candidates = {"jitgraph": partial(product, x, y), "numpy": partial(np.matmul, a, b)}
        times = interleaved(candidates, calls=max(1, (512 // n) ** 3), clock=clock, pause=pause)
        speed = {name: 2.0 * n**3 / values for name, values in times.items()}
        for name, values in speed.items():
            rate = float(np.median(values))
            print(f"  {n:5} {name:9} {rate / 1e9:7.1f} GFLOP/s  {100 * rate / peak:5.1f} % of the peak of one core")
        print(f"  {n:5} jitgraph against numpy: {ratio(times['numpy'], times['jitgraph'])} times as fast")


def main() -> None:
    for threads in ("1", str(len(os.sched_getaffinity(0)))):
        limits = {"JITGRAPH_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        code = "from bench.matmul import measure; measure()"
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **limits})


if __name__ == "__main__":
    main()
