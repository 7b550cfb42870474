"""Generated code of matrix ops, as files have it, beside NumPy and SciPy on one thread: ``python -m bench linalg``.

Prints the table of docs/accuracy.md: microseconds of a call with arrays, the least of rounds in which all take turns.
Arguments of ``python -m bench.linalg [OP ...]`` choose ops. SciPy is left out where it is not installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

SIZES: Mapping[str, tuple[int, ...]] = {
    "cholesky": (8, 32, 128, 512),
    "lu": (8, 33, 128, 512),
    "solve": (8, 33, 128, 512),
    "inv": (8, 33, 128, 512),
    "qr": (8, 32, 128, 512),
    "eigh": (9, 33, 128, 512),
    "svd": (8, 33, 128),
}
ROUNDS = 15
TURN = 0.02
"""Seconds that a candidate's turn of small matrices takes at least."""


def matrices(op: str, size: int) -> list[np.ndarray[Any, Any]]:
    """The operands: random numbers, positive definite for cholesky and symmetric for eigh."""
    rng = np.random.default_rng(size)
    a = rng.standard_normal((size, size))
    if op in ("cholesky", "eigh"):
        a = a @ a.T + size * np.eye(size)
    return [a, rng.standard_normal(size)] if op == "solve" else [a]


def generated(op: str, operands: list[np.ndarray[Any, Any]]) -> Callable[[], object]:
    """A call of the code that calls no Python, neither LAPACK."""
    import jitgraph as jg
    from jitgraph import compiler
    from jitgraph.ir.target import Target

    functions: dict[str, Callable[..., object]] = {
        "lu": lambda x: tuple(jg.linalg.lu(x)),
        "qr": lambda x: tuple(jg.linalg.qr(x)),
        "eigh": lambda x: tuple(jg.linalg.eigh(x)),
        "svd": lambda x: tuple(jg.linalg.svd(x, full_matrices=False)),
    }
    function = functions.get(op) or getattr(jg.linalg, op)
    graph = jg.trace(lambda *xs: function(*xs)).lower(*map(jg.asarray, operands)).graph
    compiled = compiler.compile(graph, Target.host().without_python())
    assert not compiled.stages.schedule.calls, f"{op} calls Python"
    return partial(compiled.run, operands)


def peers(op: str, operands: list[np.ndarray[Any, Any]]) -> dict[str, Callable[[], object]]:
    """The same by NumPy and, where it is installed, by SciPy, without its look for NaN."""
    results: dict[str, Callable[[], object]] = {}
    if op != "lu":
        named = partial(np.linalg.svd, full_matrices=False) if op == "svd" else getattr(np.linalg, op)
        results["NumPy"] = partial(named, *operands)
    try:
        from scipy import linalg
    except ImportError:
        return results
    options: dict[str, Any] = {"check_finite": False}
    options |= {"lower": True} if op == "cholesky" else {"mode": "economic"} if op == "qr" else {}
    options |= {"full_matrices": False} if op == "svd" else {}
    results["SciPy"] = partial(getattr(linalg, op), *operands, **options)
    return results


def measure(wanted: list[str]) -> None:
    from bench.timing import interleaved

    print("| function | rows | generated | NumPy | SciPy |\n| --- | --- | --- | --- | --- |")
    for op in wanted or SIZES:
        columns: dict[str, list[str]] = {"generated": [], "NumPy": [], "SciPy": []}
        for size in SIZES[op]:
            operands = matrices(op, size)
            candidates = {"generated": generated(op, operands), **peers(op, operands)}
            once = max(float(x[0]) for x in interleaved(candidates, rounds=1).values())
            times = interleaved(candidates, rounds=ROUNDS, calls=max(1, min(2000, int(TURN / once))))
            for name, cells in columns.items():
                cells.append(f"{float(f'{1e6 * times[name].min():.2g}'):g}" if name in times else "-")
        rows = ", ".join(map(str, SIZES[op]))
        print(f"| {op} | {rows} | {' | '.join(', '.join(cells) for cells in columns.values())} |", flush=True)


def main(wanted: list[str] | None = None) -> None:
    threads = dict.fromkeys(("JITGRAPH_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    code = f"from bench.linalg import measure; measure({wanted or []!r})"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **threads})


if __name__ == "__main__":
    main(sys.argv[1:])
