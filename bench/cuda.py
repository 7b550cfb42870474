"""All that there is to learn on a machine with a GPU, in less than 8 minutes: ``python -m bench.cuda [FOLDER]``.

1. The tests of ``tests/cuda`` on the device itself, and on the simulator's bits where they hold both.
2. ``compute-sanitizer`` over a training step, where it is installed.
3. Times beside PyTorch (eager, torch.compile) and JAX by events of CUDA (JAX by the clock, as it has none), with the
   share of copy bandwidth, or the rate of operations; the first call, which compiles; the host's cost of a call.

What is found goes to ``cuda_figures.json`` and ``cuda_figures.md`` in FOLDER, after each case, so that nothing is lost
where one of them ends the process. Where there is no GPU, ``JITGRAPH_CUDA=simulated`` rehearses it in tiny sizes.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jitgraph as jg
from bench.cuda_cases import Run, cases, has

SECONDS = 450.0
"""After which no new case begins."""

_TEST_SECONDS, _SANITIZER_SECONDS = 150, 90
_ROUND_MS, _MOST_CALLS = 10.0, 2000
_ROOT = Path(__file__).resolve().parents[1]


def is_rehearsal() -> bool:
    """Whether a simulator stands in for the GPU."""
    return os.environ.get("JITGRAPH_CUDA") == "simulated"


def about() -> dict[str, Any]:
    """The GPU, the driver, and the versions of the peers."""
    result = jg.cuda.get_device_properties()
    properties = {name: getattr(result, name) for name in result.__dataclass_fields__}
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for name in ("numpy", "llvmlite", "torch", "jax"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"gpu": properties, "versions": versions, "rehearsal": is_rehearsal()}


def command(arguments: list[str], seconds: float, **environment: str) -> dict[str, Any]:
    """How a program ended, and the last lines that it wrote."""
    started = time.monotonic()
    try:
        done = subprocess.run(
            arguments, cwd=_ROOT, env={**os.environ, **environment}, capture_output=True, text=True, timeout=seconds,
            check=False,
        )  # fmt: skip
        code, lines = done.returncode, (done.stdout + done.stderr).splitlines()
    except subprocess.TimeoutExpired:
        code, lines = -1, [f"not done after {seconds:.0f} s"]
    return {"code": code, "seconds": round(time.monotonic() - started, 1), "tail": lines[-15:]}


def tests() -> dict[str, Any]:
    """The tests on the device; a rehearsal runs one of their files on the simulator."""
    files = ["tests/cuda/test_array_functions.py"] if is_rehearsal() else ["tests/cuda", "tests/test_cuda.py"]
    environment = {} if is_rehearsal() else {"TEST_GPU": "1"}
    options = ["-q", "--maxfail=20", "-p", "no:cacheprovider", "-p", "no:benchmark"]
    if find_spec("xdist"):
        options += ["-n", "8"]  # one after the other they take several minutes
    run = [sys.executable, "-m", "pytest", *options, *files]
    return command(run, _TEST_SECONDS, **environment)


def sanitizer() -> dict[str, Any] | None:
    """``compute-sanitizer`` over the training step of a small model; None where it is not installed."""
    result = shutil.which("compute-sanitizer")
    if result is None or is_rehearsal():
        return None
    code = "from tests.cuda.models import trained; trained('digits', 'cuda', traced=True, steps=2)"
    tools = {}
    for tool in ("memcheck", "racecheck"):
        run = [result, "--tool", tool, "--error-exitcode", "9", sys.executable, "-c", code]
        tools[tool] = command(run, _SANITIZER_SECONDS / 2)
    return tools


class Timer:
    """Milliseconds of calls, by events of the library that makes them, or by the clock where it has none."""

    def __init__(self, name: str) -> None:
        self._torch: Any = None
        if name.startswith("torch"):
            import torch

            self._torch = torch if torch.cuda.is_available() else None
        self._is_ours = name.startswith("jitgraph")

    def __call__(self, run: Run, calls: int) -> float:
        """Milliseconds of each call."""
        if self._is_ours or self._torch is not None:
            events: Any = self._torch.cuda if self._torch is not None else jg.cuda
            begin, end = (events.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(calls):
                run()
            end.record()
            end.synchronize()
            return max(float(begin.elapsed_time(end)), 1e-6) / calls
        started = time.perf_counter()
        for _ in range(calls):
            last = run()
        self.wait(last)
        return max(1e3 * (time.perf_counter() - started), 1e-6) / calls

    def wait(self, last: Any) -> None:
        """Until all is done."""
        if self._is_ours:
            jg.cuda.synchronize()
        elif self._torch is not None:
            self._torch.cuda.synchronize()
        elif hasattr(last, "block_until_ready"):
            last.block_until_ready()


def measure(runs: dict[str, Callable[[], Run]], *, rounds: int) -> dict[str, dict[str, Any]]:
    """For each candidate the time of a call, of the first one, and of the host alone; or why there is none."""
    outputs: dict[str, dict[str, Any]] = {}
    ready: dict[str, tuple[Run, Timer, int]] = {}
    for name, make in runs.items():
        try:
            timer, run = Timer(name), make()
            started = time.perf_counter()
            timer.wait(run())
            outputs[name] = {"first_ms": 1e3 * (time.perf_counter() - started)}
            timer(run, 3)
            each = timer(run, 1 if rounds < 3 else 3)
            ready[name] = run, timer, 1 if rounds < 3 else max(1, min(_MOST_CALLS, int(_ROUND_MS / each)))
        except Exception:  # one candidate that fails is a result, and the others are still measured
            outputs[name] = {"error": traceback.format_exc(limit=-2)[-600:]}
    times: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(rounds):
        for name, (run, timer, calls) in ready.items():
            times[name].append(timer(run, calls))
    for name, (run, timer, _) in ready.items():
        outputs[name] |= {"ms": statistics.median(times[name]), "least_ms": min(times[name])}
        outputs[name]["host_us"] = 1e6 * host_seconds(run, timer, 2 if rounds < 3 else 100)
    return outputs


def host_seconds(run: Run, timer: Timer, calls: int) -> float:
    """Seconds until a call returns, whether its work is done or not."""
    timer.wait(run())
    started = time.perf_counter()
    for _ in range(calls):
        last = run()
    elapsed = time.perf_counter() - started
    timer.wait(last)
    return elapsed / calls


def copy_bandwidth(*, rounds: int) -> float:
    """Bytes a second that a copy on the device reads and writes, together: the limit of all that only moves memory."""
    size = 1 << (12 if is_rehearsal() else 28)
    x = jg.zeros((size // 4,), device="cuda")
    actual = measure({"jitgraph": lambda: lambda: jg.asarray(x, copy=True)}, rounds=rounds)["jitgraph"]
    return float(2 * size / (actual["least_ms"] * 1e-3))


def report(results: dict[str, Any]) -> str:
    """The results as a page of Markdown."""
    gpu = results["about"]["gpu"]
    rehearsal = " (a rehearsal: times mean nothing)" if is_rehearsal() else ""
    lines = [f"# Figures on {gpu['name']}{rehearsal}", ""]
    lines += [f"Versions: {results['about']['versions']}.", f"Copy: {results['copy'] / 1e9:.0f} GB/s.", ""]
    for name in ("tests", "sanitizer"):
        if results.get(name):
            lines += [f"{name}:", "", "```", json.dumps(results[name], indent=1), "```", ""]
    rate = "share of copy bandwidth, or Tflop/s"
    lines += [f"| case | candidate | ms | {rate} | of jitgraph's time | first call, ms | host, us |"]
    lines += ["| --- " * 7 + "|"]
    for case, actual in results["cases"].items():
        ours = actual["times"].get("jitgraph", {}).get("ms")
        for name, each in actual["times"].items():
            if "ms" not in each:
                lines.append(f"| {case} | {name} | failed: {each['error'].strip().splitlines()[-1]} | | | | |")
                continue
            seconds = each["ms"] * 1e-3
            rate = f"{100 * actual['bytes'] / seconds / results['copy']:.0f} %" if actual["bytes"] else ""
            rate = f"{actual['operations'] / seconds / 1e12:.1f}" if actual["operations"] else rate
            beside = f"{each['ms'] / ours:.2f}" if ours else ""
            times = f"{each['ms']:.4f} | {rate} | {beside} | {each['first_ms']:.0f} | {each['host_us']:.1f}"
            lines.append(f"| {case} | {name} | {times} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of the memory at once
    if not jg.cuda.is_available():
        print("no GPU here; JITGRAPH_CUDA=simulated rehearses", file=sys.stderr)
        return 2
    started, rounds = time.monotonic(), 2 if is_rehearsal() else 15
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    results: dict[str, Any] = {"about": about(), "copy": copy_bandwidth(rounds=rounds), "cases": {}}

    def keep() -> None:
        results["seconds"] = round(time.monotonic() - started, 1)
        (folder / "cuda_figures.json").write_text(json.dumps(results, indent=1) + "\n")
        (folder / "cuda_figures.md").write_text(report(results))

    results["tests"] = tests()
    print(*results["tests"]["tail"][-3:], sep="\n", flush=True)
    keep()
    for name, make in cases(tiny=is_rehearsal()).items():
        if time.monotonic() - started > SECONDS - (_SANITIZER_SECONDS if not is_rehearsal() else 0):
            print(f"no time left for {name}")
            break
        work = make()
        times = measure(work.runs, rounds=rounds)
        results["cases"][name] = {"bytes": work.bytes, "operations": work.operations, "times": times}
        print(name, {key: each.get("ms", "failed") for key, each in times.items()}, flush=True)
        keep()
    results["sanitizer"] = sanitizer()
    results["peers"] = {name: has(name) for name in ("torch", "jax")}
    keep()
    return 1 if results["tests"]["code"] else 0


if __name__ == "__main__":
    sys.exit(main())
