"""The cases of one measurement in two checkouts, turn by turn: ``python -m bench.against CHECKOUT sums [CASE ...]``.

Each checkout has a process of its own, which runs one case when it is told to; they take turns, so a drift of the
machine's speed falls on both. The measurement is a module of ``bench`` with ``CASES`` and ``case(name)``.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from bench.timing import ratio

ROUNDS = 30


def serve(module: str) -> None:
    """Time cases as they are asked for on standard input: a line with a name and a number of calls each."""
    measurement = importlib.import_module(f"bench.{module}")
    cases = {}
    for line in sys.stdin:
        name, _, calls = line.rstrip("\n").rpartition("|")
        if name not in cases:
            cases[name] = measurement.case(name)
        started = time.perf_counter()
        for _ in range(int(calls)):
            cases[name]()
        print((time.perf_counter() - started) / int(calls), flush=True)


def _start(checkout: Path, module: str) -> subprocess.Popen[str]:
    here = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{here}"}
    code = f"from bench.against import serve; serve({module!r})"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=checkout,
    )


def _ask(worker: subprocess.Popen[str], name: str, calls: int) -> float:
    """The seconds of a call; NaN where the case ended the worker, as one that its checkout does not have."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    print(f"{name}|{calls}", file=worker.stdin, flush=True)
    return float(worker.stdout.readline() or "nan")


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__)
        return 2
    checkout, module, *wanted = sys.argv[1:]
    folders = {"here": Path(__file__).resolve().parents[1], "there": Path(checkout).resolve()}
    workers = {which: _start(folder, module) for which, folder in folders.items()}
    for name in wanted or importlib.import_module(f"bench.{module}").CASES:
        if lacking := [which for which, worker in workers.items() if np.isnan(_ask(worker, name, 1))]:
            print(f"{name:28} does not run {' and '.join(lacking)}", flush=True)
            workers |= {which: _start(folders[which], module) for which in lacking}
            continue
        calls = max(1, int(0.005 / max(_ask(workers["here"], name, 3), 1e-7)))
        times: dict[str, list[float]] = {which: [] for which in workers}
        for _ in range(ROUNDS + 1):
            for which, worker in workers.items():
                times[which].append(_ask(worker, name, calls))
        ours, theirs = (np.array(times[which][1:]) for which in ("here", "there"))
        print(
            f"{name:28} here {1e6 * float(np.median(ours)):9.1f} us, there {ratio(theirs, ours)} times that", flush=True
        )
    for worker in workers.values():
        worker.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
