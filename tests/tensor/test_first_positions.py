"""topk of few elements, which looks at few blocks of each row: the order of sort, with ties, NaN and both zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import ops

RNG = np.random.default_rng(21)
DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int32", "uint32", "int64", "uint64"]


def rows(dtype: str, shape: tuple[int, ...], kind: str) -> Any:
    """Many ties, NaN, infinities and both zeros, or one number alone."""
    x = RNG.integers(0, 40, shape) if dtype[0] == "u" else RNG.integers(-20, 20, shape)
    if kind == "equal":
        x[...] = 7
    x = x.astype(dtype)
    if dtype[0] == "f" and kind == "mixed":
        for value in (np.nan, np.inf, -np.inf, -0.0, 0.0):
            x[RNG.random(shape) < 0.1] = value
    if dtype[0] == "f" and kind == "equal":
        x[...] = np.nan
    if dtype[0] == "f" and kind == "zeros":
        x[...] = np.where(RNG.random(shape) < 0.5, -0.0, 0.0)
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [True, False])
def test_few_elements_are_those_of_a_sort(dtype: str, largest: bool) -> None:
    for shape, k in (((100,), 1), ((3, 1000), 5), ((2, 3, 333), 8), ((600, 64), 3)):
        for kind in ("mixed", "equal", "zeros"):
            x = rows(dtype, shape, kind)
            _, order = ops.sort.evaluate(x, axis=x.ndim - 1, descending=largest)
            expected = order[..., :k]
            function = lambda x, k=k: jg.topk(x, k, -1, largest)
            for call in (function, jg.trace(function)):
                values, indices = (each.numpy() for each in call(jg.asarray(x)))
                np.testing.assert_array_equal(indices, expected, err_msg=f"{shape} {k} {kind}")
                assert values.tobytes() == np.take_along_axis(x, expected, -1).tobytes()


def test_gradients_of_few_elements() -> None:
    x = jg.asarray(RNG.normal(size=(4, 300)))
    gradient = jg.grad(lambda x: (jg.topk(x, 3)[0] ** 2).sum())(x).numpy()
    expected = np.zeros((4, 300))
    places = np.argsort(-x.numpy(), axis=1)[:, :3]
    np.put_along_axis(expected, places, 2 * np.take_along_axis(x.numpy(), places, 1), 1)
    np.testing.assert_array_equal(gradient, expected)
