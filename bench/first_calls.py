"""The first 1,000 eager calls of `x + y` in new processes: the dispatcher's image from a wheel, a cache or nowhere.

An empty cache lets NumPy serve the calls; a full one has what an earlier process left after 100,000 calls. ``wheel`` is
no cache, but the image as wheels bring it along, which is written into the package for the measurement alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import numpy as np

ROUNDS = int(os.environ.get("ROUNDS", "7"))
CALLS, WARM = 1000, 100_000
CODE = """
import time; started = time.perf_counter()
import jitgraph as jg
imported = time.perf_counter()
x, y = jg.ones((10,)), jg.ones((10,))
times = [time.perf_counter()]
for _ in range({calls}):
    x + y
    times.append(time.perf_counter())
later = sorted(b - a for a, b in zip(times[-101:], times[-100:]))
calls = [b - a for a, b in zip(times, times[1:])]
begin = time.perf_counter()
jg.trace(lambda x: x + 1)(x).numpy()
traced = time.perf_counter() - begin
print(imported - started, calls[0], sum(calls[:{shown}]), max(calls[1:{shown}]), later[50], traced)
"""


def _run(folder: str, calls: int) -> list[float]:
    environment = {**os.environ, "JITGRAPH_CACHE_DIR": folder}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    code = CODE.format(calls=calls, shown=CALLS)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return [float(number) for number in done.stdout.split()]


def _show(name: str, times: list[list[float]]) -> None:
    imported, first, together, longest, last, traced = np.median(np.array(times), axis=0)
    milliseconds = (
        f"import {1e3 * imported:5.0f} ms, first call {1e3 * first:5.1f}, first {CALLS} {1e3 * together:6.1f}"
    )
    print(f"{name:6} {milliseconds} (longest but the first {1e3 * longest:5.1f}), ", end="")
    print(f"the last {1e6 * last:5.2f} us, first traced result {1e3 * traced:6.1f} ms")


def main() -> None:
    from jitgraph.codegen import prebuilt
    from jitgraph.runtime import dispatcher_image

    with tempfile.TemporaryDirectory() as full:
        for _ in range(2):
            _run(full, WARM)
        states: dict[str, list[list[float]]] = {"off": [], "empty": [], "full": [], "wheel": []}
        was_there = os.path.exists(dispatcher_image.FILE)
        for _ in range(ROUNDS):
            states["off"].append(_run("off", CALLS))
            with tempfile.TemporaryDirectory() as empty:
                states["empty"].append(_run(empty, CALLS))
            states["full"].append(_run(full, CALLS))
            prebuilt.write_dispatcher()
            try:
                states["wheel"].append(_run("off", CALLS))
            finally:
                if not was_there:
                    os.unlink(dispatcher_image.FILE)
    for name, times in states.items():
        _show(name, times)


if __name__ == "__main__":
    main()
