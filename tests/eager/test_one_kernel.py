"""Functions that run as one kernel for large operands: bits of their ops one by one and of traces, and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.tensor import one_kernel

RNG = np.random.default_rng(8)
LONG = 40_003  # not a multiple of a vector


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    x = RNG.normal(size=shape).astype(dtype)
    if len(shape) == 1:
        x[::97], x[5::1001] = np.nan, np.inf
    return x


EDGES = np.linspace(-2, 2, 31).astype(np.float32)
CALLS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "isin": (lambda x, y: jg.isin(x, y), [RNG.integers(0, 300, LONG), RNG.integers(0, 300, 50)]),
    "isin of floats": (lambda x, y: jg.isin(x, y, invert=True), [floats(LONG), floats(100)]),
    "isin of rows": (
        lambda x, y: jg.isin(x, y),
        [RNG.integers(0, 9, (200, 211)).astype(np.int8), np.arange(40, dtype=np.int8)],
    ),
    "histogram": (lambda x: jg.histogram(x, 17, range=(-1, 1))[0], [floats(LONG)]),
    "histogram of edges": (lambda x, e: jg.histogram(x, e)[0], [floats(LONG), EDGES]),
    "weights": (lambda x, w: jg.histogram(x, 9, range=(-3, 3), weight=w)[0], [floats(LONG), floats(LONG)]),
    "searchsorted": (lambda row, x: jg.searchsorted(row, x), [np.sort(floats(1000)), floats(LONG)]),
    "after equal ones": (
        lambda row, x: jg.searchsorted(row, x, side="right"),
        [np.arange(99) // 4, RNG.integers(0, 30, LONG)],
    ),
    "bucketize": (lambda x, row: jg.bucketize(x, row), [floats(200, 301), EDGES]),
    "cdist": (lambda x, y: jg.cdist(x, y), [floats(65, 33), floats(43, 33)]),
    "cdist of 1": (lambda x, y: jg.cdist(x, y, p=1.0), [floats(3, 30, 20), floats(3, 41, 20)]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_kernel_has_the_bits_of_ops_one_by_one_and_of_a_trace(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, arrays = CALLS[name]
    tensors = [jg.asarray(x) for x in arrays]
    at_once = function(*tensors).numpy()
    traced = jg.trace(lambda *xs: function(*xs))(*tensors).numpy()
    monkeypatch.setattr(one_kernel, "_is_here", lambda values: False)
    by_ops = function(*tensors).numpy()
    assert at_once.dtype == by_ops.dtype
    assert at_once.tobytes() == by_ops.tobytes() == traced.tobytes()


def test_numpy_agrees() -> None:
    x, some = RNG.integers(-50, 50, LONG), RNG.integers(-50, 50, 20)
    np.testing.assert_array_equal(jg.isin(jg.asarray(x), jg.asarray(some)).numpy(), np.isin(x, some))
    y = RNG.normal(size=LONG)
    counts, edges = (each.numpy() for each in jg.histogram(jg.asarray(y), 33))
    np.testing.assert_array_equal(counts, np.histogram(y, edges)[0])
    row = np.sort(RNG.normal(size=777))
    row[-3:] = np.nan
    y[::50] = np.nan
    for side in ("left", "right"):
        got = jg.searchsorted(jg.asarray(row), jg.asarray(y), side=side).numpy()
        np.testing.assert_array_equal(got, np.searchsorted(row, y, side=side))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 31, 32, 33, 1000])
def test_a_search_ends_in_the_place_of_each_number(size: int) -> None:
    row = np.arange(size) * 2
    queries = np.arange(-1, 2 * size + 1)
    for side in ("left", "right"):
        got = jg.trace(lambda r, q, side=side: jg.searchsorted(r, q, side=side))(jg.asarray(row), jg.asarray(queries))
        np.testing.assert_array_equal(got.numpy(), np.searchsorted(row, queries, side=side))


def test_one_kernel_is_differentiated_as_its_ops_are(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = jg.asarray(floats(70, 30)), jg.asarray(floats(40, 30))
    loss = lambda a, b: (jg.cdist(a, b) ** 3).sum()
    at_once = [jg.grad(loss, argnums)(a, b).numpy() for argnums in (0, 1)]
    monkeypatch.setattr(one_kernel, "_is_here", lambda values: False)
    for argnums, got in enumerate(at_once):
        np.testing.assert_allclose(got, jg.grad(loss, argnums)(a, b).numpy(), rtol=1e-5)
