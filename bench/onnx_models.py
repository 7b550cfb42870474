"""Models that packages ship as ONNX beside ONNX Runtime, at one and two threads.

    python -m bench.onnx_models PATH ... [--only PATTERN] [--threads 1,2] [--rounds 30]

PATHs are folders and files. Calls take turns, so that both have the same machine; the ratio of medians is
jitgraph's time over ONNX Runtime's. Needs ONNX Runtime.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def seconds(run: Any) -> float:
    """The time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measured(path: str, threads: int, rounds: int) -> str:
    """A line for a model, in a process whose threads are set before anything is loaded."""
    import jitgraph as jg
    from tests.onnx.shipped_models import arguments_of, distance_of, session_of

    session = session_of(Path(path), threads)
    arguments = arguments_of(session)
    if arguments is None:
        return "no inputs were found"
    module, inputs = jg.onnx.load(path), [jg.asarray(array) for array in arguments.values()]
    if module.traced is None:
        return "node by node alone"
    with jg.no_grad():
        distance = distance_of(module(*inputs), session.run(None, arguments))
        if distance > 1e-2:
            return f"differs by {distance:.0e}"
        for _ in range(3):
            module(*inputs), session.run(None, arguments)
        pairs = [
            (seconds(lambda: module(*inputs)), seconds(lambda: session.run(None, arguments))) for _ in range(rounds)
        ]
    own, theirs = (statistics.median(column) * 1e3 for column in zip(*pairs, strict=True))
    return f"{own:.3f} ms, ONNX Runtime {theirs:.3f} ms, ratio {own / theirs:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--only", default="", help="a pattern of names")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--one", type=int, default=0, help="measure in this process with so many threads")
    args = parser.parse_args()
    if args.one:
        print(measured(args.paths[0], args.one, args.rounds))
        return
    files = itertools.chain.from_iterable(
        sorted(Path(path).rglob("*.onnx")) if Path(path).is_dir() else [Path(path)] for path in args.paths
    )
    ratios: dict[str, list[float]] = {}
    for path in files:
        if not re.search(args.only, str(path)):
            continue
        for threads in args.threads.split(","):
            command = [
                sys.executable,
                "-m",
                "bench.onnx_models",
                str(path),
                "--one",
                threads,
                "--rounds",
                str(args.rounds),
            ]
            done = subprocess.run(
                command, env={**os.environ, "JITGRAPH_NUM_THREADS": threads}, capture_output=True, text=True
            )
            line = done.stdout.strip() or (done.stderr.strip().splitlines() or ["ended"])[-1][:150]
            print(f"{path.name} {threads} thread{'s' * (threads != '1')}: {line}", flush=True)
            if found := re.search(r"ratio ([\d.]+)", line):
                ratios.setdefault(threads, []).append(float(found[1]))
    for threads, numbers in ratios.items():
        mean = math.exp(statistics.fmean(map(math.log, (max(number, 1e-3) for number in numbers))))
        print(f"{threads} threads: {len(numbers)} models, geometric mean of the ratios {mean:.2f}")


if __name__ == "__main__":
    main()
