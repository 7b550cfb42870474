"""Factorisations of matrices on GPUs, eagerly, in traces, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.cuda.places import Machine
from tests.graphs import needs_native

pytestmark = needs_native

X = (np.random.default_rng(2).normal(size=(2, 3, 3)) + 2 * np.eye(3)).astype(np.float32)

CALLS: dict[str, Callable[[Any], Any]] = {
    "det": lambda x: jg.linalg.det(x),
    "solve": lambda x: jg.linalg.solve(x, x[..., 0, :, None]),
    "cholesky": lambda x: jg.linalg.cholesky(x @ x.mT),
    "gradient": jg.grad(lambda x: jg.linalg.inv(x).sum() + jg.linalg.slogdet(x).logabsdet.sum()),
    "norm": lambda x: jg.linalg.norm(x, 1, axis=(-2, -1)),
    "matrix_power": lambda x: jg.linalg.matrix_power(x, -2),
    "cross": lambda x: jg.linalg.cross(x, x[:, ::-1]),
    "diagonal": lambda x: jg.linalg.diagonal(x, offset=1),
}


@pytest.mark.parametrize("name", CALLS)
def test_small_matrices(here: Machine, name: str) -> None:
    call, x = CALLS[name], jg.asarray(X, device="cuda")
    wanted = call(jg.asarray(X)).detach().numpy()
    for actual in call(x), jg.trace(lambda x: call(x))(x):
        assert actual.device == "cuda:0"
        np.testing.assert_allclose(actual.detach().cpu().numpy(), wanted, rtol=2e-4, atol=2e-4)


LARGER = (np.random.default_rng(3).normal(size=(2, 9, 9)) + 2 * np.eye(9)).astype(np.float32)

LARGER_CALLS: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda x: jg.linalg.cholesky(x @ x.mT),
    "solve": lambda x: jg.linalg.solve(x, x[..., 0, :, None]),
    "triangular": lambda x: jg.linalg.solve_triangular(x @ x.mT, x, upper=True),
    "lu": lambda x: jg.concat(jg.linalg.lu(x[:, :-2])[1:], axis=-1),
    "qr": lambda x: jg.concat(jg.linalg.qr(x), axis=-1),
    "eigh": lambda x: squared(x),
    "svd": lambda x: jg.linalg.pinv(x[:, :5]),
    "gradient": jg.grad(lambda x: jg.linalg.inv(x).sum() + jg.linalg.slogdet(x).logabsdet.sum()),
}


def squared(x: Any) -> Any:
    """Values and vectors of which the sign does not matter."""
    values, vectors = jg.linalg.eigh(x @ x.mT)
    return vectors**2 * values[:, None, :]


@pytest.mark.parametrize("name", LARGER_CALLS)
def test_larger_matrices(here: Machine, name: str) -> None:
    call, x = LARGER_CALLS[name], jg.asarray(LARGER, device="cuda")
    wanted = call(jg.asarray(LARGER)).detach().numpy()
    scale = np.abs(wanted).max()
    for actual in call(x), jg.trace(lambda x: call(x))(x):
        assert actual.device == "cuda:0"
        np.testing.assert_allclose(actual.detach().cpu().numpy() / scale, wanted / scale, rtol=0, atol=1e-4)


def test_what_lapack_alone_computes_is_refused(here: Machine) -> None:
    with pytest.raises(jg.UnsupportedOp, match=r"eig_of_real runs in Python on the host[\s\S]*cpu\(\)"):
        jg.linalg.eigvals(jg.eye(5, device="cuda"))


def test_a_singular_matrix_is_refused(here: Machine) -> None:
    for size in 3, 9:
        with pytest.raises(np.linalg.LinAlgError, match="inv: a matrix is singular"):
            jg.linalg.inv(jg.zeros((size, size), device="cuda")).cpu()
