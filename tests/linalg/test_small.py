"""Small matrices without Python: in files and on GPUs code is generated for what LAPACK computes elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import compiler
from jitgraph.ir.target import Target
from jitgraph.runtime import loader
from tests.codegen.cuda.launched import code_of, run, schedule_of

L = jg.linalg
RNG = np.random.default_rng(11)


def _turned(size):
    """Matrices of which pivots are to be found: with zeros, and with small numbers, on the diagonal."""
    x = RNG.normal(size=(4, size, size))
    x[0] = np.eye(size)[::-1] + np.triu(np.ones((size, size)), 1)[::-1] * 0.5
    x[1, np.arange(size), np.arange(size)] *= 1e-9
    x[2] = -x[2]
    return x


def _all(x, b, positive):
    sign, size = L.slogdet(x)
    return (
        *(L.inv(x), L.solve(x, b), L.solve(x[0], b[0, :, 0]), L.det(x), sign, size),
        *(L.cholesky(positive), L.solve_triangular(positive, b, upper=True)),
        *(L.solve_triangular(positive, b, upper=False, unitriangular=True),),
    )


def _loss(x, b, positive):
    return sum((y * y).sum() for y in _all(x, b, positive))


def _without_python(function, *operands):
    """What code gives that calls no Python."""
    graph = jg.trace(function).lower(*operands).graph
    compiled = compiler.compile(graph, Target.host().without_python())
    assert not compiled.stages.schedule.calls
    return compiled.run([x.numpy() for x in operands])


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_values_and_gradients_are_lapack_s(size):
    x, b = _turned(size), RNG.normal(size=(4, size, 2))
    positive = x @ x.swapaxes(-1, -2) + np.eye(size)
    operands = [jg.asarray(y) for y in (x, b, positive)]
    for function in _all, jg.grad(_loss, argnums=(0, 1, 2)):
        wanted = function(*operands)
        for actual, due in zip(_without_python(lambda *xs, f=function: f(*xs), *operands), wanted, strict=True):
            scale = np.abs(due.numpy()).max(axis=tuple(range(1, due.ndim)), keepdims=True)
            assert np.all(np.abs(actual - due.numpy()) <= 1e-9 * scale)


REFUSED = {
    "inv": (lambda x: L.inv(x), "inv: a matrix is singular"),
    "solve": (lambda x: L.solve(x, x), "solve: a matrix is singular"),
    "cholesky": (lambda x: L.cholesky(x), "cholesky: a matrix is not positive definite"),
    "solve_triangular": (lambda x: L.solve_triangular(x, x, upper=True), "a zero on its diagonal"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_solution_is_refused(name):
    call, text = REFUSED[name]
    x = np.stack([np.eye(3), np.zeros((3, 3)), np.eye(3), np.diag([1.0, 0.0, 1.0])])
    for batch, number in ((x, 1), (x[2:], 1), (x[[0, 2, 3, 1]], 2), (np.stack([x[:2], x[2:]])[:, ::-1], 0)):
        with pytest.raises(np.linalg.LinAlgError, match=rf"{text} \(matrix {number} of the batch\)"):
            _without_python(call, jg.asarray(batch.copy()))
    with pytest.raises(np.linalg.LinAlgError, match=rf"{text}(?! \(matrix)"):
        _without_python(call, jg.asarray(x[1]))
    assert np.isfinite(_without_python(call, jg.asarray(x[:1]))[0]).all()
    assert _without_python(call, jg.asarray(x[:0]))[0].shape == (0, 3, 3)


def test_determinants_of_singular_matrices():
    x = jg.asarray(np.stack([np.ones((3, 3)), np.zeros((3, 3)), np.full((3, 3), np.nan)]))
    det, sign, size = _without_python(lambda x: (L.det(x), *L.slogdet(x)), x)
    assert det[:2].tolist() == sign[:2].tolist() == [0, 0] and np.isneginf(size[:2]).all()
    assert np.isnan(det[2]) and np.isnan(size[2])


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_second_order_of_determinants_of_singular_matrices(size):
    x = _turned(size)
    x[0], x[1] = 0.0, np.outer(np.arange(size) + 1.0, np.ones(size))
    x[2, 0] = x[2, -1]
    weights = jg.asarray(RNG.normal(size=x.shape))
    second = jg.grad(lambda x, w: (jg.grad(lambda x: L.det(x).sum())(x) * w).sum())
    (actual,) = _without_python(lambda x, w: second(x, w), jg.asarray(x), weights)
    assert np.allclose(actual, second(jg.asarray(x), weights).numpy(), rtol=1e-12, atol=1e-12)


def test_the_code_of_a_gpu_gives_the_same():
    x, b = (RNG.normal(size=s).astype("float32") for s in ((5, 3, 3), (5, 3, 2)))
    positive = x @ x.swapaxes(-1, -2) + np.eye(3, dtype="float32")
    function = jg.trace(lambda x, b, positive: _all(x, b, positive))
    operands = [jg.asarray(y) for y in (x, b, positive)]
    schedule = schedule_of(function.lower(*operands).graph)
    for actual, due in zip(run(schedule, code_of(schedule), [x, b, positive], 1), function(*operands), strict=True):
        assert np.allclose(actual, due.numpy(), rtol=2e-4, atol=2e-4)


def test_a_file_holds_them(tmp_path):
    """A step of a Kalman filter."""

    def step(x, p, z):
        gain = L.solve(p + jg.eye(3), p).mT
        return x + gain @ (z - x), p - gain @ p, L.slogdet(p + jg.eye(3)).logabsdet

    operands = [jg.asarray(y.astype("float32")) for y in (RNG.normal(size=3), np.eye(3) * 2, RNG.normal(size=3))]
    path = tmp_path / "filter.jg"
    jg.save(step, path, example_inputs=tuple(operands))
    alone = loader.load(path)(*(x.numpy() for x in operands))
    for actual, again, due in zip(alone, jg.load(path)(*operands), step(*operands), strict=True):
        assert np.allclose(actual, due.numpy(), rtol=1e-5) and np.allclose(again.numpy(), due.numpy(), rtol=1e-5)
    with pytest.raises(jg.UnsupportedOp, match="eig_of_real is evaluated by Python"):
        jg.save(lambda x: L.eigvals(x), path, example_inputs=(operands[1],))
