"""The first call of a compiled function in a new process: without the persistent cache, with an empty and a full one.

``objects`` is a cache that has the units' objects and not the image, as after an edit that moves the function to
another line. Times are those of the first call (recording, compiling, running) of processes that take turns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

import jitgraph as jg
from bench.timing import ratio

ROUNDS = int(os.environ.get("ROUNDS", "15"))
STATES = ("off", "empty", "objects", "full")
First = tuple[Callable[..., object], tuple[object, ...]]


def _chain() -> First:
    x, y, z = (jg.asarray(np.ones((1000, 100), np.float32)) for _ in range(3))
    return (lambda x, y, z: x * y + z), (x, y, z)


def _step() -> First:
    from bench.digits_step import BATCH, jitgraph_step

    generator = np.random.default_rng(0)
    images = jg.asarray(generator.random((BATCH, 64), dtype=np.float32))
    return jitgraph_step(), (images, jg.asarray(generator.integers(0, 10, BATCH)))


def _encoder() -> First:
    from bench.calls import _encoder as encoder

    model, x = encoder()
    return (lambda x: model(x)), (x,)


def _inference() -> First:
    """Of parameters without gradients: a call that may be differentiated is first cut in two, in each process."""
    from bench.calls import _encoder as encoder

    model, x = encoder()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return (lambda x: model(x)), (x,)


PROGRAMS: dict[str, Callable[[], First]] = {
    "x * y + z": _chain,
    "MLP training step": _step,
    "6-layer encoder": _encoder,
    "6-layer encoder, inference": _inference,
}


def first_call(program: str, folder: str, name: str) -> None:
    """Print how long the first call takes, and how much of it by the processors, in seconds."""
    jg.cache.dir = folder or None
    function, arguments = PROGRAMS[program]()
    function.__name__ = name  # which is part of the key of an image, and not of an object
    traced = jg.trace(function)
    started, used = time.perf_counter(), time.process_time()
    traced(*arguments)
    print(time.perf_counter() - started, time.process_time() - used)


def _in_a_process(program: str, folder: str, name: str) -> tuple[float, float]:
    code = f"from bench.cache import first_call; first_call({program!r}, {folder!r}, {name!r})"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    elapsed, used = map(float, done.stdout.split())
    return elapsed, used


def main() -> None:
    for program in PROGRAMS:
        times: dict[str, list[tuple[float, float]]] = {state: [] for state in STATES}
        with tempfile.TemporaryDirectory() as full:
            for _ in range(2):  # the second finds the digest of the sources
                _in_a_process(program, full, "same")
            for number in range(ROUNDS):
                for state in STATES:
                    with tempfile.TemporaryDirectory() as empty:
                        folder = {"off": "", "empty": empty}.get(state, full)
                        name = f"other{number}" if state == "objects" else "same"
                        times[state].append(_in_a_process(program, folder, name))
        print(program)
        first = np.array(times["off"])[:, 0]
        for state in STATES:
            elapsed, used = np.array(times[state]).T
            shown = f"{1e3 * float(np.median(elapsed)):7.1f} ms ({1e3 * float(np.median(used)):7.1f} of processors)"
            print(f"  {state:8} {shown}  {ratio(elapsed, first)} times that without the cache")


if __name__ == "__main__":
    main()
