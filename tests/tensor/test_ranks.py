"""Medians and quantiles by selection: the element and the place that a stable sort gives, for every kind of row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import ops
from jitgraph.eager.tape import EagerValue

RNG = np.random.default_rng(31)
DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int32", "uint32", "int64", "uint64"]


def rows(dtype: str, shape: tuple[int, ...], kind: str) -> Any:
    if kind == "near":
        x = RNG.integers(0, 9, shape)
    else:
        x = RNG.integers(0, 2**8, shape, np.uint64) << RNG.integers(0, 56, shape, np.uint64)
    x = x.astype(dtype)
    if dtype[0] != "u":
        x = np.where(RNG.random(shape) < 0.5, -x, x).astype(dtype)
    if dtype[0] == "f":
        for value in (np.nan, np.inf, -np.inf, -0.0, 0.0):
            x[RNG.random(shape) < 0.1] = value
    return x


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("dtype", DTYPES)
def test_places_of_ranks_are_those_of_a_sort(dtype: str) -> None:
    for shape in ((1,), (2, 37), (3, 1000), (20_000,)):
        for kind in ("near", "far"):
            x = rows(dtype, shape, kind)
            ranks = np.array([0, shape[-1] // 2, shape[-1] - 1])
            _, order = ops.sort.evaluate(x, axis=x.ndim - 1, descending=False)
            traced = jg.trace(lambda x, r: jg.tensor.wrap(ops.ranked_positions(x.value, r.value)))
            for got in (
                traced(jg.asarray(x), jg.asarray(ranks)).numpy(),
                ops.ranked_positions(EagerValue(x), EagerValue(ranks)).array,
            ):
                np.testing.assert_array_equal(got, order[..., ranks], err_msg=f"{shape} {kind}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quantiles_are_numpys(dtype: str) -> None:
    x = RNG.normal(size=(7, 501)).astype(dtype)
    for q in (0.0, 0.37, 1.0, [0.25, 0.5, 0.75], np.linspace(0, 1, 9)):
        for method in ("linear", "lower", "higher", "midpoint", "nearest"):
            got = jg.quantile(jg.asarray(x), jg.asarray(q, dtype=jg.float64), axis=1, interpolation=method).numpy()
            np.testing.assert_allclose(got, np.quantile(x, q, axis=1, method=method), rtol=1e-5)
    x[2, 7] = np.nan
    assert np.isnan(jg.quantile(jg.asarray(x), 0.5, axis=1).numpy()).nonzero()[0].tolist() == [2]
    value, index = jg.median(jg.asarray(x), axis=1)
    assert index.numpy()[2] == 7 and np.isnan(value.numpy()[2])


def test_gradients_go_to_the_elements_between_which_a_quantile_lies() -> None:
    x = jg.asarray(RNG.normal(size=(3, 100)))
    for gradient in (
        jg.grad(lambda x: jg.quantile(x, 0.3, axis=1).sum()),
        jg.grad(lambda x: jg.median(x, axis=1)[0].sum()),
    ):
        found = gradient(x).numpy()
        assert found.tobytes() == jg.trace(gradient)(x).numpy().tobytes()
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert (np.count_nonzero(found, axis=1) <= 2).all()
