"""The largest and smallest elements of long rows, which are found without a sort of the whole row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg

SIZE = 17001
"""Long enough for blocks, and no multiple of theirs."""


def rows(kind: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(2, SIZE))
    if kind == "ties":
        return np.floor(drawn)
    if kind == "constant":
        return np.ones_like(drawn)
    if kind == "rising":
        return np.sort(drawn, axis=-1)
    if kind == "NaN":
        drawn[:, ::2] = np.nan
        drawn[0, :4000] = np.nan
        drawn[1, 5000:] = np.inf
        drawn[1, :100] = -np.inf
    if kind == "all NaN but three":
        drawn[:] = np.nan
        drawn[:, [5, 4000, 16000]] = np.inf, 0.0, np.inf
    if kind == "zeros":
        drawn = np.where(drawn > 0, 0.0, -0.0)
    return drawn


def expected(x: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """The places by a stable sort in which NaN is the greatest."""
    keys = np.where(np.isnan(x), np.inf, x), np.isnan(x)
    if largest:
        return np.stack([np.lexsort((-keys[0][i], ~keys[1][i]))[:k] for i in range(len(x))])
    return np.stack([np.lexsort((keys[0][i], keys[1][i]))[:k] for i in range(len(x))])


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["drawn", "ties", "constant", "rising", "NaN", "all NaN but three", "zeros"])
def test_elements_are_those_of_a_stable_sort(kind: str, largest: bool) -> None:
    x = rows(kind)
    for k in (1, 7, 60):
        wanted = expected(x, k, largest)
        for actual in (
            jg.topk(jg.asarray(x), k, largest=largest),
            jg.trace(jg.topk)(jg.asarray(x), k, largest=largest),
        ):
            np.testing.assert_array_equal(actual[1].numpy(), wanted)
            np.testing.assert_array_equal(actual[0].numpy(), np.take_along_axis(x, wanted, -1))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "float16", "bfloat16", "float32", "bool"])
@pytest.mark.parametrize("largest", [True, False])
def test_dtypes(dtype: str, largest: bool) -> None:
    x = jg.asarray(np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, (SIZE, 2))).astype(dtype)
    values, positions = jg.topk(x, 5, axis=0, largest=largest)
    wide = x.astype("float64").numpy().T
    np.testing.assert_array_equal(positions.numpy().T, expected(wide, 5, largest))
    assert values.dtype == x.dtype and tuple(values.shape) == (5, 2)


def test_gradients_go_to_the_elements() -> None:
    x: Any = jg.asarray(rows("drawn"), requires_grad=True)
    weights = np.arange(1.0, 4.0)
    (jg.topk(x, 3)[0] * jg.asarray(weights)).sum().backward()
    wanted = np.zeros((2, SIZE))
    np.put_along_axis(wanted, expected(rows("drawn"), 3, True), np.broadcast_to(weights, (2, 3)), -1)
    np.testing.assert_array_equal(x.grad.numpy(), wanted)


def test_rows_of_a_batch() -> None:
    x = rows("ties")
    values, positions = jg.vmap(lambda row: jg.topk(row, 4))(jg.asarray(x))
    np.testing.assert_array_equal(positions.numpy(), expected(x, 4, True))
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected(x, 4, True), -1))
