"""What is folded has the bits of what runs: math functions of constants are computed by the package's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg

NAMES = [
    "exp",
    "log",
    "sin",
    "cos",
    "tan",
    "tanh",
    "expm1",
    "sinh",
    "cosh",
    "asinh",
    "atan",
    "exp2",
    "log2",
    "log10",
    "log1p",
    "erf",
]
NUMBERS = [float(x) for x in np.random.default_rng(0).uniform(0.1, 3.0, 10)]


@pytest.mark.parametrize("dtype", [jg.float32, jg.float64, jg.float16])
def test_functions_of_constants_have_eager_bits(dtype: Any) -> None:
    functions = [getattr(jg, name) for name in NAMES] + [jg.special.lgamma, jg.special.digamma]

    def every(x: jg.Tensor) -> list[jg.Tensor]:
        row = jg.arange(1.0, 5.0, dtype=dtype)
        return [
            x * y for f in functions for y in (*[f(jg.full((), number, dtype=dtype)) for number in NUMBERS], f(row)[1])
        ]

    x = jg.ones((), dtype=dtype)
    eager = [y.astype(jg.float64).numpy() for y in every(x)]
    traced = [y.astype(jg.float64).numpy() for y in jg.trace(every)(x)]
    np.testing.assert_array_equal(traced, eager)
