"""Kernels of matrix factorisations as PTX: the executor's bits, accesses that barriers order, and no spills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.cuda.assembled import assemble, needs_ptxas
from tests.codegen.cuda.launched import code_of, run, schedule_of

L = jg.linalg
CALLS: dict[str, Callable[[Any], Any]] = {
    "cholesky": L.cholesky,
    "lu": L.lu_factor,
    "solve": lambda x: L.solve(x, x[..., :3]),
    "determinant": L.slogdet,
    "triangular": lambda x: L.solve_triangular(x, x[..., :3], upper=True),
    "qr": L.qr,
    "eigh": L.eigh,
    "svd": lambda x: L.svd(x[..., :-2], full_matrices=False),
}


@pytest.mark.parametrize("name", CALLS)
def test_matrices_have_the_executors_bits_and_no_races(name: str) -> None:
    x = np.random.default_rng(5).normal(size=(2, 9, 9)).astype(np.float32)
    x = x @ x.swapaxes(-1, -2) + np.eye(9, dtype=np.float32)
    call = CALLS[name]
    schedule = schedule_of(jg.trace(lambda x: call(x)).lower(jg.asarray(x)).graph)
    expected = execute_schedule(schedule, [x])
    result = run(schedule, code_of(schedule), [x], seed=3, races=True)
    assert len(expected) == len(result) and all(map(np.array_equal, expected, result))


@needs_ptxas
def test_the_assembler_takes_them_without_spills() -> None:
    x = jg.asarray(np.eye(9, dtype=np.float32)[None])
    texts = [code_of(schedule_of(jg.trace(call).lower(x).graph)).texts["ptx"] for call in CALLS.values()]
    assert not [function for function in assemble(texts, "sm_90") if function.spilled]
