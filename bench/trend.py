"""Size and speed of the package beside the last release's: ``python -m bench.trend``, or ``make trend``, some 15 s.

``--write NAME`` stores the figures as those of a release, in ``bench/trend.json``. The package that is imported is
measured: ``PYTHONPATH=CHECKOUT python bench/trend.py`` measures another checkout. Times are no test: machines differ,
and other programs run on them.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import jitgraph as jg

ROOT = Path(jg.__file__).parents[1]
STORED = Path(__file__).with_name("trend.json")
STARTS = 7  # of a process, for each figure of one
SECONDS = 0.03  # for which a call is repeated, five times

COUNT = "; import sys; print(sum(name.partition('.')[0] == 'jitgraph' for name in sys.modules))"
PROGRAMS = {
    "import": "import jitgraph",
    "first eager": "import jitgraph as jg; (jg.ones(3) * 2 + 1).numpy()",
    "first trace": "import jitgraph as jg; jg.trace(lambda x: x * 2 + 1)(jg.ones(3)).numpy()",
}
COLD = "first trace, nothing cached"


def sizes() -> dict[str, float]:
    """Lines and files of the package, and bytes of the wheel that was built last."""
    lengths = [len(path.read_text().splitlines()) for path in sorted((ROOT / "jitgraph").rglob("*.py"))]
    tests = [len(path.read_text().splitlines()) for path in sorted((ROOT / "tests").rglob("*.py"))]
    figures: dict[str, float] = {
        "lines": sum(lengths),
        "files": len(lengths),
        "median lines of a file": statistics.median(lengths),
        "lines of tests": sum(tests),
    }
    if wheels := sorted((ROOT / "dist").glob("*.whl")):
        figures["wheel (kB)"] = wheels[-1].stat().st_size / 1e3
    return figures


def _start(program: str, environment: dict[str, str]) -> tuple[float, float, int]:
    """Wall time and time of the processor (ms) of a process, and the modules of jitgraph that it loads."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program + COUNT], env=environment, check=True, capture_output=True, text=True, cwd=ROOT
    )
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall * 1e3, cpu * 1e3, int(done.stdout)


def starts() -> dict[str, float]:
    """What processes that do little load, and how long they take; all but one find bytecode and code in caches."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {
            "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",
            "JITGRAPH_CACHE_DIR": f"{folder}/cache",
            "PYTHONPATH": str(ROOT),
        }
        for program in ("import numpy, ml_dtypes", *PROGRAMS.values()):
            _start(program, environment)  # which fills the caches
        rounds = [
            {name: _start(program, environment) for name, program in PROGRAMS.items()}
            | {COLD: _start(PROGRAMS["first trace"], environment | {"JITGRAPH_CACHE_DIR": f"{folder}/empty{number}"})}
            | {"": _start("import numpy, ml_dtypes", environment)}
            for number in range(STARTS)
        ]
    for name in (*PROGRAMS, COLD):
        figures[f"{name} (ms)"] = statistics.median(each[name][0] for each in rounds)
        figures[f"{name} (ms of CPU)"] = statistics.median(each[name][1] for each in rounds)
        figures[f"modules of {name}"] = rounds[0][name][2]
    figures["NumPy's part of these (ms of CPU)"] = statistics.median(each[""][1] for each in rounds)
    return figures


def _call_time(call: Callable[[], Any]) -> float:
    """Microseconds of one call: the fastest of five stretches."""
    call()
    number, best = 1, float("inf")
    for _ in range(5):
        spent, done = 0.0, 0
        while spent < SECONDS:
            started = time.perf_counter()
            for _ in range(number):
                call()
            elapsed = time.perf_counter() - started
            spent, done = spent + elapsed, done + number
            number = max(1, min(10_000, int(number * SECONDS / 4 / max(elapsed, 1e-9))))
        best = min(best, spent / done)
    return best * 1e6


def _kernels() -> dict[str, tuple[Callable[..., Any], Sequence[Any]]]:
    rng = np.random.default_rng(0)

    def floats(*shape: int) -> Any:
        return jg.asarray(rng.random(shape, np.float32))

    functional = jg.nn.functional
    rows, square = floats(512, 1024), floats(512, 512)
    return {
        "elementwise chain": (lambda x: jg.tanh(x * 2 + 1) * x, (floats(1 << 20),)),
        "sum of rows": (lambda x: jg.sum(x, axis=1), (rows,)),
        "sum of columns": (lambda x: jg.sum(x, axis=0), (rows,)),
        "softmax": (lambda x: jg.softmax(x, axis=-1), (rows,)),
        "layer norm": (lambda x: functional.layer_norm(x, (1024,)), (rows,)),
        "matrix product": (lambda x, y: x @ y, (square, square)),
        "convolution": (functional.conv2d, (floats(8, 16, 32, 32), floats(32, 16, 3, 3))),
        "attention": (functional.scaled_dot_product_attention, (floats(4, 8, 128, 32),) * 3),
        "cumulative sum": (lambda x: jg.cumsum(x, axis=1), (rows,)),
        "sort": (lambda x: jg.sort(x, axis=1), (floats(128, 1024),)),
    }


def calls() -> dict[str, float]:
    """Warm calls: of next to nothing, which is what a call costs, and of ten kernels; and the size of a saved file."""
    os.environ["JITGRAPH_DISPATCH"] = "1"  # warm calls are those of a process that runs for a while
    small, traced = jg.ones(3), jg.trace(lambda x: x * 2 + 1)
    for _ in range(200):
        traced(small)
    figures = {"warm call (us)": _call_time(lambda: traced(small))}
    for name, (function, arguments) in _kernels().items():
        compiled = jg.trace(function)
        figures[f"{name} (us)"] = _call_time(lambda f=compiled, args=arguments: f(*args))  # type: ignore[misc]
    layer = jg.nn.Sequential(jg.nn.Linear(64, 128), jg.nn.GELU(), jg.nn.Linear(128, 10))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.jg")
        jg.save(jg.trace(lambda x: layer(x)), str(path), example_inputs=(jg.ones((8, 64)),))
        figures["saved file (kB)"] = path.stat().st_size / 1e3
    return figures


def machine() -> str:
    """The processor, by which times can be compared."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)}" if names else platform.machine()


def table(figures: dict[str, float], release: dict[str, Any]) -> str:
    """The figures beside the release's, with what became of each in per cent."""
    before: dict[str, float] = release.get("figures", {})
    lines = [f"{'':44}{'here':>12}{release.get('name', 'no release'):>16}"]
    for name, value in figures.items():
        old = before.get(name)
        change = "" if old is None else f"{old:16,.1f}{(value / old - 1) * 100:+9.1f} %" if old else f"{old:16,.1f}"
        lines.append(f"{name:44}{value:12,.1f}{change}")
    if before and release.get("machine") != machine():
        lines.append(f"The release was timed on another machine: {release.get('machine')}")
    return "\n".join(lines)


def main() -> None:
    release = json.loads(STORED.read_text()) if STORED.exists() else {}
    figures = sizes() | starts() | calls()
    print(table(figures, release))
    if "--write" in sys.argv:
        name = sys.argv[sys.argv.index("--write") + 1]
        stored = {
            "name": name,
            "machine": machine(),
            "figures": {key: round(value, 1) for key, value in figures.items()},
        }
        STORED.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
