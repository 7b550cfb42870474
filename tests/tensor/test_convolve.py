"""Convolutions of vectors: NumPy's results by sliding sums and by transforms, exact integers, gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.tensor.functions import sampled

RNG = np.random.default_rng(12)
DTYPES = ["float16", "float32", "float64", "complex64", "int8", "uint32", "int64", "bool"]


def vectors(n: int, m: int, dtype: str) -> list[Any]:
    arrays = [RNG.normal(size=size) * 5 for size in (n, m)]
    return [(x + 1j * x[::-1] if dtype == "complex64" else x).astype(dtype) for x in arrays]


def both(a: Any, b: Any, mode: str) -> list[Any]:
    """Eagerly and traced."""
    tensors = jg.asarray(a), jg.asarray(b)
    return [f(*tensors).numpy() for f in (partial(jg.convolve, mode=mode), jg.trace(partial(jg.convolve, mode=mode)))]


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sliding_sums_are_numpys(dtype: str, mode: str) -> None:
    for n, m in ((1, 1), (5, 3), (3, 5), (97, 20), (2000, 3)):
        a, b = vectors(n, m, dtype)
        wide = np.float32 if dtype == "float16" else dtype
        expected = np.convolve(a.astype(wide), b.astype(wide), mode).astype(dtype)
        for got in both(a, b, mode):
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
            if expected.dtype.kind in "iub":
                np.testing.assert_array_equal(got, expected)
            else:
                scale = np.convolve(np.abs(a.astype(np.complex128)), np.abs(b.astype(np.complex128)), mode).real
                unit = np.finfo(dtype).eps * (1 if dtype == "float16" else m)
                assert (np.abs(got.astype(np.complex128) - expected) <= unit * scale).all(), (n, m)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_ones_go_through_transforms(dtype: str, mode: str) -> None:
    a, b = vectors(6000, 1500, dtype)
    assert sampled._is_long(6000, 1500) and not sampled._is_long(6000, 100)
    expected = np.convolve(a.astype(np.float64), b.astype(np.float64), mode)
    bound = 4 * np.finfo(dtype).eps * np.linalg.norm(a.astype(np.float64)) * np.linalg.norm(b.astype(np.float64))
    for got in both(a, b, mode):
        assert got.shape == expected.shape
        assert np.abs(got - expected).max() <= bound


def test_what_is_not_finite_stays_where_it_is() -> None:
    """Transforms would spread it over all elements."""
    a, b = vectors(6000, 1500, "float64")
    a[7], a[-2] = np.inf, np.nan
    expected = np.convolve(a, b)
    assert np.isfinite(expected).any()
    for got in both(a, b, "full"):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def test_long_integers_are_exact_and_wrap() -> None:
    a, b = (RNG.integers(-(2**62), 2**62, n) for n in (5000, 700))
    for got in both(a, b, "full"):
        np.testing.assert_array_equal(got, np.convolve(a, b))


@pytest.mark.parametrize(("n", "m"), [(60, 7), (6000, 1500)])
def test_gradients(n: int, m: int) -> None:
    a, b = (jg.asarray(x) for x in vectors(n, m, "float64"))
    loss = lambda a, b: (jg.convolve(a, b) ** 2).sum()
    residual = jg.convolve(a, b).numpy()
    expected = 2 * np.correlate(residual, b.numpy(), "valid"), 2 * np.correlate(residual, a.numpy(), "valid")
    for number, wanted in enumerate(expected):
        for gradient in (jg.grad(loss, number), jg.trace(jg.grad(loss, number))):
            got = gradient(a, b).numpy()
            assert np.abs(got - wanted).max() <= 1e-11 * np.abs(wanted).max() * n


def test_a_named_size() -> None:
    a, b = vectors(300, 20, "float32")
    f = jg.trace(lambda a, b: jg.convolve(a, b), dynamic_shapes={"a": {0: "n"}})
    np.testing.assert_allclose(f(jg.asarray(a), jg.asarray(b)).numpy(), np.convolve(a, b), rtol=1e-4, atol=1e-3)
