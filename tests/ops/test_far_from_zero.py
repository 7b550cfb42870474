"""Deviations from a mean that is large beside them: of constants all are 0, and variances have no error of the mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.graphs import needs_native

F = jg.nn.functional
SHAPE = (3, 37, 5, 2)
LEVELS = (0.1, 1000.1, 12345678.7, -3.3e9)


def _weights(x: Any) -> tuple[Any, Any]:
    size = x.shape[1]
    return jg.ones(size, dtype=x.dtype), jg.zeros(size, dtype=x.dtype)


STANDARDISED: dict[str, Callable[[Any], Any]] = {
    "layer_norm": lambda x: F.layer_norm(x, SHAPE[1:]),
    "layer_norm of one axis": lambda x: F.layer_norm(x.reshape(-1, 37), (37,)),
    "group_norm": lambda x: F.group_norm(x, 1),
    "instance_norm": lambda x: F.instance_norm(x),
    "batch_norm": lambda x: F.batch_norm(x, None, None, *_weights(x), True),
}
SPREADS: dict[str, Callable[[Any], Any]] = {
    "var": jg.var,
    "var of columns": lambda x: jg.var(x, axis=0, correction=1),
    "std": lambda x: jg.std(x, axis=(1, 3)),
    "var_mean": lambda x: jg.var_mean(x, axis=1)[0],
    "std_mean": lambda x: jg.std_mean(x, axis=2)[0],
    "nanvar": lambda x: jg.nanvar(x, axis=1),
    "nanstd": lambda x: jg.nanstd(x, axis=(0, 1)),
    "cov": lambda x: jg.cov(x.reshape(37, -1)),
    "cov with weights": lambda x: jg.cov(x.reshape(37, -1), fweights=jg.arange(30)),
}
EXACT: dict[str, Callable[[Any], Any]] = {
    "var": np.var,
    "var of columns": lambda x: np.var(x, axis=0, ddof=1),
    "std": lambda x: np.std(x, axis=(1, 3)),
    "var_mean": lambda x: np.var(x, axis=1),
    "std_mean": lambda x: np.std(x, axis=2),
    "nanvar": lambda x: np.var(x, axis=1),
    "nanstd": lambda x: np.std(x, axis=(0, 1)),
    "cov": lambda x: np.cov(x.reshape(37, -1)),
    "cov with weights": lambda x: np.cov(x.reshape(37, -1), fweights=np.arange(30)),
}
TRACED = [False, pytest.param(True, marks=needs_native)]


def called(function: Callable[[Any], Any], x: Any, traced: bool) -> np.ndarray:
    result: np.ndarray = (jg.trace(function) if traced else function)(jg.asarray(x)).numpy()
    return result


@pytest.mark.parametrize("traced", TRACED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*STANDARDISED, *SPREADS])
def test_of_constants_all_deviations_are_zero(name: str, dtype: Any, traced: bool) -> None:
    function = STANDARDISED.get(name) or SPREADS[name]
    for level in LEVELS[:: 1 if dtype is np.float32 else 3]:
        actual = called(function, np.full(SHAPE, level, dtype), traced)
        assert not actual.any(), (level, actual.ravel()[:3])


@pytest.mark.parametrize("name", STANDARDISED)
def test_of_constants_norms_have_finite_gradients(name: str) -> None:
    def loss(x: Any) -> Any:
        return (STANDARDISED[name](x) * jg.arange(x.size, dtype=x.dtype).reshape(-1)[0]).sum()

    for level in LEVELS:
        assert not jg.grad(loss)(jg.asarray(np.full(SHAPE, level, np.float32))).numpy().any()


@pytest.mark.parametrize("traced", TRACED)
@pytest.mark.parametrize("name", SPREADS)
def test_spreads_beside_a_large_mean(name: str, traced: bool) -> None:
    for level in (0.0, 1e4, 1e6):
        x = (np.random.default_rng(0).standard_normal(SHAPE) + level).astype(np.float32)
        expected = EXACT[name](x.astype(np.float64))
        actual = called(SPREADS[name], x, traced)
        assert np.abs(actual - expected).max() <= 1e-6 * np.abs(expected).max(), level


@pytest.mark.parametrize("traced", TRACED)
@pytest.mark.parametrize("name", STANDARDISED)
def test_norms_beside_a_large_mean(name: str, traced: bool) -> None:
    for level in (1e4, 1e6):
        x = (np.random.default_rng(1).standard_normal(SHAPE) + level).astype(np.float32)
        expected = called(STANDARDISED[name], x.astype(np.float64) - level, False)
        assert np.abs(called(STANDARDISED[name], x, traced) - expected).max() <= 2e-6, level


def test_gradients_beside_a_large_mean() -> None:
    x = (np.random.default_rng(2).standard_normal((4, 37)) + 1e6).astype(np.float32)
    exact = x.astype(np.float64)
    expected = 2 * (exact - exact.mean(1, keepdims=True)) / 36
    actual = jg.grad(lambda x: jg.var(x, axis=1, correction=1).sum())(jg.asarray(x)).numpy()
    np.testing.assert_allclose(actual, expected, atol=1e-7)
    by_size = jg.grad(lambda x: (F.layer_norm(x, (37,)) ** 3).sum())
    np.testing.assert_allclose(
        by_size(jg.asarray(x)).numpy(), by_size(jg.asarray(exact - 1e6)).numpy(), atol=1e-5, rtol=1e-5
    )


def test_one_far_element_that_comes_first() -> None:
    """The others lose no more than some ulp of the deviation, times the root of their number."""
    x = np.random.default_rng(3).standard_normal((2, 1000)).astype(np.float32)
    x[:, 0] = 1e7
    exact = x.astype(np.float64)
    expected = (exact - exact.mean(1, keepdims=True)) / np.sqrt(exact.var(1, keepdims=True) + 1e-5)
    actual = F.layer_norm(jg.asarray(x), (1000,)).numpy()
    assert np.abs(actual - expected).max() <= 4 * 1000**0.5 * np.finfo(np.float32).eps


OVERFLOWING: dict[str, Callable[[Any], Any]] = STANDARDISED | {
    "rms_norm": lambda x: F.rms_norm(x, SHAPE[1:]),
    "normalize": lambda x: F.normalize(x),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.flip(0)),
    "cosine_similarity of orthogonal": lambda x: F.cosine_similarity(
        x * jg.asarray([1, 0]), x * jg.asarray([0, 1]), -1
    ),
}


@pytest.mark.parametrize("traced", TRACED)
@pytest.mark.parametrize("name", OVERFLOWING)
def test_squares_that_overflow_are_no_zeros(name: str, traced: bool) -> None:
    """Of numbers of which the squares have no float32; those of the next smaller sizes are as they are in float64."""
    function = OVERFLOWING[name]
    x = np.random.default_rng(0).choice([-1.5, 1.25, 2.0], SHAPE).astype(np.float32)
    with np.errstate(over="ignore"):
        assert np.isnan(called(function, x * np.float32(1e20), traced)).all()
    wanted = called(function, x.astype(np.float64) * 1e16, False)
    np.testing.assert_allclose(called(function, x * np.float32(1e16), traced), wanted, rtol=1e-5, atol=1e-6)


def test_gradients_where_squares_overflow_are_no_zeros() -> None:
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32) * np.float32(1e20)
    for name in ("layer_norm", "rms_norm", "normalize"):
        assert np.isnan(jg.grad(lambda x, f=OVERFLOWING[name]: (f(x) * x).sum())(jg.asarray(x)).numpy()).all(), name
