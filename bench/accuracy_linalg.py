"""Errors of jg.linalg against 50 digits (needs mpmath), in process by LAPACK and by the code that files have.

Random matrices of normal numbers; for cholesky and eigvalsh their products with themselves, and a tenth of the
identity. Each error is the greatest over the matrices of the norm of the difference by that of the result, in units of
eps times the condition number, for matrix_exp, eigenvalues and singular values of eps. Run as
``python -m bench.accuracy_linalg`` for the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np

import jitgraph as jg
from jitgraph import compiler
from jitgraph.ir.target import Target

COUNT = 60
L = jg.linalg


def exact(name: str, x: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
    a = mp.matrix(x.tolist())
    if name == "det":
        return mp.det(a)
    if name == "inv":
        return a**-1
    if name == "solve":
        return mp.lu_solve(a, mp.matrix(b.tolist()))
    if name == "cholesky":
        return mp.cholesky(a)
    if name == "eigvalsh":
        return mp.eigsy(a, eigvals_only=True)
    if name == "svdvals":
        return mp.svd_r(a, compute_uv=False)
    return mp.expm(a)


def error(actual: np.ndarray[Any, Any], wanted: Any) -> float:
    if actual.ndim == 0:
        return float(abs(mp.mpf(float(actual)) - wanted) / abs(wanted))
    got = mp.matrix(actual.astype(np.float64).tolist())
    return float(mp.mnorm(got - wanted, "f") / mp.mnorm(wanted, "f"))


CALLS: dict[str, Callable[..., Any]] = {
    "det": lambda x, b: L.det(x),
    "inv": lambda x, b: L.inv(x),
    "solve": lambda x, b: L.solve(x, b[..., None])[..., 0],
    "cholesky": lambda x, b: L.cholesky(x),
    "eigvalsh": lambda x, b: L.eigvalsh(x),
    "svdvals": lambda x, b: L.svdvals(x),
    "matrix_exp": lambda x, b: L.matrix_exp(x),
}
OF_EPS = ("matrix_exp", "eigvalsh", "svdvals")


def main() -> None:
    mp.mp.dps = 50
    rng = np.random.default_rng(0)
    print("| function | rows | float32, LAPACK | float32, generated | float64, LAPACK | float64, generated |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, call in CALLS.items():
        for size in (2, 3, 4, 12):
            count = COUNT if size < 10 else 10
            cells = []
            for dtype in ("float32", "float64"):
                x = rng.normal(size=(count, size, size))
                if name in ("cholesky", "eigvalsh"):
                    x = x @ x.swapaxes(-1, -2) + 0.1 * np.eye(size)
                x = x.astype(dtype)
                b = rng.normal(size=(count, size)).astype(dtype)
                wanted = [exact(name, *pair) for pair in zip(x, b, strict=True)]
                unit = np.finfo(dtype).eps * (1 if name in OF_EPS else np.linalg.cond(x.astype("float64")))
                results = [call(jg.asarray(x), jg.asarray(b)).numpy()]
                graph = jg.trace(call).lower(jg.asarray(x), jg.asarray(b)).graph
                results.append(compiler.compile(graph, Target.host().without_python()).run([x, b])[0])
                for actual in results:
                    errors = np.array([error(y, z) for y, z in zip(actual, wanted, strict=True)])
                    cells.append(f"{np.max(errors / unit):.2f}")
            print(f"| {name} | {size} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
