"""Python's floats, alone and in lists, are rounded once: to the dtype that they meet, not to float32 before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

X = np.array([0.3, 0.7, 1.3, 0.1])
M = np.arange(6.0).reshape(2, 3) / 7
LIST = [0.1, 0.2, 0.3, 0.4]
T, TM = jg.asarray(X), jg.asarray(M)
ROW = np.array([0.0, 0.1, 0.3])
JROW = jg.asarray(ROW)

CASES: dict[str, tuple[Callable[[], Any], Any]] = {
    "multiply by a list": (lambda: jg.multiply(T, LIST), X * LIST),
    "where with a list": (lambda: jg.where(T > 0.5, T, LIST), np.where(X > 0.5, X, LIST)),
    "dot of a list": (lambda: jg.dot(T, LIST), np.dot(X, LIST)),
    "dot of a number": (lambda: jg.dot(T, 0.1), np.dot(X, 0.1)),
    "inner": (lambda: jg.inner(0.1, T), np.inner(0.1, X)),
    "vdot": (lambda: jg.vdot(T, LIST), np.vdot(X, LIST)),
    "kron": (lambda: jg.kron(T, 0.1), np.kron(X, 0.1)),
    "kron of a list": (lambda: jg.kron(T, LIST), np.kron(X, LIST)),
    "average": (lambda: jg.average(T, weights=LIST), np.average(X, weights=LIST)),
    "cov": (lambda: jg.cov(TM, aweights=LIST[:3]), np.cov(M, aweights=LIST[:3])),
    "gradient": (lambda: jg.gradient(T, 0.1), np.gradient(X, 0.1)),
    "gradient at places": (lambda: jg.gradient(T, LIST), np.gradient(X, LIST)),
    "searchsorted": (lambda: jg.searchsorted(JROW, 0.1), np.searchsorted(ROW, 0.1)),
    "searchsorted of a list": (lambda: jg.searchsorted(JROW, [0.1, 0.3]), np.searchsorted(ROW, [0.1, 0.3])),
    "bucketize": (lambda: jg.bucketize(0.1, JROW), np.searchsorted(ROW, 0.1)),
    "bucketize by a list": (lambda: jg.bucketize(T, [0.1, 0.3]), np.searchsorted([0.1, 0.3], X)),
    "histogram": (lambda: jg.histogram(T, [0.1, 0.3, 1.0])[0], np.histogram(X, [0.1, 0.3, 1.0])[0]),
    "interp": (lambda: jg.interp(0.1, JROW, JROW), np.interp(0.1, ROW, ROW)),
    "stack": (lambda: jg.stack([T[0], 0.1]), np.stack([X[0], 0.1])),
    "hstack": (lambda: jg.hstack([T, 0.1]), np.hstack([X, 0.1])),
    "vstack": (lambda: jg.vstack([T, LIST]), np.vstack([X, LIST])),
    "column_stack": (lambda: jg.column_stack([T, LIST]), np.column_stack([X, LIST])),
    "block_diag": (lambda: jg.block_diag(T[:1], 0.1), np.diag([X[0], 0.1])),
    "diff": (lambda: jg.diff(T, prepend=0.1), np.diff(X, prepend=0.1)),
    "clip of a number": (lambda: jg.clip(0.1, jg.asarray(np.zeros(2)), None), np.full(2, 0.1)),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_numpy_s_in_float64(name: str) -> None:
    function, due = CASES[name]
    for actual in (function(), jg.trace(function)()):
        assert actual.shape == due.shape
        np.testing.assert_allclose(actual.numpy(), due, rtol=1e-14, atol=1e-16)


def test_dtypes_of_lists_are_as_before() -> None:
    for dtype in (jg.float16, jg.float32, jg.float64, jg.int32):
        x = jg.ones((2,), dtype=dtype)
        assert (jg.multiply(x, [0.1, 0.2])).dtype == jg.result_type(dtype, jg.float32)
    assert jg.dot(jg.ones((2,), dtype=jg.float16), 0.5).dtype == jg.float16
