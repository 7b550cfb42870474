"""The first call of a compiled function in a new process: without the persistent cache, with an empty and a full one.

``objects`` is a cache that has the units' objects and not the image, as after an edit that changes the graph; ``code``
one that has the image and not the trace, as after an edit of a line above; ``traces`` one that has all. Times are those
of the first call (recording or finding, compiling, running) of processes that take turns. With ``traces`` also from the
end of ``import jitgraph`` on, and what the call imports. At the end the same for the peers that keep compiled code on
disk, in processes that take turns: jitgraph, JAX, torch.compile.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import jitgraph as jg
from bench.compile_time import in_a_process
from bench.timing import ratio

ROUNDS = int(os.environ.get("ROUNDS", "15"))
STATES = ("off", "empty", "objects", "code", "traces")
PEERS: dict[
    str, Callable[[str], dict[str, str]]
] = {  # the environment in which each keeps what it compiled in a folder
    "jitgraph": lambda folder: {"BENCH_CACHE_DIR": folder},
    "jax": lambda folder: {
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    },
    "torch": lambda folder: {"TORCHINDUCTOR_CACHE_DIR": folder},
}
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


def first_call(program: str, folder: str, state: str, began: float) -> None:
    """Print how long the first call takes, and how much of it by the processors, in seconds; the time since ``began``,
    and what the call imports."""
    jg.cache.dir = folder or None
    function, arguments = PROGRAMS[program]()
    if state.startswith("objects"):
        function.__name__ = state  # which is part of the key of an image, and not of an object
    if state.startswith("code"):
        function.__qualname__ = state  # which is part of the key of a trace, and not of an image
    traced = jg.trace(function)
    known = set(sys.modules)
    started, used = time.perf_counter(), time.process_time()
    traced(*arguments)
    now, used = time.perf_counter(), time.process_time() - used
    print(now - started, used, now - began, *[name for name in sys.modules if name not in known])


class Measured(NamedTuple):
    """The first call of one process: seconds elapsed, of the processors, and since ``import jitgraph``; its imports."""

    elapsed: float
    used: float
    since: float
    imports: tuple[str, ...]


def _in_a_process(program: str, folder: str, state: str) -> Measured:
    code = (
        "import time, jitgraph; began = time.perf_counter()\n"
        f"from bench.cache import first_call; first_call({program!r}, {folder!r}, {state!r}, began)"
    )
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    elapsed, used, since, *imports = done.stdout.split()
    return Measured(float(elapsed), float(used), float(since), tuple(imports))


def main() -> None:
    for program in PROGRAMS:
        times: dict[str, list[Measured]] = {state: [] for state in STATES}
        with tempfile.TemporaryDirectory() as full:
            for _ in range(2):  # the second finds the digest of the sources
                _in_a_process(program, full, "same")
            for number in range(ROUNDS):
                for state in STATES:
                    with tempfile.TemporaryDirectory() as empty:
                        folder = {"off": "", "empty": empty}.get(state, full)
                        times[state].append(_in_a_process(program, folder, f"{state}{number}"))
        print(program)
        first = np.array([each.elapsed for each in times["off"]])
        for state in STATES:
            elapsed, used, since = (np.array([each[part] for each in times[state]]) for part in range(3))
            shown = f"{_ms(elapsed)} ({_ms(used)} of processors; since the import {_ms(since)})"
            print(f"  {state:8} {shown}  {ratio(elapsed, first)} times that without the cache")
        print(f"  imported by the call with traces: {', '.join(times['traces'][-1].imports) or 'nothing'}")
    for program in ("six ops", "training step"):
        _beside_peers(program)


def _beside_peers(program: str) -> None:
    """The first call of a process after two others made it, in jitgraph and the peers that are installed."""
    print(f"{program}, kept by an earlier process")
    times: dict[str, list[tuple[float, float]]] = {peer: [] for peer in PEERS if importlib.util.find_spec(peer)}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(2 + ROUNDS):
            for peer in times:
                result = in_a_process(peer, program, PEERS[peer](os.path.join(folder, peer)))
                assert result is not None, f"{peer} has no {program}"
                times[peer] += [result] if number >= 2 else []
    ours = np.array(times["jitgraph"])[:, 0]
    for peer, found_times in times.items():
        elapsed, used = np.array(found_times).T
        print(f"  {peer:8} {_ms(elapsed)} ({_ms(used)} of processors)  {ratio(elapsed, ours)} times jitgraph's")


def _ms(seconds: np.ndarray) -> str:
    return f"{1e3 * float(np.median(seconds)):7.1f} ms"


if __name__ == "__main__":
    main()
