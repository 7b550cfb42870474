"""Numbers of the distributions in ``jg.random``: by their distribution functions, with one stream eager and traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

import jitgraph as jg

N = 4000
CONTINUOUS: dict[str, tuple[Callable[..., Any], Any]] = {
    "laplace": (lambda **k: jg.random.laplace((N,), 1.0, 2.0, **k), scipy.stats.laplace(1, 2)),
    "logistic": (lambda **k: jg.random.logistic((N,), 1.0, 2.0, **k), scipy.stats.logistic(1, 2)),
    "cauchy": (lambda **k: jg.random.cauchy((N,), 1.0, 2.0, **k), scipy.stats.cauchy(1, 2)),
    "lognormal": (lambda **k: jg.random.lognormal((N,), 0.5, 0.7, **k), scipy.stats.lognorm(0.7, scale=np.exp(0.5))),
    "rayleigh": (lambda **k: jg.random.rayleigh((N,), 2.0, **k), scipy.stats.rayleigh(scale=2)),
    "weibull": (lambda **k: jg.random.weibull(1.7, (N,), scale=2.0, **k), scipy.stats.weibull_min(1.7, scale=2)),
    "pareto": (lambda **k: jg.random.pareto(2.5, (N,), **k), scipy.stats.lomax(2.5)),
    "chisquare": (lambda **k: jg.random.chisquare(3.5, (N,), **k), scipy.stats.chi2(3.5)),
    "standard_t": (lambda **k: jg.random.standard_t(4.0, (N,), **k), scipy.stats.t(4)),
    "f": (lambda **k: jg.random.f(4.0, 7.0, (N,), **k), scipy.stats.f(4, 7)),
}
DISCRETE: dict[str, tuple[Callable[..., Any], Any]] = {
    "geometric": (lambda **k: jg.random.geometric(0.3, (N,), **k), scipy.stats.geom(0.3)),
    "binomial, few": (lambda **k: jg.random.binomial(12, 0.3, (N,), **k), scipy.stats.binom(12, 0.3)),
    "binomial, rare": (lambda **k: jg.random.binomial(100000, 3e-5, (N,), **k), scipy.stats.binom(100000, 3e-5)),
    "binomial, many": (lambda **k: jg.random.binomial(400, 0.9, (N,), **k), scipy.stats.binom(400, 0.9)),
    "negative_binomial": (lambda **k: jg.random.negative_binomial(3.5, 0.4, (N,), **k), scipy.stats.nbinom(3.5, 0.4)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str) -> None:
    draw, wanted = CONTINUOUS[name]
    jg.random.seed(5)
    result = draw()
    assert result.dtype == jg.float32
    assert scipy.stats.kstest(result.numpy().astype(np.float64), wanted.cdf).pvalue > 1e-3
    jg.random.seed(5)
    np.testing.assert_allclose(jg.trace(draw)().numpy(), result.numpy(), rtol=1e-6)
    assert draw(dtype=jg.float64, generator=jg.Generator(3)).dtype == jg.float64


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str) -> None:
    """Counts against the probabilities of what is met often."""
    draw, wanted = DISCRETE[name]
    jg.random.seed(7)
    result = draw()
    assert result.dtype == jg.int64
    values = result.numpy()
    often = [k for k in range(int(values.min()), int(values.max()) + 1) if wanted.pmf(k) * N >= 8]
    counts = [int((values == k).sum()) for k in often]
    expected = [wanted.pmf(k) * N for k in often]
    rest, missing = N - sum(counts), N - sum(expected)
    statistic = sum((c - e) ** 2 / e for c, e in zip(counts, expected, strict=True)) + (rest - missing) ** 2 / max(
        missing, 1
    )
    assert scipy.stats.chi2(len(often)).sf(statistic) > 1e-3
    jg.random.seed(7)
    np.testing.assert_array_equal(jg.trace(draw)().numpy(), values)


def test_edges() -> None:
    assert jg.random.binomial(np.array([0, 5, 5]), np.array([0.5, 0.0, 1.0])).tolist() == [0, 0, 5]
    assert jg.random.geometric(1.0, (3,)).tolist() == [1, 1, 1]
    assert jg.random.binomial(3, 0.5, (0,)).shape == (0,)
    large = jg.random.binomial(2**50, 0.5, (50,)).numpy()
    assert (abs(large - 2.0**49) < 6 * 2.0**24).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: jg.random.binomial(2.5, 0.5), "binomial: counts must be whole numbers"),
        (lambda: jg.random.binomial(2, 1.5), "binomial: counts must be whole"),
        (lambda: jg.random.geometric(0.0), "geometric: every probability"),
        (lambda: jg.random.weibull(0.0), "weibull: every concentration"),
        (lambda: jg.random.pareto(-1.0), "pareto: every concentration"),
        (lambda: jg.random.negative_binomial(0.0, 0.5), "negative_binomial: positive counts"),
        (lambda: jg.random.chisquare(0.0), "must be positive and finite"),
    ],
)
def test_errors(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_scales_have_gradients() -> None:
    def total(loc: Any, scale: Any) -> Any:
        return jg.random.laplace((5,), loc, scale, generator=jg.Generator(1)).sum()

    loc, scale = jg.grad(total, argnums=(0, 1))(1.0, 2.0)
    unit = jg.random.laplace((5,), generator=jg.Generator(1)).sum()
    assert loc.item() == 5
    assert abs(scale.item() - unit.item()) < 1e-5
