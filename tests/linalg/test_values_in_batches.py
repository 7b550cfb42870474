"""Values of jg.linalg against NumPy: eager and traced alike, of complex matrices, in batches, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest

import jitgraph as jg

L = jg.linalg
RNG = np.random.default_rng(5)
SQUARE = RNG.normal(size=(2, 3, 3)) + 3 * np.eye(3)
TALL = RNG.normal(size=(2, 4, 3))
RIGHT = RNG.normal(size=(2, 3, 2))


def _pad(x):
    return np.asarray(x).swapaxes(-1, -2).conj()


def _exponential(x):
    values, vectors = np.linalg.eig(x)
    actual = (vectors * np.exp(values)[..., None, :]) @ np.linalg.inv(vectors)
    return actual if np.iscomplexobj(x) else actual.real


def _solved(a, b, triangle):
    return np.linalg.solve(triangle(a), b)


CASES = {
    "matrix_exp": (lambda x, b: L.matrix_exp(x), lambda x, b: _exponential(x)),
    "lu": (lambda x, b: (lambda p, low, up: p @ low @ up)(*L.lu(x)), lambda x, b: x),
    "lu_solve": (lambda x, b: L.lu_solve(*L.lu_factor(x), b), np.linalg.solve),
    "lu_solve of the adjoint": (
        lambda x, b: L.lu_solve(*L.lu_factor(x), b, adjoint=True),
        lambda x, b: np.linalg.solve(_pad(x), b),
    ),
    "lu_solve from the right": (
        lambda x, b: L.lu_solve(*L.lu_factor(x), b.mT, left=False),
        lambda x, b: b.swapaxes(-1, -2) @ np.linalg.inv(x),
    ),
    "upper": (lambda x, b: L.solve_triangular(x, b, upper=True), lambda x, b: _solved(x, b, np.triu)),
    "lower": (lambda x, b: L.solve_triangular(x, b, upper=False), lambda x, b: _solved(x, b, np.tril)),
    "unit": (
        lambda x, b: L.solve_triangular(x, b, upper=False, unitriangular=True),
        lambda x, b: _solved(x, b, lambda x: np.tril(x, -1) + np.eye(3)),
    ),
    "from the right": (
        lambda x, b: L.solve_triangular(x, b.mT, upper=True, left=False),
        lambda x, b: b.swapaxes(-1, -2) @ np.linalg.inv(np.triu(x)),
    ),
    "cholesky_solve": (
        lambda x, b: L.cholesky_solve(b, L.cholesky(x @ jg.conj(x.mT))),
        lambda x, b: np.linalg.solve(x @ _pad(x), b),
    ),
    "cholesky_inverse": (
        lambda x, b: L.cholesky_inverse(L.cholesky(x @ jg.conj(x.mT), upper=True), upper=True),
        lambda x, b: np.linalg.inv(x @ _pad(x)),
    ),
    "eig": (
        lambda x, b: (lambda w, v: x.astype(w.dtype) @ v - v * w[..., None, :])(*L.eig(x)).abs(),
        lambda x, b: np.zeros(x.shape),
    ),
    "eigvals": (lambda x, b: L.eigvals(x), lambda x, b: np.linalg.eigvals(x).astype(np.result_type(x, 1j))),
    "lstsq": (lambda x, b: L.lstsq(x[..., :2], b).solution, lambda x, b: np.linalg.pinv(x[..., :2]) @ b),
    "slogdet": (lambda x, b: L.slogdet(x).logabsdet, lambda x, b: np.linalg.slogdet(x)[1]),
    "inv": (lambda x, b: L.inv(x), lambda x, b: np.linalg.inv(x)),
    "det": (lambda x, b: L.det(x), lambda x, b: np.linalg.det(x)),
    "pinv": (lambda x, b: L.pinv(x[..., :2]), lambda x, b: np.linalg.pinv(x[..., :2])),
    "eigh": (
        lambda x, b: (lambda w, v: (v * w[..., None, :]) @ jg.conj(v.mT))(*L.eigh(x @ jg.conj(x.mT))),
        lambda x, b: x @ _pad(x),
    ),
    "svd": (lambda x, b: (lambda u, s, v: (u * s[..., None, :]) @ v)(*L.svd(x)), lambda x, b: x),
    "qr": (lambda x, b: (lambda q, r: q @ r)(*L.qr(x)), lambda x, b: x),
    "matrix_power": (lambda x, b: L.matrix_power(x, -3), lambda x, b: np.linalg.matrix_power(x, -3)),
    "norms": (
        lambda x, b: jg.stack([L.norm(x, p, axis=(0, 2)) for p in ("fro", "nuc", 1, -1, 2, -2, jg.inf, -jg.inf)]),
        lambda x, b: np.stack(
            [np.linalg.norm(x, p, axis=(0, 2)) for p in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)]
        ),
    ),
    "vector norms": (
        lambda x, b: jg.stack([L.vector_norm(x, ord=p, axis=1) for p in (0, 1, 2, 3, 0.5, -1, -2.5, jg.inf, -jg.inf)]),
        lambda x, b: np.stack(
            [np.linalg.norm(x, p, axis=1) for p in (0, 1, 2, 3, 0.5, -1, -2.5, np.inf, -np.inf)]
        ).astype(x.real.dtype),
    ),
    "cond": (
        lambda x, b: jg.stack([L.cond(x, p) for p in (None, 1, -2, jg.inf, "fro")]),
        lambda x, b: np.stack([np.linalg.cond(x, p) for p in (None, 1, -2, np.inf, "fro")]),
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("name", CASES)
def test_values_are_numpy_s_and_eager_bits_are_a_trace_s(name, dtype):
    function, oracle = CASES[name]
    turn = 1 + 0.5j if dtype.startswith("complex") else 1
    x, b = (SQUARE * turn).astype(dtype), (RIGHT * turn).astype(dtype)
    if turn != 1:
        x = x + 0.3j * SQUARE.swapaxes(-1, -2)
    eager = function(jg.asarray(x), jg.asarray(b))
    traced = jg.trace(lambda x, b: function(x, b), dynamic_shapes={"x": {0: "batch"}, "b": {0: "batch"}})
    assert np.array_equal(traced(jg.asarray(x), jg.asarray(b)).numpy(), eager.numpy())
    wanted = oracle(x, b)
    assert eager.shape == wanted.shape and eager.dtype.kind == wanted.dtype.kind
    close = {"rtol": 2e-4, "atol": 2e-4} if dtype == "float32" else {"rtol": 1e-10, "atol": 1e-10}
    assert np.allclose(eager.numpy(), wanted, **close)
