"""Norms of numbers whose powers overflow or vanish, their gradients, and clipping of gradients by them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.tensor.functions.norms import p_norm

linalg: Any = jg.linalg
SCALES = {np.float32: (1e-36, 1e-25, 1e25, 1e37), np.float64: (1e-305, 1e-170, 1e170, 1e305)}
ROWS = np.array([[3.0, -4.0, 1.0], [0.5, 0.25, -2.0]])
CASES = [(dtype, scale, p) for dtype, scales in SCALES.items() for scale in scales for p in (2.0, 3.0, 1.5, 0.5, -2.0)]


def exact(x: Any, p: float) -> Any:
    wide = np.abs(x.astype(np.longdouble))
    greatest = wide.max(-1, keepdims=True)
    return ((wide / greatest) ** p).sum(-1) ** (np.longdouble(1) / p) * greatest[..., 0]


@pytest.mark.parametrize(("dtype", "scale", "p"), CASES)
def test_vector_norms(dtype: Any, scale: float, p: float) -> None:
    rows = (ROWS * scale).astype(dtype)
    rows[1] = ROWS[1]  # beside one of size 1
    want, eps = exact(rows, p), float(np.finfo(dtype).eps)
    function = lambda x: linalg.vector_norm(x, axis=1, ord=p)
    slope = jg.grad(lambda x: function(x).sum())
    expected = np.sign(rows) * (np.abs(rows.astype(np.longdouble)) / want[:, None]) ** (p - 1)
    for norm, gradient in ((function, slope), (jg.trace(function), jg.trace(slope))):
        np.testing.assert_allclose(norm(jg.asarray(rows)).numpy(), want.astype(dtype), rtol=32 * eps)
        np.testing.assert_allclose(gradient(jg.asarray(rows)).numpy(), expected.astype(dtype), rtol=64 * eps)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_of_all_forms(traced: bool) -> None:
    run = jg.trace if traced else lambda f: f
    for scale in (1e-200, 1e200):
        x = jg.asarray(ROWS * scale)
        size = float(np.linalg.norm(ROWS)) * scale
        for norm in (
            linalg.norm,
            linalg.matrix_norm,
            lambda x: linalg.norm(x, keepdims=True),
            lambda x: linalg.norm(x, "fro"),
        ):
            result = run(norm)(x).numpy()
            np.testing.assert_allclose(result, np.full(result.shape, size), rtol=1e-15)
        full = run(lambda x: linalg.vector_norm(x + 1j * x))(x)
        np.testing.assert_allclose(full.numpy(), size * math.sqrt(2), rtol=1e-15)
        np.testing.assert_allclose(
            run(jg.vmap(linalg.norm))(x).numpy(), np.linalg.norm(ROWS, axis=1) * scale, rtol=1e-15
        )


def test_ordinary_numbers_have_the_bits_of_the_plain_formula() -> None:
    x = jg.asarray(np.random.default_rng(0).normal(size=(7, 50)))
    for p in (2.0, 3.0, -1.0):
        for norm in (linalg.vector_norm, jg.trace(linalg.vector_norm)):
            np.testing.assert_array_equal(norm(x, axis=1, ord=p).numpy(), p_norm(x, p, 1).numpy())


def test_of_zeros_infinities_and_nan() -> None:
    rows = np.array([[0.0, 0.0], [np.inf, 1.0], [-np.inf, np.nan], [0.0, np.nan], [1e-300, 0.0]])
    for norm in (linalg.vector_norm, jg.trace(linalg.vector_norm)):
        result = norm(jg.asarray(rows), axis=1).numpy()
        np.testing.assert_array_equal(result, [0.0, np.inf, np.nan, np.nan, 1e-300])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("norm_type", [2.0, 3.0, 1.0, math.inf])
def test_clipping_of_huge_and_tiny_gradients(dtype: Any, norm_type: float) -> None:
    """The direction stays, and the norm is what was asked for, where PyTorch gives zeros or infinite norms."""
    directions = [np.array([3.0, -4.0], dtype), np.array(12.0, dtype)]
    for scale in (*SCALES[dtype][2:], float(np.finfo(dtype).max) / 64):
        parameters = [jg.nn.Parameter(jg.asarray(np.zeros_like(x))) for x in directions]
        for p, direction in zip(parameters, directions, strict=True):
            p.grad = jg.asarray(direction * dtype(scale))
        size = float(np.linalg.norm(np.array([3.0, 4.0, 12.0]), norm_type))
        result = jg.nn.utils.clip_grad_norm_(parameters, 1.0, norm_type)
        assert result.dtype == dtype
        assert result.item() == pytest.approx(size * scale, rel=1e-6)
        for p, direction in zip(parameters, directions, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), direction / size, rtol=1e-6)
    for p in parameters:
        p.grad = jg.full(p.shape, SCALES[dtype][0], dtype=p.dtype)
    result = jg.nn.utils.get_total_norm([p.grad for p in parameters], norm_type)
    assert result.item() == pytest.approx(SCALES[dtype][0] * float(np.linalg.norm(np.ones(3), norm_type)), rel=1e-6)
