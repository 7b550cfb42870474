"""Functions and their derivatives against mpmath over their whole range: subnormal, huge, beside zeros and branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
from mpmath import mpf

import jitgraph as jg

F, S = jg.nn.functional, jg.special
mp = mpmath.mp.clone()  # other tests have their own precision
mp.dps = 120


class Case(NamedTuple):
    """A function, its exact value and derivative, its arguments, and bounds in ulp."""

    function: Callable[[Any], Any]
    value: Callable[[Any], Any]
    slope: Callable[[Any], Any]
    points: tuple[float, ...]
    ulps: float = 8
    slope_ulps: float = 8


def _density(x: Any) -> Any:
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def _ndtr(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _log_ndtr(x: Any) -> Any:
    return mp.log(_ndtr(x)) if x < 0 else mp.log1p(-_ndtr(-x))


def _slope_of_sinc(x: Any) -> Any:
    t = mp.pi * x
    return (mp.cos(t) * t - mp.sin(t)) / (t * x)


def _slope_of_ellipe(m: Any) -> Any:
    return (mp.ellipe(m) - mp.ellipk(m)) / (2 * m)


def _lower_gamma(a: int, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def _gamma_density(x: Any) -> Any:
    return mp.exp(129 * mp.log(x) - x - mp.loggamma(130))


def _scaled(start: float, end: float, count: int) -> tuple[float, ...]:
    """Powers of ten of both signs."""
    sizes = 10.0 ** np.linspace(start, end, count)
    return (*sizes, *-sizes)


_AROUND = tuple(np.linspace(-5.03, 5.01, 23))
CASES: dict[str, Case] = {
    "gelu": Case(
        F.gelu, lambda x: x * _ndtr(x), lambda x: _ndtr(x) + x * _density(x),
        (*np.linspace(-13, -1.1, 25), *np.linspace(-0.5, 9, 12), *_scaled(-30, -2, 6), 60.0),
    ),
    "ndtr": Case(S.ndtr, _ndtr, _density, (*np.linspace(-13, 8, 31), *_scaled(-40, -1, 6))),
    "log_ndtr": Case(
        S.log_ndtr, _log_ndtr, lambda x: _density(x) / _ndtr(x),
        (*_AROUND, 8.3, -20.0, -799.0, -801.0, -3e4, -1e6, *_scaled(-20, -1, 4)),
    ),
    "tanhshrink": Case(F.tanhshrink, lambda x: x - mp.tanh(x), lambda x: mp.tanh(x) ** 2,
                       (*_scaled(-12, 0, 13), *_AROUND, 40.0)),
    "sinc": Case(S.sinc, mp.sincpi, _slope_of_sinc, (*_scaled(-15, -0.3, 12), 0.25, 1.25, -3.75, 7.3), slope_ulps=24),
    "exprel": Case(
        S.exprel, lambda x: mp.expm1(x) / x, lambda x: (mp.exp(x) * (x - 1) + 1) / x**2,
        (*_scaled(-20, 1.9, 22), -500.0, 1.0, -1.0),
    ),
    "logit": Case(
        S.logit, lambda p: mp.log(p / (1 - p)), lambda p: 1 / (p * (1 - p)),
        (*(10.0 ** np.linspace(-30, -1, 9)), *(0.5 + np.array(_scaled(-6, -0.4, 15))), 0.25, 0.75, 0.99), ulps=2,
    ),
    "gammainc": Case(lambda x: S.gammainc(130.0, x), lambda x: _lower_gamma(130, x), _gamma_density,
                     (*np.linspace(2, 90, 12), *np.linspace(91, 168, 9)), 16, 16),
    "ellipe": Case(S.ellipe, lambda m: mp.re(mp.ellipe(m)), lambda m: mp.re(_slope_of_ellipe(m)),
                   (*-(10.0 ** np.linspace(-3, 36, 21)), 0.1, 0.499, 0.501, 0.9, 0.999)),
    "k0": Case(S.k0, lambda x: mp.besselk(0, x), lambda x: -mp.besselk(1, x), (*(10.0 ** np.linspace(-18, 1.9, 21)),)),
    "erf": Case(S.erf, mp.erf, lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x), (*_AROUND, -9.0, 8.7, 9.1)),
    "erfc": Case(S.erfc, mp.erfc, lambda x: -2 / mp.sqrt(mp.pi) * mp.exp(-x * x), (*_AROUND, -9.0, 8.7, 9.1)),
}  # fmt: skip
FLOAT64_ALONE: dict[str, tuple[float, ...]] = {
    "gelu": (-36.0, -20.5, -1e-300),
    "ndtr": (-37.0, -25.3),
    "log_ndtr": (-3e7, 37.0),
    "ellipe": (-1e100, -1e280, 1 - 1e-15),
    "exprel": (700.3, 709.9, 714.8),
    "logit": (1e-300, 0.5 + 1e-15, 0.5 - 1e-12),
    "k0": (1e-300, 2e-310, 5e-324),
    "erf": (-25.0, 26.1),
    "erfc": (26.1,),
}


def errors(actual: Any, exact: list[Any]) -> Any:
    """In ulp of the exact result, which is a subnormal one's below the normal numbers."""
    info = np.finfo(actual.dtype)
    units = [mpf(2) ** max(mp.frexp(value)[1] - 1, info.minexp) * float(info.eps) for value in exact]
    return np.array(
        [
            float(abs(mpf(float(x)) - value) / unit) if np.isfinite(x) else np.inf
            for x, value, unit in zip(actual, exact, units, strict=True)
        ]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives_over_the_whole_range(name: str, dtype: Any) -> None:
    case = CASES[name]
    points = case.points + (FLOAT64_ALONE.get(name, ()) if dtype is np.float64 else ())
    x = np.array(points, dtype)
    exact = [mp.mpf(float(value)) for value in x]
    value = errors(case.function(jg.asarray(x)).numpy(), [case.value(at) for at in exact])
    assert value.max() <= case.ulps, (float(x[value.argmax()]), value.max())
    if name == "k0":  # whose slope overflows at subnormal numbers
        x, exact = x[x > 1e-300], [at for at in exact if at > 1e-300]
    slope = errors(jg.grad(lambda x: case.function(x).sum())(jg.asarray(x)).numpy(), [case.slope(at) for at in exact])
    assert slope.max() <= case.slope_ulps, (float(x[slope.argmax()]), slope.max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ndtri_of_the_upper_half(dtype: Any) -> None:
    p = (1 - 10.0 ** np.linspace(-6 if dtype is np.float32 else -15, -0.31, 29)).astype(dtype)
    result = S.ndtri(jg.asarray(p)).numpy()
    exact = []
    for at, first in zip(p, result, strict=True):
        rest, x = 1 - mp.mpf(float(at)), -mp.mpf(float(first))
        for _ in range(4):
            x -= (_ndtr(x) - rest) / _density(x)
        exact.append(-x)
    assert errors(result, exact).max() <= 8


def test_tails_of_the_approximate_gelu() -> None:
    """It has as many ulp as its argument of the exponential has, for that is a rounded cubic."""

    def exact(x: Any) -> Any:
        return x / (1 + mp.exp(-2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3)))

    x = np.linspace(-6, 3, 37).astype(np.float32)
    result = F.gelu(jg.asarray(x), approximate="tanh").numpy()
    allowed = 8 + np.abs(1.6 * (x + 0.0447 * x.astype(np.float64) ** 3)) * 3
    assert (errors(result, [exact(mp.mpf(float(at))) for at in x]) <= allowed).all()


def test_ends_of_the_range() -> None:
    ends = jg.asarray(np.array([-np.inf, np.inf, np.nan, 0.0]))
    expected: dict[str, list[float]] = {
        "sinc": [np.nan, np.nan, np.nan, 1.0],
        "exprel": [0.0, np.inf, np.nan, 1.0],
        "ndtr": [0.0, 1.0, np.nan, 0.5],
        "log_ndtr": [-np.inf, 0.0, np.nan, np.log(0.5)],
        "ellipe": [np.inf, np.nan, np.nan, np.pi / 2],
    }
    for name, values in expected.items():
        for run in (getattr(S, name), jg.trace(getattr(S, name))):
            np.testing.assert_allclose(run(ends).numpy(), values, rtol=1e-15, err_msg=name)
    np.testing.assert_array_equal(F.tanhshrink(ends).numpy(), [-np.inf, np.inf, np.nan, 0.0])
    assert jg.grad(lambda x: S.sinc(x).sum())(jg.asarray([0.0])).numpy()[0] == 0
