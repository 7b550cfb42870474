"""Eigenvalues, singular values and what follows from them by generated code alone: judged by backward error."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.ops import linear_systems
from jitgraph.tensor.tensor import wrap
from tests.linalg.native import DTYPES, KINDS, RNG, SIZES, close, hard, is_orthonormal, named, run, wide

L = jg.linalg


def symmetric(size, dtype):
    """Hermitian matrices by name: of repeated, graded and tiny eigenvalues, tridiagonal, diagonal and permutations."""
    for kind in KINDS:
        x = hard(kind, size, size, dtype)
        yield kind, (x + x.conj().T) / 2
    x, grades = hard("normal", size, size, dtype), np.logspace(0, -18, size)
    for name, by in ("graded down", grades), ("graded up", grades[::-1]):
        yield name, (by[:, None] * (x + x.conj().T) * by).astype(dtype)
    yield (
        "tridiagonal",
        (np.diag(np.abs(np.arange(size) - size // 2)) + np.eye(size, k=1) + np.eye(size, k=-1)).astype(dtype),
    )
    yield "exchange", np.eye(size)[::-1].astype(dtype)
    yield "ones", np.ones((size, size), dtype)


def eigen(x0):
    return L.eigh(x0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigenvalues_and_eigenvectors(dtype):
    eps = np.finfo(dtype).eps
    for size in SIZES:
        names, matrices = zip(*symmetric(size, dtype), strict=True)
        batch = np.stack(matrices)
        for name, actual in zip(names, zip(batch, *named(eigen, ("cc",), batch), strict=True), strict=True):
            a, values, vectors = wide(*actual)
            scale = max(np.linalg.norm(a / max(np.abs(a).max(), 1e-300), 2) * np.abs(a).max(), 1e-300)
            assert np.all(np.diff(values) >= 0) and is_orthonormal(vectors, 8 * size, eps), (name, size)
            assert close(a / scale @ vectors, vectors * (values / scale), 1.0, eps, 8 * size), (name, size)
            assert close(values / scale, np.linalg.eigvalsh(a / scale), 1.0, eps, 8 * size), (name, size)


def general(rows, columns, dtype):
    """Matrices by name: those of ``hard``, graded in every direction, nilpotent, with a zero on a bidiagonal."""
    for kind in KINDS:
        yield kind, hard(kind, rows, columns, dtype)
    x = hard("normal", rows, columns, dtype)
    down, across = np.logspace(0, -25, rows)[:, None], np.logspace(0, -25, columns)
    for name, by in (("up", down[::-1]), ("left", across[::-1]), ("up and left", (down * across)[::-1, ::-1] ** 0.7)):
        yield f"graded {name}", (by * x).astype(dtype)
    yield "nilpotent", np.eye(rows, columns, k=1).astype(dtype)
    bidiagonal = np.eye(rows, columns) + np.eye(rows, columns, k=1)
    bidiagonal[min(rows, columns) // 2, min(rows, columns) // 2] = 0
    yield "bidiagonal", bidiagonal.astype(dtype)
    yield "ones", np.ones((rows, columns), dtype)


def thin(x0):
    return L.svd(x0, full_matrices=False)


def full(x0):
    return L.svd(x0)


@pytest.mark.parametrize(
    ("function", "is_wide", "dtype"),
    [
        *((thin, False, dtype) for dtype in DTYPES),
        *((full, is_wide, "complex64") for is_wide in (False, True)),
        *((thin, True, "float64"), (full, False, "float64")),
    ],
)
def test_singular_values_and_vectors(function, is_wide, dtype):
    eps = np.finfo(dtype).eps
    for size, more in product(SIZES, (0, 9)):
        shape = (size, size + more + 1) if is_wide else (size + more, size)
        names, matrices = zip(*general(*shape, dtype), strict=True)
        batch = np.stack(matrices)
        result = named(function, ("cd" if is_wide else "dc",), batch)
        for name, parts in zip(names, zip(batch, *result, strict=True), strict=True):
            a, u, values, vh = wide(*parts)
            unit, bound = max(np.abs(a).max(), 1e-300), 8 * max(shape)
            due = np.linalg.svd(a / unit, compute_uv=False)
            scale = max(due[0], 1e-300)
            assert np.all(np.diff(values) <= 0) and np.all(values >= 0), (name, shape)
            assert is_orthonormal(u, bound, eps) and is_orthonormal(vh.conj().T, bound, eps), (name, shape)
            product_of = (u[:, :size] * (values / unit)) @ vh[:size]
            assert close(product_of, a / unit, scale, eps, bound), (name, shape)
            assert close(values / unit, due, scale, eps, bound), (name, shape)


@pytest.mark.parametrize("function", [L.eigh, L.svd, L.pinv], ids=["eigh", "svd", "pinv"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_does_not_converge(function, value):
    x = RNG.normal(size=(2, 7, 7))
    x[1, 2, 5] = value
    with pytest.raises(np.linalg.LinAlgError, match=r"the decomposition does not converge \(matrix 1 of the batch\)"):
        run(function, x)


def test_no_elements():
    x = np.zeros((0, 0))
    assert [y.shape for y in run(lambda x: (*L.eigh(x), *L.svd(x), L.pinv(x)), x)] == [
        (0,),
        (0, 0),
        (0, 0),
        (0,),
        (0, 0),
        (0, 0),
    ]
    u, values, vh, inverse = run(lambda x: (*L.svd(x), L.pinv(x)), np.zeros((3, 0)))
    assert np.array_equal(u, np.eye(3)) and values.shape == (0,) and vh.shape == (0, 0) and inverse.shape == (0, 3)


def composed(x, b, ct):
    raw = wrap(linear_systems.cofactors(x.value)), wrap(linear_systems.cofactors_gradient(ct.value, x.value))
    solution, _, rank, values = L.lstsq(x, b)
    return (
        *(L.pinv(x), solution, x @ solution, rank, values, L.matrix_exp(x / 4), L.matrix_rank(x), *raw),
        *(L.svdvals(x), L.eigvalsh(x), L.matrix_norm(x, ord="nuc"), L.cholesky_inverse(b @ b.mT + x @ x.mT)),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_compositions_are_those_of_lapack(dtype):
    """Of a regular matrix, one of rank n - 1 and one of great norm."""
    eps = np.finfo(dtype).eps
    for size in (5, 9):
        x = np.stack([hard(kind, size, size, dtype) for kind in ("normal", "normal", "normal")])
        x[1, 0] = x[1, 1]
        x[2] *= 20
        b = np.stack([hard("normal", size, size, dtype) for _ in x])
        for actual, due in zip(run(composed, x, b, b), composed(*map(jg.asarray, (x, b, b))), strict=True):
            wanted = due.numpy()
            assert actual.dtype == wanted.dtype and actual.shape == wanted.shape
            for one, other in zip(actual, wanted, strict=True):
                assert close(one, other, other, eps, 3000)


def test_gradients_are_those_of_differences():
    x = RNG.normal(size=(6, 5))
    weights = RNG.normal(size=(6, 6))

    def loss(x, weights):
        square = x.mT @ (x + weights[:, :5])
        values, vectors = L.eigh(square)
        u, singular, vh = L.svd(x, full_matrices=False)
        actual = (vectors[:, 0] * weights[0, :5]).sum() ** 2 + (values * weights[1, :5]).sum() + L.det(square)
        actual = actual + ((u * singular) @ vh * weights[:, :5]).sum() + (L.pinv(x) * weights[:5]).sum()
        return actual + (singular * weights[2, :5]).sum() + (L.matrix_exp(square / 9) * weights[:5, :5]).sum()

    (gradient,) = run(jg.grad(loss), x, weights)
    direction, step = RNG.normal(size=x.shape), 1e-6
    (high,), (low,) = (run(loss, x + sign * step * direction, weights) for sign in (1, -1))
    due = (high - low) / (2 * step)
    assert abs((gradient * direction).sum() - due) <= 1e-6 * abs(due)
