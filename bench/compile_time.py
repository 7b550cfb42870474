"""The first call of a compiled function, in new processes that take turns: jitgraph beside its peers, and its aims.

    python -m bench compile_time            ROUNDS=3 PROGRAMS="six ops,encoder" PEERS=jitgraph,jax for a part of it

A time is that of the call alone: imports and arrays are there before, recording, compiling and running are in it. No
compiled code is kept between processes. A peer that is not installed, or has no such program, is left out.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time

import numpy as np

from bench.compile_peers import PEERS

ROUNDS = int(os.environ.get("ROUNDS", "7"))
AIMS = {  # milliseconds
    "six ops": 60.0,
    "second kernel": 10.0,
    "training step": 150.0,
    "encoder": 500.0,
    "half of the ops": 1500.0,
    "5,000 ops": 3000.0,
}
PATIENCE = 300.0  # seconds
WITHOUT_CACHES = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}


def first_call(peer: str, program: str) -> None:
    """Print the seconds of the call, and those of the processors; nothing where the peer has no such program."""
    programs = PEERS[peer]()
    if program in programs:
        call = programs[program]()
        started, used = time.perf_counter(), time.process_time()
        call()
        print("seconds", time.perf_counter() - started, time.process_time() - used)


def in_a_process(peer: str, program: str, environment: dict[str, str]) -> tuple[float, float] | None:
    """What ``first_call`` finds in a new process with these variables beside the usual ones; None where it fails."""
    code = f"from bench.compile_time import first_call; first_call({peer!r}, {program!r})"
    usual = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env=usual | environment, capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        print(f"  {peer} took more than {PATIENCE:.0f} s")
        return None
    if done.returncode:
        print(f"  {peer} failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith("seconds ")]
    return (float(lines[0][1]), float(lines[0][2])) if lines else None


def _shown(times: list[tuple[float, float]]) -> str:
    elapsed, used = 1e3 * np.array(times).T
    low, high = np.percentile(elapsed, [25, 75])
    return f"{np.median(elapsed):8.1f} ms ({low:.1f} to {high:.1f}), {np.median(used):8.1f} of processors"


def main() -> None:
    from jitgraph.codegen import prebuilt

    prebuilt.write()  # the libraries' objects, as a wheel has them
    requested = os.environ.get("PEERS", "").split(",") if os.environ.get("PEERS") else list(PEERS)
    installed = [peer for peer in requested if importlib.util.find_spec(peer)]
    if absent := [peer for peer in requested if peer not in installed]:
        print(f"not installed, so left out: {', '.join(absent)}")
    programs = os.environ.get("PROGRAMS", "").split(",") if os.environ.get("PROGRAMS") else list(AIMS)
    for program in programs:
        print(f"{program}: the aim is {AIMS[program]:.0f} ms")
        times: dict[str, list[tuple[float, float]]] = {peer: [] for peer in installed}
        for number in range(ROUNDS + 1):
            for peer in list(times):
                result = in_a_process(peer, program, WITHOUT_CACHES)
                if result is None:
                    del times[peer]
                elif number:  # the first writes Python's own files of bytecode
                    times[peer].append(result)
        for peer, values in times.items():
            print(f"  {peer:12} {_shown(values)}")


if __name__ == "__main__":
    main()
