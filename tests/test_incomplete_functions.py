"""The incomplete gamma and beta functions: against mpmath, at limits, with gradients, traced, mapped and saved."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import jitgraph as jg
from bench.accuracy_special import betainc as exact_betainc
from tests.cuda.places import machine
from tests.graphs import needs_native

NAN, INF = np.nan, np.inf
RNG = np.random.default_rng(5)
ORDERS = np.concatenate([RNG.uniform(1e-3, 60, 60), 10 ** RNG.uniform(-6, 4, 60), RNG.uniform(40, 2000, 40)])
FACTORS = np.clip(1 + RNG.normal(0, 0.3, 160), 0.01, None)
POINTS = np.where(RNG.random(160) < 0.6, ORDERS * FACTORS, 10 ** RNG.uniform(-4, 3, 160))


def require_near(actual: np.ndarray[Any, Any], exact: list[Any], ulps: float, deep: float) -> None:
    """Within so many ulps of the exact numbers, and ``deep`` of those below 1e-3, whose exponents round."""
    for value, wanted in zip(actual, exact, strict=True):
        if wanted > 1e-290:
            error = float(abs(mp.mpf(float(value)) - wanted) / wanted) * 2**52
            assert error <= (ulps if wanted > 1e-3 else deep), (value, wanted, error)


def test_gamma_against_many_digits() -> None:
    with mp.workdps(40):
        pairs = [(mp.mpf(a), mp.mpf(x)) for a, x in zip(ORDERS.tolist(), POINTS.tolist(), strict=True)]
        lower = [mp.gammainc(a, 0, x, regularized=True) for a, x in pairs]
        upper = [mp.gammainc(a, x, mp.inf, regularized=True) for a, x in pairs]
    usual = ORDERS <= 500  # beyond, exponents of some hundreds round
    for function, exact in ((jg.special.gammainc, lower), (jg.special.gammaincc, upper)):
        result = function(ORDERS, POINTS).numpy()
        require_near(result[usual], [x for x, near in zip(exact, usual, strict=True) if near], 40, 40)
        require_near(result[~usual], [x for x, near in zip(exact, usual, strict=True) if not near], 40, 3000)


def test_rising_factorials_beside_poles() -> None:
    """Rounding of z + m onto a pole, or from one, is no part of the result."""
    rng = np.random.default_rng(3)
    z = np.concatenate(
        [10.0 ** rng.uniform(-300, -5, 40) * rng.choice([-1, 1], 40), rng.uniform(-20, 20, 60), [-18.0 - 1e-13]]
    )
    m = np.concatenate([rng.integers(-20, 20, 60).astype(float), rng.uniform(-20, 20, 41)])
    with mp.workdps(400):
        exact = [
            mp.gamma(mp.mpf(a) + mp.mpf(b)) * mp.rgamma(mp.mpf(a)) for a, b in zip(z.tolist(), m.tolist(), strict=True)
        ]
        result = jg.special.poch(z, m).numpy()
        for value, wanted in zip(result.tolist(), exact, strict=True):
            assert float(abs(value - wanted) / abs(wanted)) < 100 * 2**-52, (value, float(wanted))


def test_beta_of_zeros_is_infinite() -> None:
    for function in (jg.special.beta, jg.special.betaln):
        for run in (function, jg.trace(function)):
            np.testing.assert_array_equal(run(np.array([0.0, -0.0, 0.0]), np.array([0.0, 0.0, 1.0])).numpy(), INF)


def test_beta_against_many_digits() -> None:
    first, second = 10 ** RNG.uniform(-3, 3.5, (2, 150))
    near = np.clip(first / (first + second) * (1 + RNG.normal(0, 0.3, 150)), 1e-6, 1 - 1e-6)
    points = np.where(RNG.random(150) < 0.6, near, RNG.random(150))
    with mp.workdps(40):
        triples = zip(first.tolist(), second.tolist(), points.tolist(), strict=True)
        exact = [mp.betainc(mp.mpf(a), mp.mpf(b), 0, mp.mpf(x), regularized=True) for a, b, x in triples]
    require_near(jg.special.betainc(first, second, points).numpy(), exact, 16, 1500)


def test_beta_of_unequal_orders_against_many_digits() -> None:
    """docs/accuracy.md's bound, around the mean, at small numbers, and at numbers close to 1."""
    rng = np.random.default_rng(5)
    a, b = 10.0 ** rng.uniform(-6, 7, (2, 120))
    a[:40], b[:40] = 10.0 ** rng.uniform(-6, 0, 40), 10.0 ** rng.uniform(3, 7, 40)
    a[20:40], b[20:40] = b[20:40].copy(), a[20:40].copy()
    spread = np.sqrt(a * b / (a + b + 1)) / (a + b)
    x = a / (a + b) + spread * rng.normal(0, 2.5, 120)
    x = np.where((x > 0) & (x < 1), x, rng.random(120))
    x[::7], x[3::7] = 10.0 ** rng.uniform(-25, 0, 18), 1 - 10.0 ** rng.uniform(-14, 0, 17)
    for function, pairs in (("betainc", (a, b, x)), ("betaincc", (b, a, x))):
        result = getattr(jg.special, function)(*pairs).numpy()
        for p, q, t, value in zip(*pairs, result, strict=True):
            exact = exact_betainc(p, q, t) if function == "betainc" else exact_betainc(p, q, t, upper=True)
            if exact > 1e-290:
                error = float(abs(mp.mpf(float(value)) - exact) / exact) * 2**52
                assert error <= 16 + 2 * abs(float(mp.log(exact))), (function, p, q, t, value, error)


def test_beta_of_orders_near_zero() -> None:
    """There I_x(a, b) tends to b / (a + b), and 1 - I_x(b, a) is no difference."""
    result = jg.special.betainc(np.array([1.0, 1e-20, 2.0]), np.array([1e-300, 1e-300, 1e-17]), np.full(3, 0.9)).numpy()
    wanted = [1e-300 * math.log(10), 1e-280, 1e-17 * (math.log(10) - 0.9)]
    np.testing.assert_allclose(result, wanted, rtol=1e-14)
    small = np.float64(1e-300)
    result = jg.special.fdtr(1e6, small, small).item(), jg.special.betaincc(small, 30.0, 1e-10).item()
    np.testing.assert_allclose(result, (2.7988725228625855e-301, 1.90641971352534e-299), rtol=1e-12)


def test_limits_are_those_of_scipy() -> None:
    a, x = map(np.ravel, np.meshgrid([0, 0.5, 1, 3, INF, NAN, -1, 1e300], [0, 0.7, 60, INF, NAN, -1]))
    for name in ("gammainc", "gammaincc"):
        result = getattr(jg.special, name)(a, x).numpy()
        np.testing.assert_allclose(result, getattr(scipy.special, name)(a, x), rtol=1e-12, atol=0, err_msg=name)
    values = [0, 0.5, 1, 2, INF, NAN, -1]
    a, b, x = map(np.ravel, np.meshgrid(values, values, [0, 0.3, 1, NAN, -0.1, 1.1]))
    result, wanted = jg.special.betainc(a, b, x).numpy(), scipy.special.betainc(a, b, x)
    np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=0)


def test_an_element_does_not_depend_on_the_others() -> None:
    """Steps that others need change nothing."""
    few = np.array([0.5, 3.0, 20.0])
    slow = np.array([48.0])
    for name in ("gammainc", "gammaincc"):
        function = getattr(jg.special, name)
        alone = np.concatenate([function(few, few + 1.5).numpy(), function(slow, slow + 2).numpy()])
        both = np.concatenate([few, slow])
        together = function(both, np.concatenate([few + 1.5, slow + 2])).numpy()
        np.testing.assert_array_equal(alone, together)
    one = jg.special.betainc(6.0, 0.0015, np.float64(0.97)).item()
    several = jg.special.betainc(np.array([6.0, 3e6]), np.array([0.0015, 3e6]), np.array([0.97, 0.5])).numpy()
    assert several[0] == one and abs(several[1] - 0.5) < 1e-9


def test_beta_of_large_orders() -> None:
    """By its expansion where the fraction would take too many steps; the width of the rise is that of a normal one."""
    orders = [(1e9, 1e9), (3e8, 5e8), (1e9, 2e9), (1e12, 1e9), (2e8, 9e14)]
    a, b = np.array([pair for pair in orders for _ in range(7)]).T
    middle = a / (a + b)
    x = middle + np.sqrt(middle * (1 - middle) / (a + b)) * np.tile([-6.0, -2.0, -0.5, 0.0, 0.3, 1.0, 5.0], len(orders))
    result = jg.special.betainc(a, b, x).numpy()
    np.testing.assert_allclose(result, scipy.special.betainc(a, b, x), rtol=5e-8)
    largest = np.finfo(np.float64).max
    for order, at, wanted in (
        *((1e300, at, wanted) for at, wanted in ((0.4, 0.0), (0.5, 0.5), (0.6, 1.0))),
        *((largest, at, wanted) for at, wanted in ((0.4, 0.0), (0.5, 0.5), (0.6, 1.0))),
    ):
        assert jg.special.betainc(np.float64(order), np.float64(order), np.float64(at)).item() == wanted
    for p, q, wanted in ((1e300, 1e10, 0.0), (1e10, 1e300, 1.0)):
        assert jg.special.betainc(np.float64(p), np.float64(q), np.float64(0.5)).item() == wanted


SLOPES = {
    "gammainc": (lambda x: jg.special.gammainc(2.5, x), lambda x: scipy.special.gammainc(2.5, x), (0.3, 6.0)),
    "gammaincc": (lambda x: jg.special.gammaincc(70.0, x), lambda x: scipy.special.gammaincc(70.0, x), (60.0, 80.0)),
    "betainc": (lambda x: jg.special.betainc(2.5, 0.7, x), lambda x: scipy.special.betainc(2.5, 0.7, x), (0.1, 0.9)),
    "betainc of large": (
        lambda x: jg.special.betainc(40.0, 60.0, x), lambda x: scipy.special.betainc(40.0, 60.0, x), (0.3, 0.5)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
def test_gradients_of_both_orders(name: str) -> None:
    function, reference, (low, high) = SLOPES[name]
    x = np.linspace(low, high, 7)
    step = 1e-3 * (high - low)
    first = lambda x: jg.grad(lambda x: function(x).sum())(x)
    second = lambda x: jg.grad(lambda x: first(x).sum())(x)
    shifts = (-2, -1, 1, 2)
    for actual, base in ((first, reference), (second, lambda x: first(jg.asarray(x)).numpy())):
        left, near, right, far = (base(x + shift * step) for shift in shifts)
        wanted = (8 * (right - near) - (far - left)) / (12 * step)
        for run in (actual, jg.trace(actual)):
            np.testing.assert_allclose(run(jg.asarray(x)).numpy(), wanted, rtol=1e-7, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("traced", [False, True])
def test_a_gradient_with_respect_to_the_order_is_refused(traced: bool) -> None:
    calls = [
        lambda a: jg.special.gammainc(a, jg.asarray([1.0])).sum(),
        lambda a: jg.special.betainc(a, 2.0, jg.asarray([0.5])).sum(),
    ]
    for call in calls:
        slope = jg.trace(jg.grad(call)) if traced else jg.grad(call)
        with pytest.raises(ValueError, match="its last argument alone"):
            slope(jg.asarray([2.0]))


def test_float32_is_rounded_once_and_traces_and_maps_agree(tmp_path: Path) -> None:
    a, x = ORDERS[:40].astype(np.float32), POINTS[:40].astype(np.float32)
    wanted = scipy.special.gammaincc(a.astype(np.float64), x.astype(np.float64))
    result = jg.special.gammaincc(a, x)
    assert result.dtype == jg.float32
    np.testing.assert_allclose(result.numpy(), wanted.astype(np.float32), rtol=1.5e-7, atol=1e-37)
    traced = jg.trace(lambda a, x: jg.special.gammaincc(a, x))
    np.testing.assert_array_equal(traced(a, x).numpy(), result.numpy())
    mapped = jg.vmap(lambda a, x: jg.special.gammaincc(a, x))(jg.asarray(a), jg.asarray(x))
    np.testing.assert_allclose(mapped.numpy(), result.numpy(), rtol=2e-7)
    assert jg.special.gammainc(2, 3).dtype == jg.float32
    assert jg.special.gammainc(jg.ones((0, 3)), jg.ones((1, 3))).shape == (0, 3)
    jg.save(traced, tmp_path / "q.jg", example_inputs=(a, x))
    np.testing.assert_array_equal(jg.load(tmp_path / "q.jg")(a, x).numpy(), result.numpy())


@needs_native
def test_on_a_gpu() -> None:
    with machine(must_end_clean=False):
        a, x = ORDERS[:30], POINTS[:30]
        there = jg.special.gammainc(jg.asarray(a).to("cuda"), jg.asarray(x).to("cuda"))
        assert there.device.startswith("cuda")
        np.testing.assert_allclose(there.cpu().numpy(), jg.special.gammainc(a, x).numpy(), rtol=1e-13, atol=0)
