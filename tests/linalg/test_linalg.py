"""jg.linalg against NumPy: eager, traced and with a named batch, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import compiler
from jitgraph.ir.target import Target

L = jg.linalg


def _square(dtype):
    x = np.random.default_rng(3).normal(size=(2, 3, 3))
    return (x @ x.swapaxes(-1, -2) + 2 * np.eye(3)).astype(dtype)


CASES = {
    "inv": (L.inv, np.linalg.inv),
    "pinv": (L.pinv, np.linalg.pinv),
    "det": (L.det, np.linalg.det),
    "slogdet": (lambda x: L.slogdet(x).logabsdet, lambda x: np.linalg.slogdet(x)[1]),
    "solve": (lambda x: L.solve(x, x + 1), lambda x: np.linalg.solve(x, x + 1)),
    "cholesky": (L.cholesky, np.linalg.cholesky),
    "upper": (lambda x: L.cholesky(x, upper=True), lambda x: np.linalg.cholesky(x).swapaxes(-1, -2)),
    "eigvalsh": (L.eigvalsh, np.linalg.eigvalsh),
    "svdvals": (L.svdvals, lambda x: np.linalg.svd(x, compute_uv=False)),
    "qr": (lambda x: L.qr(x).Q @ L.qr(x).R, lambda x: x),
    "svd": (lambda x: (lambda u, s, v: (u * s[..., None, :]) @ v)(*L.svd(x)), lambda x: x),
    "eigh": (lambda x: (lambda w, v: (v * w[..., None, :]) @ v.mT)(*L.eigh(x)), lambda x: x),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_values_are_numpy_s_and_eager_bits_are_a_trace_s(name, dtype):
    function, oracle = CASES[name]
    x = _square(dtype)
    eager = function(jg.asarray(x))
    traced = jg.trace(lambda x: function(x), dynamic_shapes={"x": {0: "batch"}})
    assert np.array_equal(traced(jg.asarray(x)).numpy(), eager.numpy()) and eager.dtype == x.dtype
    assert np.array_equal(traced(jg.asarray(x[:1])).numpy(), eager.numpy()[:1])
    assert np.allclose(eager.numpy(), oracle(x), rtol=1e-4 if dtype == "float32" else 1e-10, atol=1e-4)


@pytest.mark.parametrize("call", [L.inv, lambda x: L.solve(x, x), L.cholesky])
def test_a_singular_matrix_is_refused(call):
    x = jg.zeros((2, 3, 3))
    for wrapped in call, jg.trace(lambda x: call(x)):
        for error in jg.LinAlgError, np.linalg.LinAlgError, jg.JitgraphError:
            with pytest.raises(error, match=r"matrix 0 of the batch[\s\S]*hint"):
                wrapped(x)


def test_other_dtypes_and_gpus_are_refused():
    for dtype in jg.int64, jg.float16, jg.bfloat16:
        with pytest.raises(jg.DTypeError, match="float32 or float64"):
            L.inv(jg.ones((2, 2), dtype=dtype))
    graph = jg.trace(lambda x: L.eigvals(x)).lower(jg.ones((5, 5))).graph
    with pytest.raises(jg.UnsupportedOp, match="eig_of_real runs in Python on the host"):
        compiler.compile(graph, Target.named("sm_80"))


def test_vmap_is_one_call_for_all_samples():
    x = jg.asarray(_square("float64"))
    result = jg.vmap(lambda x: (L.inv(x), L.solve(x, jg.ones(3, dtype=jg.float64)), L.eigh(x).eigenvalues))(x)
    for got, due in zip(
        result, (L.inv(x), L.solve(x, jg.ones((2, 3, 1), dtype=jg.float64))[..., 0], L.eigvalsh(x)), strict=True
    ):
        assert np.array_equal(got.numpy(), due.numpy())


@pytest.mark.parametrize("name", ["qr", "svd"])
def test_named_rows_and_columns(name):
    """Which of both is less is a condition of the code: of other sizes other code is made."""

    def loss(x):
        actual = L.qr(x) if name == "qr" else L.svd(x, full_matrices=False)
        return sum((y * y * y).sum() for y in actual)

    def both(x):
        return L.svdvals(x), jg.grad(loss)(x)

    traced = jg.trace(both, dynamic_shapes={"x": {0: "n", 1: "m"}})
    for shape in (2, 4), (4, 2), (5, 3), (3, 7), (2, 1), (1, 2), (3, 3):
        x = jg.asarray(np.random.default_rng(4).normal(size=shape) + 3 * np.eye(*shape))
        (values, gradient), (due_values, due) = traced(x), both(x)
        assert values.shape == due_values.shape and np.array_equal(values.numpy(), due_values.numpy())
        # code for tall matrices serves square ones too, where it adds terms that are zeros but for rounding
        assert gradient.shape == due.shape and np.allclose(gradient.numpy(), due.numpy(), rtol=1e-11, atol=1e-11)


def test_the_determinant_of_a_singular_matrix_has_a_gradient():
    x = jg.asarray(np.array([[1.0, 2.0], [2.0, 4.0]]))
    assert np.allclose(jg.grad(lambda x: L.det(x))(x).numpy(), [[4, -2], [-2, 1]])


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_the_determinant_of_a_singular_matrix_has_a_second_order(size, complex):
    """Against central differences of the first order, along one direction, for every rank."""
    rng = np.random.default_rng(size)

    def array(*shape):
        return rng.normal(size=shape) + (1j * rng.normal(size=shape) if complex else 0)

    weights = jg.asarray(array(size, size))

    def loss(x):
        return (lambda y: y.real + 2 * y.imag if complex else y)(L.det(x))

    def slope(x):
        return (lambda y: y.real.sum() if complex else y.sum())(jg.grad(loss)(x) * jg.conj(weights))

    for rank in range(size + 1):
        x, step, h = array(size, rank) @ array(rank, size), array(size, size), 1e-5
        due = (slope(jg.asarray(x + h * step)) - slope(jg.asarray(x - h * step))).item() / (2 * h)
        for second in jg.grad(slope), jg.trace(jg.grad(slope)):
            actual = np.sum(second(jg.asarray(x)).numpy().conj() * step).real
            assert actual == pytest.approx(due, rel=1e-6, abs=1e-7)


def test_the_determinant_has_a_third_order():
    x = jg.asarray(np.diag([2.0, 3.0, 5.0]))
    diagonal = lambda f: lambda x: jg.diagonal(jg.grad(f)(x))
    first = lambda x: diagonal(L.det)(x)[0]  # x[1, 1] x[2, 2]
    second = lambda x: diagonal(first)(x)[1]  # x[2, 2]
    assert np.allclose(jg.grad(second)(x).numpy(), np.diag([0.0, 0.0, 1.0]))


def test_the_sign_of_the_gradient_of_a_determinant():
    for x in np.array([[0.0, 1.0], [1.0, 0.0]]), np.diag([3.0, 2.0, -1.0]), np.array([[0.0, 2.0], [-3.0, 1.0]]):
        due = np.linalg.det(x) * np.linalg.inv(x).T
        assert np.allclose(jg.grad(lambda x: L.det(x))(jg.asarray(x)).numpy(), due)


@pytest.mark.parametrize("shape", [(2, 3), (3, 2)])
@pytest.mark.parametrize("name", ["qr", "svd"])
def test_gradients_of_rectangular_matrices(name, shape):
    x = np.random.default_rng(1).normal(size=shape) + np.eye(*shape) * 3
    weights = [np.random.default_rng(2 + i).normal(size=s) for i, s in enumerate([(shape[0], 2), (2, shape[1])])]

    def loss(x):
        actual = L.qr(x) if name == "qr" else L.svd(x, full_matrices=False)
        return (actual[0] * weights[0]).sum() + (actual[-1] * weights[1]).sum()

    gradient = jg.grad(loss)(jg.asarray(x)).numpy()
    for position in np.ndindex(*shape):
        step = np.zeros(shape)
        step[position] = 1e-6
        slope = (loss(jg.asarray(x + step)) - loss(jg.asarray(x - step))).item() / 2e-6
        assert abs(gradient[position] - slope) < 1e-6


def test_gradients_that_are_not_determined_are_refused():
    with pytest.raises(jg.UnsupportedOp, match="complete"):
        jg.grad(lambda x: L.qr(x, mode="complete").R.sum())(jg.ones((3, 2)))
    with pytest.raises(jg.UnsupportedOp, match="full_matrices"):
        jg.grad(lambda x: L.svd(x).U.sum())(jg.ones((3, 2)))
