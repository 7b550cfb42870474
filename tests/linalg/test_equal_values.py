"""Derivatives of both orders of what depends on eigenvalues and singular values alone, also where some are equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

linalg: Any = jg.linalg
RNG = np.random.default_rng(0)
Q, P = (np.linalg.qr(RNG.standard_normal((4, 4)))[0] for _ in range(2))
C = RNG.standard_normal((5, 5))

SYMMETRIC = {
    "identity": np.eye(4),
    "two pairs": np.diag([1.0, 1.0, 3.0, 3.0]),
    "three equal, turned": Q @ np.diag([2.0, 2.0, 2.0, 5.0]) @ Q.T,
    "nearly equal": Q @ np.diag([2.0, 2.0 + 1e-11, 3.0, 3.0]) @ Q.T,
    "none equal": Q @ np.diag([1.0, 2.0, 3.0, 4.0]) @ Q.T,
}
GENERAL = {
    "identity": np.eye(4),
    "turned identity": 2.0 * Q,
    "pairs": Q @ np.diag([1.0, 1.0, 3.0, 3.0]) @ P.T,
    "nearly equal": Q @ np.diag([2.0, 2.0 + 1e-11, 3.0, 3.0]) @ P.T,
    "tall": np.eye(5, 3),
    "wide": (Q @ np.diag([1.0, 2.0, 2.0, 4.0]))[:, 1:].T,
    "none equal": Q @ np.diag([1.0, 2.0, 3.0, 4.0]) @ P.T,
}


def weights(x: Any) -> Any:
    return jg.asarray(C[: x.shape[-2], : x.shape[-1]])


OF_EIGENVALUES: dict[str, Callable[[Any], Any]] = {
    "log det": lambda a: jg.sum(jg.log(linalg.eigvalsh(a))),
    "squares": lambda a: jg.sum(linalg.eigvalsh(a) ** 2),
    "product": lambda a: jg.prod(linalg.eigvalsh(a)),
    "log sum exp": lambda a: jg.logsumexp(linalg.eigvalsh(a)),
    "quotient": lambda a: jg.sum(weights(a) * a) / jg.sum(linalg.eigvalsh(a) ** 3),
    "sum of largest gaps": lambda a: jg.sum(jg.sqrt(linalg.eigvalsh(a))) * jg.sum(1 / linalg.eigvalsh(a)),
}
OF_SINGULAR_VALUES: dict[str, Callable[[Any], Any]] = {
    "nuclear norm": lambda a: linalg.matrix_norm(a, ord="nuc"),
    "a by its nuclear norm": lambda a: jg.sum(weights(a) * (a / linalg.matrix_norm(a, ord="nuc"))),
    "squares": lambda a: jg.sum(linalg.svdvals(a) ** 2),
    "logarithms": lambda a: jg.sum(jg.log(linalg.svdvals(a))),
    "Schatten 3": lambda a: jg.sum(linalg.svdvals(a) ** 3) ** (1 / 3),
    "entropy": lambda a: -jg.sum(linalg.svdvals(a) ** 2 * jg.log(linalg.svdvals(a))),
}
CASES = [(f"eigenvalues: {f}, {m}", OF_EIGENVALUES[f], SYMMETRIC[m], True) for f in OF_EIGENVALUES for m in SYMMETRIC]
CASES += [(f"values: {f}, {m}", OF_SINGULAR_VALUES[f], GENERAL[m], False) for f in OF_SINGULAR_VALUES for m in GENERAL]


def difference(function: Callable[[Any], Any], a: Any, direction: Any, step: float = 1e-4) -> Any:
    """The central difference of fourth order along a direction."""
    at = lambda t: np.asarray(function(jg.asarray(a + t * direction)).numpy())
    return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)


@pytest.mark.parametrize(("name", "function", "a", "symmetric"), CASES, ids=[name for name, *_ in CASES])
def test_derivatives_of_both_orders(name: str, function: Callable[[Any], Any], a: Any, symmetric: bool) -> None:
    direction = np.random.default_rng(1).standard_normal(a.shape)
    direction = direction + direction.T if symmetric else direction
    gradient = jg.grad(function)
    along = jg.grad(lambda x: jg.sum(gradient(x) * jg.asarray(direction)))
    x = jg.asarray(a)
    slope = difference(function, a, direction)
    np.testing.assert_allclose((gradient(x).numpy() * direction).sum(), slope, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(along(x).numpy(), difference(gradient, a, direction), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_hessians_at_the_identity(traced: bool) -> None:
    """Of log det A it is that of the entries' products: -1 where rows and columns of the pair are exchanged."""
    hessian = jg.hessian(OF_EIGENVALUES["log det"])
    result = (jg.trace(hessian) if traced else hessian)(jg.asarray(np.eye(3))).numpy()
    wanted = np.einsum("ik,jl->ijkl", np.eye(3), np.eye(3))
    np.testing.assert_allclose(result, -(wanted + wanted.transpose(1, 0, 2, 3)) / 2, atol=1e-12)
    nuclear = jg.hessian(OF_SINGULAR_VALUES["nuclear norm"])
    result = (jg.trace(nuclear) if traced else nuclear)(jg.asarray(np.eye(3))).numpy()
    np.testing.assert_allclose(result, (wanted - wanted.transpose(1, 0, 2, 3)) / 2, atol=1e-12)


def test_batches_and_single_precision() -> None:
    batch = np.stack([SYMMETRIC["identity"], SYMMETRIC["two pairs"], SYMMETRIC["none equal"]]).astype(np.float32)
    total = lambda a: jg.sum(jg.log(linalg.eigvalsh(a)))
    direction = RNG.standard_normal((4, 4)).astype(np.float32)
    second = jg.grad(lambda a: jg.sum(jg.grad(total)(a) * (direction + direction.T)))
    together = second(jg.asarray(batch)).numpy()
    for alone, matrix in zip(together, batch, strict=True):
        np.testing.assert_allclose(alone, second(jg.asarray(matrix)).numpy(), rtol=1e-5, atol=1e-5)
        inverse = np.linalg.inv(matrix)
        np.testing.assert_allclose(alone, -inverse @ (direction + direction.T) @ inverse, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("function", [jg.linalg.eigvalsh, jg.linalg.svdvals])
def test_eager_gradients_of_both_orders_go_on_after_many_calls(function: Any) -> None:
    """They have ops that Python evaluates, and so no kernel, however often they come back."""
    a = np.random.default_rng(0).normal(size=(3, 3))
    results = []
    for _ in range(80):
        x = jg.asarray((a + a.T).astype(np.float32), requires_grad=True)
        (slope,) = jg.autograd.grad((function(x) ** 3).sum(), [x], create_graph=True)
        (slope * slope).sum().backward()
        results.append(x.grad.numpy())
    np.testing.assert_array_equal(results[0], results[-1])
