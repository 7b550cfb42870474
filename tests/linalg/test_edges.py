"""jg.linalg at its edges: what is refused and how, matrices without elements, NaN, ranks, names for sizes, vmap."""

from __future__ import annotations

import numpy as np
import pytest

import jitgraph as jg

L = jg.linalg
NAN = np.array([[[1.0, 0.0], [0.0, 2.0]], [[np.nan, 1.0], [1.0, 2.0]]])
RNG = np.random.default_rng(8)

REFUSED = {
    "zero on the diagonal": (
        lambda: L.solve_triangular(
            jg.asarray([[[1.0, 2.0], [0.0, 3.0]], [[0.0, 1.0], [0.0, 1.0]]]), jg.ones((2, 2, 1)), upper=True
        ),
        jg.LinAlgError,
        r"zero on its diagonal \(matrix 1 of the batch\)",
    ),
    "NaN in eigh": (
        lambda: L.eigvalsh(jg.asarray(NAN)),
        jg.LinAlgError,
        r"matrix 1 of the batch\)[\s\S]*hint: look for NaN",
    ),
    "NaN in eig": (lambda: L.eigvals(jg.asarray(NAN)), jg.LinAlgError, r"matrix 1 of the batch"),
    "NaN in lstsq": (lambda: L.lstsq(jg.asarray(NAN), jg.asarray(NAN)), jg.LinAlgError, "matrix 1 of the batch"),
    "pivots": (
        lambda: L.lu_solve(jg.eye(2), jg.asarray([3, 1], dtype=jg.int32), jg.ones((2, 1))),
        jg.LinAlgError,
        "between 1 and 2",
    ),
    "pivots that are places": (
        lambda: L.lu_solve(jg.eye(2), jg.asarray([1, 2]), jg.ones((2, 1))),
        jg.DTypeError,
        "int32",
    ),
    "integers": (lambda: L.matrix_exp(jg.ones((2, 2), dtype=jg.int64)), jg.DTypeError, "float32 or float64"),
    "integers in norms": (lambda: L.norm(jg.asarray([1, 2])), jg.DTypeError, "a float or complex dtype"),
    "a vector": (lambda: L.matrix_norm(jg.ones(3)), jg.ShapeError, "takes matrices in the last two axes"),
    "no square": (lambda: L.matrix_power(jg.ones((2, 3)), 2), jg.ShapeError, "square"),
    "a power": (lambda: L.matrix_power(jg.eye(2), 0.5), jg.ShapeError, r"should be an int[\s\S]*matrix_exp"),
    "an order": (lambda: L.matrix_norm(jg.eye(2), ord=3), jg.ShapeError, "'fro' and 'nuc'"),
    "an order of no axes": (lambda: L.norm(jg.ones((2, 2, 2)), 2), jg.ShapeError, "axis= says"),
    "three axes": (lambda: L.norm(jg.ones((2, 2, 2)), 2, axis=(0, 1, 2)), jg.ShapeError, "one axis, or two"),
    "cross of pairs": (lambda: L.cross(jg.ones(2), jg.ones(2)), jg.ShapeError, "vectors of 3 elements"),
    "cross of one that broadcasts": (
        lambda: L.cross(jg.ones(3), jg.ones((3, 1))),
        jg.ShapeError,
        "vectors of 3 elements",
    ),
    "outer of matrices": (lambda: L.outer(jg.eye(2), jg.ones(2)), jg.ShapeError, "two vectors"),
    "one factor": (lambda: L.multi_dot([jg.eye(2)]), jg.ShapeError, "at least two"),
    "a vector between": (lambda: L.multi_dot([jg.eye(2), jg.ones(2), jg.eye(2)]), jg.ShapeError, "at 1"),
    "a tolerance below 0": (lambda: L.pinv(jg.eye(2), rtol=-0.1), jg.ShapeError, "at least 0"),
    "qr's mode": (lambda: L.qr(jg.eye(2), mode="r"), jg.ShapeError, r"jg\.linalg\.qr\(x\)\.R"),
    "householder of wide ones": (
        lambda: L.householder_product(jg.ones((2, 3)), jg.ones(2)),
        jg.ShapeError,
        "rows as columns",
    ),
    "a keyword of NumPy": (lambda: L.pinv(jg.eye(2), rcond=0.1), jg.JitgraphError, "write rtol"),
    "a keyword of SciPy": (lambda: L.cholesky(jg.eye(2), lower=True), jg.JitgraphError, "write upper"),
    "triangles of eigh": (lambda: L.eigh(jg.eye(2), UPLO="U"), jg.JitgraphError, "both triangles"),
    "SciPy's name": (lambda: L.expm, AttributeError, r"write jg\.linalg\.matrix_exp"),
    "PyTorch's name": (lambda: L.inv_ex, AttributeError, "without _ex"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        call()


EMPTY = {
    "lu": lambda m: L.lu(m(0, 2)),
    "lstsq of no rows": lambda m: L.lstsq(m(0, 2), m(0, 1)),
    "lstsq of no columns": lambda m: L.lstsq(m(2, 0), m(2, 1)),
    "eig": lambda m: L.eig(m(0, 0)),
    "matrix_exp": lambda m: L.matrix_exp(m(2, 0, 0)),
    "no matrices": lambda m: (L.matrix_exp(m(0, 2, 2)), L.lu_factor(m(0, 2, 2)), L.eigvals(m(0, 2, 2))),
    "rank": lambda m: L.matrix_rank(m(0, 3)),
    "norms": lambda m: [L.norm(m(0, 0), p) for p in ("fro", "nuc", 1, 2, jg.inf)],
    "vector norms": lambda m: [L.vector_norm(m(0), ord=p) for p in (0, 1, 2, 3, jg.inf)],
    "triangular": lambda m: L.solve_triangular(m(0, 0), m(0, 2), upper=True),
    "householder": lambda m: L.householder_product(m(3, 0), m(0)),
}


def _leaves(tree):
    return jg.tree.flatten(tree)[0]


@pytest.mark.parametrize("name", EMPTY)
def test_matrices_without_elements(name):
    eager = _leaves(EMPTY[name](lambda *shape: jg.zeros(shape)))
    traced = _leaves(jg.trace(lambda: EMPTY[name](lambda *shape: jg.zeros(shape)))())
    assert [(x.shape, x.dtype, x.tolist()) for x in eager] == [(x.shape, x.dtype, x.tolist()) for x in traced]
    assert not any(np.any(x.numpy()) for x in eager)


def test_factors_in_blocks_and_of_singular_matrices():
    for shape in (150, 150), (150, 90), (90, 150):
        x = RNG.normal(size=shape)
        p, low, up = L.lu(jg.asarray(x))
        assert np.allclose((p @ low @ up).numpy(), x, rtol=1e-12, atol=1e-12)
        assert np.abs(low.numpy()).max() == 1
    b = RNG.normal(size=(150, 3))
    triangle = np.triu(RNG.normal(size=(150, 150))) + 20 * np.eye(150)
    for inputs, upper in (triangle, True), (triangle.T.copy(), False):
        actual = L.solve_triangular(jg.asarray(inputs), jg.asarray(b), upper=upper).numpy()
        assert np.allclose(inputs @ actual, b, rtol=1e-12, atol=1e-12)
    for x in np.zeros((3, 3)), np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 2.0], [2.0, 4.0]]):
        p, low, up = L.lu(jg.asarray(x))
        assert np.array_equal((p @ low @ up).numpy(), x)


def test_rank_and_least_squares_of_deficient_matrices():
    x = np.outer(np.arange(1.0, 5), [1.0, 2.0, 3.0])
    actual = L.lstsq(jg.asarray(x), jg.ones(4, dtype=jg.float64))
    wanted = np.linalg.lstsq(x, np.ones(4), rcond=None)
    assert np.allclose(actual.solution.numpy(), wanted[0]) and actual.rank.item() == wanted[2] == 1
    assert np.allclose(actual.residuals.numpy(), ((x @ wanted[0] - 1) ** 2).sum())
    both = np.stack([x[:3], np.eye(3)])
    assert L.matrix_rank(jg.asarray(both)).tolist() == np.linalg.matrix_rank(both).tolist() == [1, 3]
    assert L.matrix_rank(jg.asarray(both), atol=jg.asarray([100.0, 0.5])).tolist() == [0, 3]


def test_conditions_of_singular_matrices_are_infinite():
    x = np.stack([np.ones((2, 2)), np.diag([1.0, 2.0])])
    for p in (1, -1, jg.inf, "fro"):
        assert L.cond(jg.asarray(x), p).tolist() == pytest.approx(np.linalg.cond(x, p).tolist())
    assert np.isinf(L.cond(jg.zeros((2, 2))).item())


def test_exponentials_of_all_sizes():
    x = np.diag([-700.0, 0.0, 300.0])
    assert np.allclose(L.matrix_exp(jg.asarray(x)).numpy(), np.diag(np.exp([-700.0, 0.0, 300.0])), rtol=1e-12)
    turn = np.array([[0.0, -1000.0], [1000.0, 0.0]])
    wanted = [[np.cos(1000), -np.sin(1000)], [np.sin(1000), np.cos(1000)]]
    assert np.allclose(L.matrix_exp(jg.asarray(turn)).numpy(), wanted, atol=1e-12)
    batch = np.stack([turn, turn * 0, turn / 1000])  # each halved as often as it needs
    for actual, each in zip(L.matrix_exp(jg.asarray(batch)).numpy(), batch, strict=True):
        assert np.array_equal(actual, L.matrix_exp(jg.asarray(each)).numpy())
    assert np.isnan(L.matrix_exp(jg.asarray(np.array([[np.nan, 1.0], [0.0, 1.0]]))).numpy()).all()


def test_gradients_of_norms_at_zero_are_zero():
    for p in (2, 3, 1.5, 0.5):
        gradient = jg.grad(lambda x, p=p: L.vector_norm(x, ord=p))
        assert gradient(jg.zeros(3)).tolist() == [0, 0, 0]
        assert jg.grad(lambda x, g=gradient: g(x).sum())(jg.zeros(3)).tolist() == [0, 0, 0]
        assert np.isfinite(gradient(jg.asarray([0.0, 2.0, -3.0])).numpy()).all()
    assert jg.grad(lambda x: L.matrix_norm(x))(jg.zeros((2, 2))).tolist() == [[0, 0], [0, 0]]


NAMED = {
    "lu": lambda x: sum((y * y).sum() for y in L.lu(x)),
    "nuclear norm": lambda x: L.norm(x, "nuc"),
    "lstsq": lambda x: (L.lstsq(x, jg.ones_like(x)).solution ** 2).sum(),
    "pinv": lambda x: (L.pinv(x) ** 2).sum(),
    "diagonal": lambda x: (L.diagonal(x) ** 2).sum(),
    "rank": lambda x: L.matrix_rank(x) + 0 * x.sum(),
}


@pytest.mark.parametrize("name", NAMED)
def test_names_for_rows_and_columns(name):
    both = jg.value_and_grad(NAMED[name])
    traced = jg.trace(lambda x: both(x), dynamic_shapes={"x": {0: "n", 1: "m"}})
    for shape in (3, 3), (4, 2), (2, 5):
        x = jg.asarray(RNG.normal(size=shape) + 3 * np.eye(*shape))
        for actual, wanted in zip(traced(x), both(x), strict=True):
            assert actual.shape == wanted.shape and np.allclose(actual.numpy(), wanted.numpy(), rtol=1e-11, atol=1e-11)


def test_vmap_is_a_loop_over_matrices():
    x = jg.asarray(RNG.normal(size=(4, 3, 3)) + 3 * np.eye(3))

    def all_of(x):
        lu, pivots = L.lu_factor(x)
        return (
            *(L.matrix_exp(x), lu, pivots, L.lu_solve(lu, pivots, x[:, 0]), L.eigvals(x), L.pinv(x, rtol=0.01)),
            *(L.solve_triangular(x, x[0], upper=True), L.norm(x, 2), L.vector_norm(x, ord=3), L.cond(x, 1)),
            *(
                L.lstsq(x, x[0]).solution,
                L.matrix_rank(x),
                L.cross(x, x[0]),
                L.vander(x[0]),
                L.householder_product(x, x[0]),
            ),
            *(jg.grad(lambda x: L.matrix_exp(x).sum() + L.lu(x).U.sum())(x), L.diagonal(x, offset=1)),
        )

    actual = jg.vmap(all_of)(x)
    rows = [all_of(x[i]) for i in range(4)]
    for number, result in enumerate(actual):
        assert np.allclose(result.numpy(), np.stack([row[number].numpy() for row in rows]), rtol=1e-11, atol=1e-12)


def test_loops_and_branches_of_complex_matrices():
    z = jg.asarray(RNG.normal(size=(4, 3, 3)) + 1j * RNG.normal(size=(4, 3, 3)))

    def function(z):
        start = jg.ones(3, dtype=jg.complex128)
        end, values = jg.scan(lambda x, a: (L.solve(a, x) / 10, L.eigvals(a)), start, z)
        chosen = jg.cond(z.real.sum() > 0, lambda a: L.inv(a), lambda a: L.matrix_exp(a), z[0])
        return end, values, chosen, L.eigh(z).eigenvectors, L.slogdet(z).sign

    for actual, wanted in zip(jg.trace(lambda z: function(z))(z), function(z), strict=True):
        assert np.array_equal(actual.numpy(), wanted.numpy())


def test_the_phase_of_complex_vectors_is_of_no_account():
    """Gradients of losses that phases leave alone, against central differences along one direction."""
    x, step = (RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3)) + np.diag([1, 4, 8]) for _ in "ab")
    weights = jg.asarray(RNG.normal(size=(3, 3)))
    losses = {
        "eigh": lambda z: (lambda w, v: (v.abs() ** 2 * weights).sum() + (w**3).sum())(*L.eigh(z)),
        "eig": lambda z: (lambda w, v: (v.abs() ** 2 * weights).sum() + (w * w).real.sum())(*L.eig(z)),
        "svd": lambda z: (lambda u, s, v: ((u * s) @ v * u.shape[0]).imag.sum() + (u @ v * weights).real.sum())(
            *L.svd(z)
        ),
    }
    for name, loss in losses.items():
        gradient = jg.grad(loss)(jg.asarray(x)).numpy()
        h = 1e-6
        slope = (loss(jg.asarray(x + h * step)) - loss(jg.asarray(x - h * step))).item() / (2 * h)
        assert np.sum(gradient.conj() * step).real == pytest.approx(slope, rel=1e-6), name


def test_what_cancellation_leaves_is_no_dependence_on_a_phase():
    """The sum of eigenvalues is the trace: its second order is 0, of which rounding leaves turns at random."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, weights = (jg.asarray(rng.normal(size=(4, 4))) for _ in "ab")
        slope = lambda x, w=weights: (jg.grad(lambda x: L.eigvals(x).real.sum())(x) * w).sum()
        for second in jg.grad(slope), jg.trace(jg.grad(slope)):
            assert np.allclose(second(x).numpy(), 0.0, atol=1e-10)


def test_a_loss_that_depends_on_a_phase_is_refused():
    z = jg.asarray(RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3)))
    for name, loss in {
        "eigh": lambda z: L.eigh(z).eigenvectors.real.sum(),
        "eig": lambda z: L.eig(z).eigenvectors.real.sum(),
        "svd": lambda z: L.svd(z).U.real.sum(),
    }.items():
        for gradient in jg.grad(loss), jg.trace(jg.grad(loss)):
            with pytest.raises(ValueError, match=rf"{name}: a loss that depends on the phase"):
                gradient(z)
