"""Functions made of several ops, some of which have no operands: applied at once, all of it is computed on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.cuda.places import Machine, machine

nn = jg.nn.functional
X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
CHOSEN = np.random.default_rng(1).integers(0, 3, (3, 4))


def put(x: jg.Tensor, i: jg.Tensor) -> jg.Tensor:
    y = jg.asarray(x)
    y[i[0], 1] = 5
    return y


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "tril": lambda x, i: jg.tril(x) + jg.triu(i, 1),
    "put": put,
    "take_along_axis": lambda x, i: jg.take_along_axis(x, i, axis=0),
    "cummax": lambda x, i: jg.cummax(x, 1)[1],
    "one_hot": lambda x, i: nn.one_hot(i, 3),
    "dropout": lambda x, i: nn.dropout(x, 0.4),
    "attention": lambda x, i: nn.scaled_dot_product_attention(x, x * 2, x + 1, is_causal=True),
    "normalize": lambda x, i: nn.normalize(x),
    "layer_norm": lambda x, i: nn.layer_norm(x, (4,)),
    "rms_norm": lambda x, i: nn.rms_norm(x, (4,)),
    "cross_entropy": lambda x, i: nn.cross_entropy(x, i[:, 0], weight=x[0] * x[0], ignore_index=1),
    "where": lambda x, i: jg.where(x > 0, 1.0, -1.0) * jg.where(x > 0, x, 0),
    "logical_and": lambda x, i: jg.logical_and(x, 1),
    "pow": lambda x, i: i**3,
    "copysign": lambda x, i: jg.copysign(x, -1) + jg.nextafter(x, 2),
    "signbit": lambda x, i: jg.signbit(x),
    "isfinite": lambda x, i: jg.isfinite(i),
    "compare": lambda x, i: i.astype(jg.int8) < 1000,
    "broadcast_arrays": lambda x, i: jg.broadcast_arrays(x, 1)[1],
    "nonzero": lambda x, i: jg.nonzero(i)[1],
    "unique_all": lambda x, i: jg.concat([part.reshape(-1) for part in jg.unique_all(i)]),
    "searchsorted": lambda x, i: jg.searchsorted(jg.sort(x[0]), x),
    "isin": lambda x, i: jg.isin(x, jg.tile(x[0], 9)),
    "repeat": lambda x, i: jg.repeat(x, i[0], axis=1),
    "diff": lambda x, i: jg.diff(x, prepend=0.0),
    "cumulative_sum": lambda x, i: jg.cumulative_sum(x, axis=1, include_initial=True),
    "cumulative ops of int16": lambda x, i: jg.concat(
        [op(jg.tile(i.astype(jg.int16) * 9999, (1, 1024)), axis=1) for op in (jg.cumsum, jg.cumprod)], axis=0
    ),
    "meshgrid": lambda x, i: jg.meshgrid(x[0], x[1])[0],
    "bools as indices": lambda x, i: x[True, ..., 0],
    "NumPy's functions": lambda x, i: np.concatenate([np.sin(x), np.maximum(x, 0)]) * np.sum(x),
}


@pytest.fixture(scope="module")
def here() -> Iterator[Machine]:
    with machine(hides=True, must_end_clean=False) as actual:
        yield actual


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_give_what_the_cpu_gives(here: Machine, name: str) -> None:
    results = []
    for device in ("cpu", "cuda:0"):
        jg.random.seed(0)
        results.append(FUNCTIONS[name](jg.asarray(X, device=device), jg.asarray(CHOSEN, device=device)))
        assert results[-1].device == device
    np.testing.assert_array_equal(results[0].numpy(), results[1].cpu().numpy())
