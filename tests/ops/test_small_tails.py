"""Functions whose value is small where a plain formula would round it away, eagerly and compiled, with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.nn import functional

FAR = np.array([-80.0, -30.0, -20.0, -17.0, -9.0, -1.0, -1e-3, -1e-9, 0.0, 1e-9, 1e-3, 1.0, 9.0, 17.0, 30.0, 80.0])


def softplus(x: Any) -> Any:
    return np.logaddexp(x, np.zeros_like(x))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


# name: the function, its value in extended precision, and its derivative
CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "logaddexp with 0": (lambda x: jg.logaddexp(0.0, x), softplus, sigmoid),
    "logaddexp with itself": (lambda x: jg.logaddexp(x, x), lambda x: x + np.log(np.longdouble(2)), np.ones_like),
    "softplus": (lambda x: functional.softplus(x), softplus, sigmoid),
    "logsigmoid": (functional.logsigmoid, lambda x: -softplus(-x), lambda x: sigmoid(-x)),
    "sigmoid": (jg.sigmoid, sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
    "expm1": (jg.expm1, np.expm1, np.exp),
    "log1p of exp": (lambda x: jg.log1p(jg.exp(x)), softplus, sigmoid),
    "elu": (
        lambda x: functional.elu(x),
        lambda x: np.where(x > 0, x, np.expm1(x)),
        lambda x: np.where(x > 0, 1.0, np.exp(x)),
    ),
    "tanh": (jg.tanh, np.tanh, lambda x: np.cosh(x) ** -2.0),
    "sinh": (jg.sinh, np.sinh, np.cosh),
    "silu": (functional.silu, lambda x: x * sigmoid(x), lambda x: sigmoid(x) * (1 + x * sigmoid(-x))),
}
# gradients that are computed from a value near 1 or -1, and how many roundings of 1 they are off by
NEAR_ONE = {"sigmoid": 4, "tanh": 4, "log1p of exp": 4, "elu": 4, "expm1": 4, "silu": 32}


@pytest.mark.parametrize("dtype", [jg.float32, jg.float64])
@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient(name: str, dtype: Any) -> None:
    function, value, slope = CASES[name]
    points = FAR.astype(np.float32 if dtype == jg.float32 else np.float64)
    wide = points.astype(np.longdouble)
    x, eps = jg.asarray(points), float(np.finfo(points.dtype).eps)
    for run in (function, jg.trace(function)):
        np.testing.assert_allclose(run(x).numpy(), value(wide), rtol=4 * eps, atol=0)
    derivative = jg.grad(lambda x: function(x).sum())
    for run in (derivative, jg.trace(derivative)):
        np.testing.assert_allclose(run(x).numpy(), slope(wide), rtol=8 * eps, atol=NEAR_ONE.get(name, 0) * eps)


def test_logaddexp_at_infinities() -> None:
    edge = np.array([-np.inf, -1.0, 0.0, 2.0, np.inf, np.nan], np.float32)
    x, y = np.meshgrid(edge, edge)
    with np.errstate(invalid="ignore"):
        expected = np.logaddexp(x, y)
    for run in (jg.logaddexp, jg.trace(jg.logaddexp)):
        np.testing.assert_allclose(run(jg.asarray(x), jg.asarray(y)).numpy(), expected, rtol=3e-7)


def test_logaddexp_is_curved_where_both_are_equal() -> None:
    x = jg.asarray(np.array([0.5, 0.5]))
    f = lambda x: jg.logaddexp(x[0], x[1])
    slope = jg.grad(lambda x: jg.grad(f)(x)[0])
    for run in (slope, jg.trace(slope)):
        np.testing.assert_allclose(run(x).numpy(), [0.25, -0.25], atol=1e-15)
