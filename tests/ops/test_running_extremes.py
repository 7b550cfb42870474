"""cummax and cummin name and give the latest of equal elements, zeros of both signs among them, however they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes


def _latest(row: Any, *, greatest: bool) -> tuple[list[Any], list[int]]:
    """The definition, element by element; a NaN stays until the next one."""
    actual, positions = [], []
    best, position = row[0], 0
    for number, x in enumerate(row):
        if x != x or (best == best and (x >= best if greatest else x <= best)):
            best, position = x, number
        actual.append(best)
        positions.append(position)
    return actual, positions


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.float32, dtypes.float64], ids=str)
@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_the_latest_of_equal_ones(name: str, interpreted: bool, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if interpreted:
        monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    rng = np.random.default_rng(1)
    for length, most in ((1, 1.0), (7, 1.0), (40, np.nan), (1500, 1.0), (1500, np.nan)):
        rows = rng.choice(np.array([-0.0, 0.0, -0.0, 0.0, -1.0, most]), (5, length)).astype(dtype)
        wanted = [_latest(row, greatest=name == "cummax") for row in rows]
        for function in (lambda x: getattr(jg, name)(x, 1), jg.trace(lambda x: getattr(jg, name)(x, 1))):
            values, positions = function(jg.asarray(rows))
            expected = np.array([row for row, _ in wanted], dtype)
            same = (values.numpy().view(f"u{expected.itemsize}") == expected.view(f"u{expected.itemsize}")) | (
                np.isnan(values.numpy()) & np.isnan(expected)
            )
            assert same.all()
            np.testing.assert_array_equal(positions.numpy(), [at for _, at in wanted])
