"""Orthogonal polynomials against SciPy's, and the spherical Bessel function of order 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import jitgraph as jg
from jitgraph.errors import DTypeError
from tests.transforms.modes import Mode, each_mode

ORACLES: dict[str, Callable[[Any, Any], Any]] = {
    "chebyshev_polynomial_t": special.eval_chebyt,
    "chebyshev_polynomial_u": special.eval_chebyu,
    "chebyshev_polynomial_v": lambda n, x: special.eval_chebyu(n, x) - (special.eval_chebyu(n - 1, x) if n else 0),
    "chebyshev_polynomial_w": lambda n, x: special.eval_chebyu(n, x) + (special.eval_chebyu(n - 1, x) if n else 0),
    "shifted_chebyshev_polynomial_t": special.eval_sh_chebyt,
    "shifted_chebyshev_polynomial_u": special.eval_sh_chebyu,
    "shifted_chebyshev_polynomial_v": lambda n, x: ORACLES["chebyshev_polynomial_v"](n, 2 * x - 1),
    "shifted_chebyshev_polynomial_w": lambda n, x: ORACLES["chebyshev_polynomial_w"](n, 2 * x - 1),
    "hermite_polynomial_h": special.eval_hermite,
    "hermite_polynomial_he": special.eval_hermitenorm,
    "laguerre_polynomial_l": special.eval_laguerre,
    "legendre_polynomial_p": special.eval_legendre,
}
X = np.array([-3.0, -1.0, -0.7, -0.25, 0.0, 0.125, 0.5, 0.9, 1.0, 1.75])
DEGREES = (0, 1, 2, 3, 7, 16, 17, 23)


def close(actual: Any, wanted: Any, tolerance: float) -> None:
    np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(wanted).max())))


@each_mode
@pytest.mark.parametrize("name", ORACLES)
def test_values(name: str, mode: Mode) -> None:
    function, oracle = getattr(jg.special, name), ORACLES[name]
    for n in DEGREES:
        wanted = oracle(n, X)
        close(mode(lambda x, n=n: function(x, n))(jg.asarray(X)).numpy(), wanted, 1e-12)
    degrees = np.array([*DEGREES, -1, -5])
    wanted = [oracle(n, x) if n >= 0 else 0.0 for n, x in zip(degrees, X, strict=True)]
    close(mode(function)(jg.asarray(X), jg.asarray(degrees)).numpy(), np.array(wanted), 1e-12)
    single = mode(lambda x: function(x, 5))(jg.asarray(X.astype(np.float32)))
    assert single.dtype == np.float32
    np.testing.assert_array_equal(
        single.numpy(), function(jg.asarray(X.astype(np.float32)).astype(jg.float64), 5).astype(jg.float32).numpy()
    )


@each_mode
@pytest.mark.parametrize("name", ORACLES)
def test_gradients(name: str, mode: Mode) -> None:
    function, h = getattr(jg.special, name), 1e-6
    inside = X[np.abs(X) < 1]
    for n in (0, 1, 4, np.array([0, 3, 5, 1, 40, 2]), 18):
        degree = jg.asarray(n) if isinstance(n, np.ndarray) else n
        result = mode(jg.grad(lambda x, degree=degree: function(x, degree).sum()))(jg.asarray(inside)).numpy()
        up, down = (function(jg.asarray(inside + step), degree).numpy() for step in (h, -h))
        np.testing.assert_allclose(result, (up - down) / (2 * h), rtol=1e-5, atol=1e-5 * max(1, np.abs(result).max()))


@each_mode
def test_a_low_degree_beside_one_that_overflows(mode: Mode) -> None:
    """Each element stops at its own degree, so nothing infinite reaches its gradient."""
    x, n = jg.asarray([3.0, 3.0], dtype=jg.float64), jg.asarray([2, 900])
    value, slope = mode(jg.value_and_grad(lambda x: jg.special.hermite_polynomial_h(x, n)[0]))(x)
    assert float(value) == 4 * 9 - 2 and float(slope[0]) == 24.0


@each_mode
def test_shapes(mode: Mode) -> None:
    def table(x: Any, n: Any) -> Any:
        return jg.special.legendre_polynomial_p(x[:, None], n)

    x, n = jg.asarray(X), jg.arange(6)
    result = mode(table)(x, n).numpy()
    assert result.shape == (10, 6)
    close(result, np.array([special.eval_legendre(k, X) for k in range(6)]).T, 1e-12)
    rows = mode(lambda x, n: jg.vmap(lambda each: jg.special.legendre_polynomial_p(x, each))(n))(x, n)
    np.testing.assert_array_equal(rows.numpy().T, result)
    assert mode(table)(jg.zeros((0,)), n).shape == (0, 6)
    assert mode(lambda x: jg.special.laguerre_polynomial_l(x, 3))(jg.asarray(2)).dtype == np.float32


def test_degrees_are_integers() -> None:
    with pytest.raises(DTypeError, match="the degree of a polynomial is an integer, not float32"):
        jg.special.chebyshev_polynomial_t(jg.ones(3), jg.ones(3))
    with pytest.raises(DTypeError, match="astype"):
        jg.special.legendre_polynomial_p(jg.ones(3), 2.5)


@each_mode
def test_the_spherical_bessel_function(mode: Mode) -> None:
    x = np.concatenate([[0.0, -0.0, 1e-300, 1e-9, 0.4999, 0.5, 0.5001, np.inf, -np.inf], np.linspace(-40, 40, 400)])
    result = mode(jg.special.spherical_bessel_j0)(jg.asarray(x)).numpy()
    wanted = np.where(np.isinf(x), 0.0, special.spherical_jn(0, np.abs(np.where(np.isinf(x), 1.0, x))))
    np.testing.assert_allclose(result, wanted, rtol=1e-13, atol=2e-17)
    finite = x[np.isfinite(x)]
    slope = mode(jg.grad(lambda x: jg.special.spherical_bessel_j0(x).sum()))(jg.asarray(finite)).numpy()
    wanted = np.sign(finite) * special.spherical_jn(0, np.abs(finite), derivative=True)
    np.testing.assert_allclose(slope, wanted, rtol=1e-11, atol=1e-15)
    assert np.isnan(float(jg.special.spherical_bessel_j0(jg.asarray(np.nan))))


def test_other_names() -> None:
    assert jg.special.gammaln is jg.special.lgamma and jg.special.psi is jg.special.digamma
    assert jg.special.round is jg.round
