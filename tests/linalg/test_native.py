"""Matrix ops by generated code alone: judged by backward error, over hard matrices, dtypes, batches and named sizes."""

from __future__ import annotations

import shutil
from itertools import product

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.codegen.kernels.schedule_verifier import verify_schedule
from jitgraph.runtime import loader
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.linalg.native import (
    DTYPES,
    KINDS,
    RNG,
    SIZES,
    close,
    hard,
    is_orthonormal,
    named,
    native,
    orthogonal,
    run,
    wide,
)
from tests.runtime.c_library import Library

L = jg.linalg


def factors(x0):
    return (*L.lu(x0), *L.qr(x0), *L.qr(x0, mode="complete"))


@pytest.mark.parametrize(("wider", "dtype"), [*product([False], DTYPES), (True, "float64"), (True, "complex64")])
def test_factors_multiply_to_the_matrix(wider, dtype):
    eps = np.finfo(dtype).eps
    for size, more in product(SIZES, (0, 1, 9)):
        shape = (size, size + more + 1) if wider else (size + more, size)
        batch = np.stack([hard(kind, *shape, dtype) for kind in KINDS])
        bound = 8 * max(shape)
        for kind, actual in zip(
            KINDS, zip(batch, *named(factors, ("cd" if wider else "dc",), batch), strict=True), strict=True
        ):
            a, p, lower, upper, *orthogonal_and_upper = wide(*actual)
            scale = max(np.abs(a).max(), 1e-300)
            assert close(p @ lower @ (upper / scale), a / scale, 1.0, eps, bound), (shape, kind)
            assert np.abs(lower).max() <= 1.5 and np.all(np.triu(lower, 1) == 0) and np.all(np.tril(upper, -1) == 0)
            for q, r in zip(orthogonal_and_upper[::2], orthogonal_and_upper[1::2], strict=True):
                assert close(q @ (r / scale), a / scale, 1.0, eps, bound), (shape, kind)
                assert is_orthonormal(q, bound, eps) and np.all(np.tril(r, -1) == 0), (shape, kind)


def solutions(x0, x1):
    return L.solve(x0, x1), L.lu_solve(*L.lu_factor(x0), x1), L.inv(x0)


def by_triangles(x0, x1):
    lower = L.solve_triangular(x0, x1, upper=False, unitriangular=True)
    return lower, L.solve_triangular(x0, x1, upper=True)


def is_solved(a, x, b, bound):
    """|a x - b| <= bound (|a| |x| + |b|): Higham, Accuracy and stability, 2nd ed., theorems 8.5 and 9.4."""
    residual, scale = np.abs(a @ x - b), np.abs(a) @ np.abs(x) + np.abs(b)
    return residual.max() <= bound * scale.max()


@pytest.mark.parametrize("dtype", DTYPES)
def test_solutions_have_small_residuals(dtype):
    for size in SIZES:
        bound = 8 * size * np.finfo(dtype).eps
        b = hard("normal", size, 3, dtype)
        regular = np.stack([hard(kind, size, size, dtype) for kind in ("normal", "ill", "repeated")])
        regular[1] += np.asarray(1e-3 * np.eye(size), dtype)
        without_pivots = 1e-3 * (np.eye(size) + np.triu(regular[0], 1))[:, ::-1]  # zeros on the diagonal
        x = np.concatenate([regular, without_pivots.astype(dtype)[None]])
        every_b = np.stack([b] * 4)
        for actual in zip(x, *named(solutions, ("cc", "cb"), x, every_b), strict=True):
            a, right, solved, by_factors, inverse = wide(actual[0], b, *actual[1:])
            assert is_solved(a, solved, right, bound) and is_solved(a, by_factors, right, bound), size
            assert is_solved(a, inverse, np.eye(size), bound), size
        for actual in zip(regular, *named(by_triangles, ("cc", "cb"), regular, every_b[:3]), strict=True):
            a, right, lower, upper = wide(actual[0], b, *actual[1:])
            assert is_solved(np.tril(a, -1) + np.eye(size), lower, right, bound), size
            assert is_solved(np.triu(a), upper, right, bound), size


def definite(x0):
    return L.cholesky(x0), L.det(x0), *L.slogdet(x0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky_and_determinants(dtype):
    eps = np.finfo(dtype).eps
    for size in SIZES:
        spectra = (np.ones(size), RNG.uniform(1, 3, size), np.logspace(0, -3, size))
        turns = [orthogonal(size, size, dtype) for _ in spectra]
        x = np.stack([q * values @ q.conj().T for q, values in zip(turns, spectra, strict=True)]).astype(dtype)
        x = (x + x.conj().swapaxes(-1, -2)) / 2
        for values, actual in zip(spectra, zip(x, *named(definite, ("cc",), x), strict=True), strict=True):
            a, lower, det, sign, size_of = wide(*actual)
            assert np.all(np.triu(lower, 1) == 0) and close(lower @ lower.conj().T, a, a, eps, 8 * size)
            bound = 8 * size * size * eps * values.max() / values.min()
            due = np.linalg.slogdet(a)
            assert abs(sign - due[0]) <= bound and abs(size_of - due[1]) <= bound
            assert abs(det - np.linalg.det(a)) <= bound * abs(np.linalg.det(a))


def every(x0, x1):
    return definite(x0) + tuple(L.lu(x1)) + tuple(L.qr(x1)) + (L.solve(x1, x0), L.inv(x1))


def test_batches_and_named_sizes_have_the_bits_of_their_matrices():
    for size in (0, 5, 8, 19):
        x = RNG.normal(size=(2, 3, size, size))
        positive = x @ x.swapaxes(-1, -2) + np.eye(size)
        full = named(every, ("cc", "cc"), positive, x)
        for i in np.ndindex(2, 3) if size == 19 else [(1, 1)]:
            for all_of_them, one in zip(full, run(every, positive[i], x[i]), strict=True):
                assert np.array_equal(all_of_them[i], one)


def all_kernels(x0, x1):
    factors_of = L.cholesky(x0), *L.lu(x1), *L.qr(x1), *L.eigh(x0), *L.svd(x1)
    return *factors_of, L.solve(x0, x1.mT), L.slogdet(x0).logabsdet, L.lu_solve(*L.lu_factor(x0), x1.mT)


def test_levels_and_the_slow_executor_give_the_same_bits():
    """The executor poisons memory that nothing was written to, and refuses an index outside of its buffer."""
    x = hard("normal", 9, 5, "float32")
    positive = x.T @ x + np.eye(5, dtype="float32")
    types = ((5, 5), "float32"), ((9, 5), "float32")
    names = ("x0", ((0, "n"), (1, "n"))), ("x1", ((0, "m"), (1, "n")))
    result = native(all_kernels, *types, names=names)
    verify_schedule(result.stages.schedule)
    actual = result.run([positive, x])
    for other in (
        native(all_kernels, *types, names=names, level="x86-64-v3").run([positive, x]),
        execute_schedule(result.stages.schedule, [positive, x]),
    ):
        assert all(map(np.array_equal, actual, other))


REFUSED = {
    "cholesky": (lambda x: L.cholesky(x), "cholesky: a matrix is not positive definite"),
    "solve": (lambda x: L.solve(x, x), "solve: a matrix is singular"),
    "inv": (lambda x: L.inv(x), "inv: a matrix is singular"),
    "solve_triangular": (lambda x: L.solve_triangular(x, x, upper=True), "solve_triangular: .* a zero on its diagonal"),
}


@pytest.mark.parametrize("size", [3, 6, 20])
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_solution_is_refused(name, size):
    function, text = REFUSED[name]
    x = np.stack([np.eye(size), np.zeros((size, size)), np.eye(size)])
    x[1, 0, 0] = 1
    with pytest.raises(np.linalg.LinAlgError, match=text + r" \(matrix 1 of the batch\)"):
        run(function, x)
    assert all(np.isfinite(y).all() for y in run(function, x[::2]))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_ends_and_stays_inside(value):
    """A NaN or an infinity gives numbers that are none, or an error; no loop goes on, no index leaves its matrix."""
    for at in (0, 0), (5, 7), (10, 10):
        x = RNG.normal(size=(11, 11)) + 11 * np.eye(11)
        x[at] = value
        for function in factors, L.inv, L.cholesky, L.det:
            try:
                result = run(function, x)
            except np.linalg.LinAlgError:
                continue
            assert np.isinf(value) or not all(np.isfinite(y).all() for y in result)


def test_no_elements():
    x = np.zeros((0, 0))
    result = run(lambda x: (L.cholesky(x), L.inv(x), L.solve(x, x), *L.qr(x), *L.lu(x), L.det(x), *L.slogdet(x)), x)
    assert [y.shape for y in result] == [(0, 0)] * 8 + [(), (), ()] and result[8] == result[9] == 1 and result[10] == 0
    thin = np.zeros((3, 0))
    q, r, p, lower, upper = run(lambda x: (*L.qr(x, mode="complete"), *L.lu(x)), thin)
    assert np.array_equal(q, np.eye(3)) and r.shape == (3, 0) and np.array_equal(p, np.eye(3))
    assert lower.shape == (3, 0) and upper.shape == (0, 0)


def test_gradients_are_those_of_differences():
    """The rules of gradients are compositions of the same ops, and so native too."""
    x = RNG.normal(size=(6, 6)) + 6 * np.eye(6)
    weights = RNG.normal(size=(7, 6, 6))

    def loss(x, weights):
        positive = x @ x.mT
        results = L.cholesky(positive), L.solve(x, positive), L.inv(x), *L.qr(x), *L.lu(x)[1:]
        return sum((weights[i] * y).sum() for i, y in enumerate(results)) + L.slogdet(x).logabsdet

    (gradient,) = run(jg.grad(loss), x, weights)
    direction, step = RNG.normal(size=(6, 6)), 1e-6
    (high,), (low,) = (run(loss, x + sign * step * direction, weights) for sign in (1, -1))
    due = (high - low) / (2 * step)
    assert abs((gradient * direction).sum() - due) <= 1e-6 * abs(due)


# --- a Gaussian process -----------------------------------------------------------------------------------------------


def kernel_of(x, y, parameters):
    """exp(2 s - ((x - y) / exp(l))**2 / 2), of the parameters l, s and that of the noise."""
    distance = (x[:, None] - y[None, :]) / jg.exp(parameters[0])
    return jg.exp(2 * parameters[1] - 0.5 * distance**2)


def with_noise(x, parameters):
    return kernel_of(x, x, parameters) + jg.exp(2 * parameters[2]) * jg.eye(x.shape[0], dtype=x.dtype)


def likelihood(parameters, x, y):
    """The negative logarithm of the marginal likelihood: Rasmussen and Williams (2006), algorithm 2.1."""
    lower = L.cholesky(with_noise(x, parameters))
    white = L.solve_triangular(lower, y, upper=False)
    return 0.5 * (white * white).sum() + jg.log(L.diagonal(lower)).sum()


def fit_step(parameters, x, y):
    value, gradient = jg.value_and_grad(likelihood)(parameters, x, y)
    return value, parameters - 0.01 * gradient


def predict(parameters, x, y, at):
    lower = L.cholesky(with_noise(x, parameters))
    across = kernel_of(x, at, parameters)
    white = L.solve_triangular(lower, across, upper=False)
    mean = across.mT @ L.cholesky_solve(y, lower)
    return mean, jg.exp(2 * parameters[1]) - (white * white).sum(axis=0)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is needed to compile loader.c")
    return Library(tmp_path_factory.mktemp("loader"))


def test_a_gaussian_process_runs_from_files(tmp_path, library):
    """Fitted and asked at sizes other than the example's, by both loaders."""
    parameters = np.array([-0.5, 0.1, -1.0])

    def data(count, requested):
        x = np.sort(RNG.uniform(-3, 3, count))
        return x, np.sin(2 * x) + 0.1 * RNG.normal(size=count), np.linspace(-3, 3, requested)

    names = {"x": {0: "n"}, "y": {0: "n"}, "at": {0: "m"}}
    fit_names = {name: names[name] for name in ("x", "y")}
    for function, dynamic, count in (fit_step, fit_names, 2), (predict, names, 3):
        path = tmp_path / f"{function.__name__}.jg"
        example = [jg.asarray(a) for a in data(12, 5)[:count]]
        jg.save(jg.trace(function, dynamic_shapes=dynamic), path, example_inputs=(jg.asarray(parameters), *example))
        by_python, by_c = loader.load(path), library.load(path)
        for sizes in (12, 5), (40, 9), (3, 1):
            arrays = [parameters, *data(*sizes)[:count]]
            due = [y.numpy() for y in function(*map(jg.asarray, arrays))]
            for actual, again, wanted in zip(by_python(*arrays), by_c(*arrays), due, strict=True):
                assert np.allclose(actual, wanted, rtol=1e-10, atol=1e-10), function
                assert np.array_equal(actual, again)
        by_c.close()
