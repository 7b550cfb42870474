"""Long sorts outside of traces, which compiled code does, with the bits of NumPy's evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes, ops
from jitgraph.eager.rules import is_long

ROWS, SIZE = 3, 12001


def drawn(dtype: Any, kind: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    if kind == "constant":
        return np.ones((ROWS, SIZE), dtype)
    x = rng.normal(size=(ROWS, SIZE)) * 100
    if dtypes.is_float(dtype):
        x[0, ::7], x[1, ::11], x[1, ::13] = np.nan, 0.0, -0.0
        x[2, ::5], x[2, ::9] = np.inf, -np.inf
    if kind == "ties":
        x = np.floor(x / 30)
    with np.errstate(all="ignore"):
        return x.astype(dtype) if dtype != dtypes.bool_ else x > 0


@pytest.mark.parametrize("kind", ["drawn", "ties", "constant"])
@pytest.mark.parametrize("dtype", [d for d in dtypes.DTYPES if not dtypes.is_complex(d)], ids=lambda d: d.name)
def test_bits_are_those_of_the_evaluation(dtype: Any, kind: str) -> None:
    x = drawn(dtype, kind)
    assert is_long(ops.sort, (x.shape,)) and ops.sort.evaluate is not None
    for inputs, axis in [(x, 1), (np.asfortranarray(x.T), 0), (x[:, ::-1], 1)]:
        for descending in (False, True):
            values, positions = ops.sort(jg.asarray(inputs).value, axis=axis, descending=descending)
            wanted = ops.sort.evaluate(inputs, axis=axis, descending=descending)
            assert np.asarray(values.array).tobytes() == np.ascontiguousarray(wanted[0]).tobytes()
            np.testing.assert_array_equal(positions.array, wanted[1])


def test_gradients_go_back_to_the_places() -> None:
    x: Any = jg.asarray(drawn(np.dtype("float32"), "ties")[:1], requires_grad=True)
    weights = np.arange(SIZE, dtype=np.float32)[None]
    (jg.sort(jg.concat([x, x, x], axis=1)) * jg.asarray(np.concatenate([weights] * 3, axis=1))).sum().backward()
    tripled = np.concatenate([x.detach().numpy()] * 3, axis=1)
    order = np.argsort(tripled, axis=1, kind="stable")
    wanted = np.zeros_like(tripled)
    np.put_along_axis(wanted, order, np.concatenate([weights] * 3, axis=1), 1)
    np.testing.assert_array_equal(x.grad.numpy(), wanted.reshape(1, 3, SIZE).sum(axis=1))
