"""Systems of small matrices on GPUs, eagerly, in traces, and their gradients; larger ones say that they need Python."""

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
    for found in call(x), jg.trace(lambda x: call(x))(x):
        assert found.device == "cuda:0"
        np.testing.assert_allclose(found.detach().cpu().numpy(), wanted, rtol=2e-4, atol=2e-4)


def test_larger_matrices_are_refused(here: Machine) -> None:
    with pytest.raises(jg.UnsupportedOp, match=r"inv runs in Python on the host[\s\S]*cpu\(\)"):
        jg.linalg.inv(jg.eye(5, device="cuda"))


def test_a_singular_matrix_is_refused(here: Machine) -> None:
    with pytest.raises(ValueError, match="inv: a matrix is singular"):
        jg.linalg.inv(jg.zeros((3, 3), device="cuda")).cpu()
