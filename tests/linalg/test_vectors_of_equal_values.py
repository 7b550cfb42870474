"""Gradients of eigenvectors and singular vectors where values are equal, nearly equal, 0, huge or tiny.

What is not determined has the gradient NaN, and what is determined the right one, in eager mode and traced.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

linalg: Any = jg.linalg
RNG = np.random.default_rng(0)
N = 4
Q, P = (np.linalg.qr(RNG.standard_normal((N, N)))[0] for _ in range(2))
U, T = (np.linalg.qr(RNG.standard_normal((N, N)) + 1j * RNG.standard_normal((N, N)))[0] for _ in range(2))
C = RNG.standard_normal((N, N))
W = jg.asarray(C)
EPS = float(np.finfo(np.float64).eps)


def symmetric(q: Any, *values: float) -> Any:
    a = (q * np.array(values)) @ q.conj().T
    return (a + a.conj().T) / 2


TIED = {
    "zeros": np.zeros((N, N)),
    "identity": np.eye(N),
    "diagonal": np.diag([3.0, 1.0, 1.0, 2.0]),
    "turned": symmetric(Q, 1, 2, 2, 4),
    "turned, up to rounding": symmetric(Q, 1, 1e5, 1e5, -1e5),
    "complex": symmetric(U, 1, 2, 2, 4),
    "float32": symmetric(Q, 1, 2, 2, 4).astype(np.float32),
}
# some do not depend on the choice of vectors, and their cotangents are like those of some that do
OF_EIGENVECTORS: dict[str, Callable[[Any], Any]] = {
    "squares": lambda a: jg.sum(jg.abs(linalg.eigh(a).eigenvectors) ** 2 * W),
    "a square": lambda a: jg.sum(jg.abs(linalg.eigh(a).eigenvectors[1, :]) ** 2 * W[0]),
    "sizes": lambda a: jg.sum(jg.abs(linalg.eigh(a).eigenvectors) * W),
    "projectors": lambda a: projected(linalg.eigh(a).eigenvectors, 1.0),
    "a function of the matrix": lambda a: projected(*reversed(linalg.eigh(a))),
    "eigenvectors of eig": lambda a: jg.sum(jg.abs(linalg.eig(a).eigenvectors) ** 2 * W),
}
OF_SINGULAR_VECTORS: dict[str, Callable[[Any], Any]] = {
    "squares of U": lambda a: jg.sum(jg.abs(linalg.svd(a).U) ** 2 * W),
    "squares of Vh": lambda a: jg.sum(jg.abs(linalg.svd(a).Vh) ** 2 * W),
    "the polar factor": lambda a: polar(a),
}


def projected(v: Any, f: Any) -> Any:
    return jg.sum(jg.real((v * jg.exp(jg.asarray(f))) @ jg.conj(v.mT)) * W)


def polar(a: Any) -> Any:
    u, _, vh = linalg.svd(a, full_matrices=False)
    return jg.sum(jg.real(u @ vh) * W[: a.shape[-2], : a.shape[-1]])


def first(a: Any) -> Any:
    u, _, vh = linalg.svd(a)
    return jg.sum(jg.real(u[:, :1] @ vh[:1]) * W)


CASES = [(f, m) for f in OF_EIGENVECTORS for m in TIED]
CASES += [(f, m) for f in OF_SINGULAR_VECTORS for m in TIED]


@pytest.mark.parametrize(("name", "matrix"), CASES, ids=[" of ".join(case) for case in CASES])
def test_vectors_of_equal_values_have_no_gradient(name: str, matrix: str) -> None:
    function = {**OF_EIGENVECTORS, **OF_SINGULAR_VECTORS}[name]
    gradient = jg.grad(function)(jg.asarray(TIED[matrix])).numpy()
    assert np.isnan(gradient).all()


@pytest.mark.parametrize("name", ["squares", "squares of U"])
def test_traced_batched_and_mapped(name: str) -> None:
    """Of a batch, the matrices without equal values have the gradients that they have alone."""
    function = {**OF_EIGENVECTORS, **OF_SINGULAR_VECTORS}[name]
    batch = np.stack([symmetric(Q, 1, 2, 3, 4), symmetric(Q, 1, 2, 2, 4), symmetric(P, 1, 3, 4, 7)])
    gradient = jg.grad(function)
    alone = [gradient(jg.asarray(a)).numpy() for a in batch]
    assert [bool(np.isnan(x).any()) for x in alone] == [False, True, False]
    for run in (gradient, jg.trace(gradient), jg.vmap(gradient), jg.trace(jg.vmap(gradient))):
        np.testing.assert_allclose(run(jg.asarray(batch)).numpy(), alone, rtol=1e-9, atol=1e-11)


def test_a_saved_gradient(tmp_path: Path) -> None:
    """Files have decompositions of their own, and the same rule."""
    saved = tmp_path / "gradient.jg"
    gradient = jg.trace(jg.grad(OF_EIGENVECTORS["squares"]))
    jg.save(gradient, saved, example_inputs=(jg.asarray(TIED["turned"]),))
    loaded = jg.load(saved)
    assert np.isnan(loaded(jg.asarray(TIED["turned"])).numpy()).all()
    distinct = jg.asarray(symmetric(Q, 1, 2, 3, 4))
    np.testing.assert_allclose(loaded(distinct).numpy(), gradient(distinct).numpy(), rtol=1e-9, atol=1e-11)


DETERMINED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "greatest": (lambda a: jg.sum(jg.abs(linalg.eigh(a).eigenvectors[:, -1]) ** 2 * W[0]), symmetric(Q, 0, 0, 0, 1)),
    "least": (lambda a: jg.sum(jg.abs(linalg.eigh(a).eigenvectors[:, 0]) ** 2 * W[0]), symmetric(Q, -1, 2, 2, 2)),
    "complex": (lambda a: jg.sum(jg.abs(linalg.eigh(a).eigenvectors[:, -1]) ** 2 * W[0]), symmetric(U, 1, 1, 2, 3)),
    "of eig": (lambda a: jg.sum(jg.abs(linalg.eig(a).eigenvectors[:, 0]) ** 2 * W[0]), np.diag([4.0, 1.0, 1.0, 1.0])),
    "left": (lambda a: jg.sum(linalg.svd(a).U[:, 0] ** 2 * W[0]), Q @ np.diag([3.0, 1, 1, 0]) @ P),
    "right, two zeros": (lambda a: jg.sum(linalg.svd(a).Vh[0] ** 2 * W[0]), Q @ np.diag([3.0, 1, 0, 0]) @ P),
    "both, complex": (first, U @ np.diag([3.0, 1, 0, 0]) @ T),
    "tall, of lower rank": (
        lambda a: jg.sum(linalg.svd(a, full_matrices=False).U[:, 0] ** 2 * W[0]),
        (Q @ np.diag([3.0, 0, 0, 0]) @ P)[:, :3],
    ),
    "left, one zero": (lambda a: jg.sum(linalg.svd(a).U ** 2 * W), Q @ np.diag([3.0, 2, 1, 0]) @ P),
    "polar of tall": (polar, (Q @ np.diag([4.0, 3, 2, 1]) @ P)[:, :3]),
    "polar of wide": (polar, (Q @ np.diag([4.0, 3, 2, 1]) @ P)[:3]),
}


@pytest.mark.parametrize("name", DETERMINED)
def test_other_vectors_have_their_gradient(name: str) -> None:
    function, a = DETERMINED[name]
    direction = np.random.default_rng(1).standard_normal(a.shape).astype(a.dtype)
    if np.iscomplexobj(a):
        direction = direction + 1j * np.random.default_rng(2).standard_normal(a.shape)
    if a.shape[0] == a.shape[1] and np.allclose(a, a.conj().T):
        direction = direction + direction.conj().T
    at = lambda t: function(jg.asarray(a + t * direction)).item()
    step = 1e-4
    slope = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)
    for gradient in (jg.grad(function), jg.trace(jg.grad(function))):
        along = (np.conj(gradient(jg.asarray(a)).numpy()) * direction).sum().real
        assert along == pytest.approx(slope, rel=1e-7, abs=1e-9)


def test_tangents_are_those_of_determined_vectors_alone() -> None:
    direction = jg.asarray(C + C.T)
    a = jg.asarray(np.diag([1.0, 2.0, 2.0, 4.0]))
    for name, function in {"eigh": lambda a: linalg.eigh(a).eigenvectors, "svd": lambda a: linalg.svd(a).U}.items():
        push = lambda a, f=function: jg.jvp(f, (a,), (direction,))[1]
        for tangent in (push(a).numpy(), jg.trace(push)(a).numpy()):
            assert np.isnan(tangent).any(axis=0).tolist() == [False, True, True, False], name
            assert np.isfinite(tangent[:, [0, 3]]).all(), name


@pytest.mark.parametrize("gap", [1e-6, 1e-9, 1e-12])
def test_near_ties_are_as_precise_as_the_gap(gap: float) -> None:
    """The polar factor and the projector on a pair, whose gradients are known without the pair's gap."""
    a = jg.asarray(Q @ np.diag([4.0, 2.0 + gap, 2.0, 1.0]) @ P)
    s = np.array([4.0, 2.0, 2.0, 1.0])
    inner = Q.T @ C @ P.T
    expected = Q @ ((inner - inner.T) / (s[:, None] + s)) @ P
    bound = 32 * EPS * 4 / gap + 8 * gap
    np.testing.assert_allclose(jg.grad(polar)(a).numpy(), expected, atol=bound)
    b = jg.asarray(symmetric(Q, 4, 2 + gap, 2, 1))

    def pair(b: Any) -> Any:
        v = linalg.eigh(b).eigenvectors[:, 1:3]
        return jg.sum(v @ v.T * W)

    inner, one = Q.T @ (C + C.T) @ Q / 2, np.array([0.0, 1.0, 1.0, 0.0])
    w = np.array([4.0, 2.0, 2.0, 1.0])
    differ = one[:, None] != one
    quotient = np.where(differ, (one - one[:, None]) / np.where(differ, w - w[:, None], 1.0), 0.0)
    expected = Q @ (inner * quotient) @ Q.T
    np.testing.assert_allclose(jg.grad(pair)(b).numpy(), expected, atol=bound)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_huge_and_tiny_matrices(scale: float) -> None:
    """No square of a value is taken: gradients are those of the matrix of size 1 by the scale."""
    for function, a in (
        (polar, Q @ np.diag([4.0, 3.0, 2.0, 1.0]) @ P),
        (OF_SINGULAR_VECTORS["squares of U"], Q @ np.diag([4.0, 3.0, 2.0, 1.0]) @ P),
        (OF_EIGENVECTORS["squares"], symmetric(Q, 1, 2, 3, 4)),
    ):
        gradient = jg.grad(function)
        large = gradient(jg.asarray(a * scale)).numpy() * scale
        np.testing.assert_allclose(large, gradient(jg.asarray(a)).numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0, 2, 2), (1, 1)])
def test_gradients_of_no_and_one_vector(shape: tuple[int, ...]) -> None:
    functions = [lambda a: jg.sum(linalg.svd(a, full_matrices=False).U)]
    if shape[-1] == shape[-2]:
        functions.append(lambda a: jg.sum(linalg.eigh(a).eigenvectors))
    for function in functions:
        for gradient in (jg.grad(function), jg.trace(jg.grad(function))):
            np.testing.assert_array_equal(gradient(jg.ones(shape, dtype=jg.float64)).numpy(), np.zeros(shape))
