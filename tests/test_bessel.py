"""Bessel functions J, Y and K: against mpmath and SciPy, at limits and zeros, with gradients, traced and mapped."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import jitgraph as jg
from tests.graphs import needs_native

EXACT: dict[str, Any] = {
    "j0": lambda x: mp.besselj(0, x),
    "j1": lambda x: mp.besselj(1, x),
    "y0": lambda x: mp.bessely(0, x),
    "y1": lambda x: mp.bessely(1, x),
    "k0": lambda x: mp.besselk(0, x),
    "k1": lambda x: mp.besselk(1, x),
    "k0e": lambda x: mp.exp(x) * mp.besselk(0, x),
    "k1e": lambda x: mp.exp(x) * mp.besselk(1, x),
}
RNG = np.random.default_rng(3)
POINTS = np.concatenate([RNG.uniform(1e-6, 2, 60), RNG.uniform(2, 8, 60), RNG.uniform(8, 1000, 60), [2.0, 8.0, 1e-200]])
LIMITS = np.array([0.0, -0.0, -1.0, -9.0, np.inf, -np.inf, np.nan, 1e-310, 1e5])
OSCILLATING = ("j0", "j1", "y0", "y1")


def function(name: str) -> Any:
    return getattr(jg.special, name)


def eps_of(actual: Any, name: str, points: Any) -> float:
    """The greatest error in units of 2^-53 of the result; for J and Y of sqrt(2 / (pi x)), the height of the waves."""
    worst = 0.0
    with mp.workdps(40):
        for value, x in zip(actual.tolist(), points.tolist(), strict=True):
            exact = EXACT[name](mp.mpf(x))
            if abs(exact) > 1e-290:
                height = min(mp.mpf(1), mp.sqrt(2 / (mp.pi * x))) if name in OSCILLATING else mp.mpf(0)
                worst = max(worst, float(abs(mp.mpf(value) - exact) / max(height, abs(exact))) * 2**53)
    return worst


@pytest.mark.parametrize("name", EXACT)
def test_values_against_many_digits(name: str) -> None:
    assert eps_of(function(name)(POINTS).numpy(), name, POINTS) < 24


@pytest.mark.parametrize("name", EXACT)
def test_limits_are_scipys(name: str) -> None:
    np.testing.assert_allclose(function(name)(LIMITS).numpy(), getattr(scipy.special, name)(LIMITS), rtol=2e-11)


@pytest.mark.parametrize(("order", "name", "count"), [(0, "y0", 3), (1, "y1", 2)])
def test_zeros_of_the_second_kind_below_8_keep_their_precision(order: int, name: str, count: int) -> None:
    zeros = [float(mp.besselyzero(order, k)) for k in range(1, count + 1)]
    steps = np.concatenate([RNG.uniform(-0.2, 0.2, 40), 10.0 ** RNG.uniform(-15, -1, 40), [0.125, -0.125, 0.0]])
    points = np.concatenate([zero + steps for zero in zeros])
    with mp.workdps(40):
        exact = [EXACT[name](mp.mpf(x)) for x in points.tolist()]
        result = function(name)(points).tolist()
        errors = [abs((mp.mpf(f) - e) / e) * 2**53 for f, e in zip(result, exact, strict=True)]
    assert max(errors) < 64


@pytest.mark.parametrize(("order", "name"), [(0, "j0"), (1, "j1")])
def test_zeros_of_the_first_kind_below_8_keep_their_precision(order: int, name: str) -> None:
    near = [float(mp.besseljzero(order, k)) for k in (1, 2)]
    points = np.array([np.nextafter(z, way) for z in near for way in (0.0, 9.0)] + near)
    with mp.workdps(40):
        exact = [EXACT[name](mp.mpf(x)) for x in points.tolist()]
    for value, wanted in zip(function(name)(points).tolist(), exact, strict=True):
        assert abs(mp.mpf(value) - wanted) <= 1e-14 * abs(wanted)


def test_signs_of_zeros_and_of_arguments() -> None:
    assert np.signbit(jg.special.j1(np.array([-0.0, 0.0])).numpy()).tolist() == [True, False]
    x = np.array([0.3, 5.0, 30.0])
    assert np.array_equal(jg.special.j0(-x).numpy(), jg.special.j0(x).numpy())
    assert np.array_equal(jg.special.j1(-x).numpy(), -jg.special.j1(x).numpy())


@pytest.mark.parametrize("name", EXACT)
def test_gradients_of_both_orders_are_the_derivatives(name: str) -> None:
    points = np.array([0.05, 0.7, 1.9999, 2.0001, 3.1, 7.9, 8.1, 40.0])
    slope = jg.grad(lambda x: function(name)(x).sum())
    curve = jg.grad(lambda x: slope(x).sum())
    with mp.workdps(40):
        wanted = [[float(mp.diff(EXACT[name], mp.mpf(x), n)) for x in points.tolist()] for n in (1, 2)]
    np.testing.assert_allclose(slope(jg.asarray(points)).numpy(), wanted[0], rtol=3e-12, atol=1e-15)
    np.testing.assert_allclose(curve(jg.asarray(points)).numpy(), wanted[1], rtol=3e-11, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "slope"),
    [("j0", 0), ("j1", 0.5), ("y0", np.inf), ("y1", np.inf), *((k, -np.inf) for k in ("k0", "k1", "k0e", "k1e"))],
)
def test_slopes_at_zero(name: str, slope: float) -> None:
    assert jg.grad(function(name))(jg.asarray(0.0, dtype=jg.float64)).item() == slope


@needs_native
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", [jg.float64, jg.float32, jg.float16, jg.bfloat16])
def test_traced_mapped_and_narrow_calls_give_the_eager_bits(name: str, dtype: Any) -> None:
    x = jg.asarray(np.concatenate([POINTS[::5], LIMITS])).astype(dtype)
    eager = function(name)(x)
    for other in (jg.trace(lambda v: function(name)(v))(x), jg.vmap(function(name))(x)):
        np.testing.assert_array_equal(other.astype(jg.float64).numpy(), eager.astype(jg.float64).numpy())
    wide = function(name)(x.astype(jg.float64)).astype(dtype)
    np.testing.assert_array_equal(eager.astype(jg.float64).numpy(), wide.astype(jg.float64).numpy())


def test_pytorchs_names_are_the_same_functions() -> None:
    s = jg.special
    assert (s.bessel_j0, s.bessel_j1, s.bessel_y0, s.bessel_y1) == (s.j0, s.j1, s.y0, s.y1)
    assert (s.modified_bessel_i0, s.modified_bessel_i1) == (s.i0, s.i1)
    assert (s.modified_bessel_k0, s.modified_bessel_k1) == (s.k0, s.k1)
    assert (s.scaled_modified_bessel_k0, s.scaled_modified_bessel_k1) == (s.k0e, s.k1e)


def test_integers_are_computed_in_float32_and_other_arguments_refused() -> None:
    assert jg.special.k0(jg.asarray([1, 2])).dtype == jg.float32
    with pytest.raises(jg.DTypeError, match="j0"):
        jg.special.j0(jg.asarray([1j]))
