"""Programs that sum, data on which a sum that drifts is seen, and the ways in which a program runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import jitgraph as jg
from jitgraph.nn import functional as F

Array = NDArray[Any]


def data(kind: str, shape: tuple[int, ...]) -> Array:
    """float32 numbers: all alike, of two kinds by turns, or sorted, along the flattened array."""
    n = int(np.prod(shape))
    if kind == "constant":
        x = np.full(n, 0.1)
    elif kind == "alternating":
        x = np.where(np.arange(n) % 2, 0.4, 0.1)
    else:
        x = np.sort(np.random.default_rng(n).random(n))
    return x.astype(np.float32).reshape(shape)


KINDS = ("constant", "alternating", "sorted")


def _bias_gradient(x: Any) -> Any:
    bias = jg.zeros((x.shape[-1],))
    return jg.grad(lambda b: ((x + b) * 0.5).sum())(bias)


def _weight_of_a_norm(x: Any) -> Any:
    """The gradients of the scale and shift of a layer norm, whose normal part is the operand itself."""
    width = (x.shape[-1],)
    return jg.stack(jg.grad(lambda w, b: (x * w + b).sum(), argnums=(0, 1))(jg.ones(width), jg.zeros(width)))


def _running(x: Any) -> Any:
    """The batch statistics as batch norm computes them."""
    mean = x.mean(axis=0)
    return jg.stack([mean, ((x - mean) ** 2).mean(axis=0)])


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "sum of all": lambda x: x.sum(),
    "sum of rows": lambda x: x.sum(axis=-1),
    "sum of columns": lambda x: x.sum(axis=0),
    "mean": lambda x: x.mean(),
    "variance of columns": lambda x: x.var(axis=0),
    "deviation of all": lambda x: x.std(),
    "product of rows": lambda x: (x * 0.5 + 0.9).prod(axis=-1),
    "squared error": lambda x: F.mse_loss(x * 1.5, x),
    "absolute error": lambda x: F.l1_loss(x * 1.5, x),
    "gradient of a bias": _bias_gradient,
    "gradients of a norm": _weight_of_a_norm,
    "batch statistics": _running,
}

SHAPES: tuple[tuple[int, ...], ...] = ((1000, 3), (100_003, 1), (40, 2500), (3, 40_001), (257, 67), (33_000, 70))


def runs(x: Array, program: Callable[[Any], Any]) -> Iterator[tuple[str, Array]]:
    """The result eager, and compiled with sizes that are known, named, and named after other sizes were seen."""
    yield "eager", np.asarray(program(jg.asarray(x)))
    yield "known", np.asarray(jg.trace(program)(x))
    named = jg.trace(dynamic_shapes={"x": {0: "rows"}})(lambda x: program(x))
    yield "named", np.asarray(named(x))
    if x.ndim > 1:
        both = jg.trace(dynamic_shapes={"x": {0: "rows", 1: "columns"}})(lambda x: program(x))
        yield "all named", np.asarray(both(x))
    promoted = jg.trace(program)
    for rows in (5, 7, 9):
        promoted(x[:rows])
    yield "promoted", np.asarray(promoted(x))
