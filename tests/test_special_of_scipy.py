"""Functions of ``jg.special`` in SciPy's names: values by SciPy, gradients by differences, dtypes kept, batched."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import jitgraph as jg

NAN, INF = np.nan, np.inf
ODD = np.array([0.0, -0.0, 1, 2, 3, 5, -1, -2, -1.5, -2.5, 170, 171.5, 172, -170.5, -180.3, INF, NAN, 1e-300, 0.5, 18])
RNG = np.random.default_rng(0)


def between(low: float, high: float, *more: float) -> np.ndarray[Any, Any]:
    """A hundred numbers of a range, the last ones given."""
    return np.concatenate([RNG.uniform(low, high, 100 - len(more)), more])


COUNTS = np.floor(between(0, 10))
CASES: dict[str, tuple[tuple[np.ndarray[Any, Any], ...], float]] = {  # operands, and the relative error against SciPy
    "agm": ((between(0, 9, 0, INF, 1e-20), between(0, 9, 2, 3, 1)), 1e-15),
    "bdtr": ((COUNTS, COUNTS + np.floor(between(0, 9)), between(0, 1)), 1e-13),
    "bdtrc": ((COUNTS - 1, COUNTS + np.floor(between(0, 9)), between(0, 1)), 1e-13),
    "beta": ((between(0.01, 20), between(0.01, 20)), 1e-13),
    "betaincc": ((between(0.1, 20), between(0.1, 20), between(0, 1)), 1e-13),
    "binom": ((between(0, 40, 5, 5, 5, 0, 60, -2.5, -3), between(0, 10, 2, 6, -1, 0, 30, 2, 2)), 1e-13),
    "boxcox": ((between(0, 9, 0, 0, 0, -1, INF), between(-3, 3, 0, 2, -1, 2, 0)), 1e-14),
    "boxcox1p": ((between(-0.9, 9, -1, 0), between(-3, 3, 0, 0)), 1e-14),
    "chdtr": ((between(0.5, 20), between(0, 30)), 1e-13),
    "chdtrc": ((between(0.5, 20), between(0, 30)), 1e-13),
    "comb": ((between(0, 40, 5, 5, 5, 0, 60, -2.5, -3), between(0, 10, 2, 6, -1, 0, 30, 2, 2)), 1e-13),
    "cosm1": ((between(-1e-3, 1e-3, 3.0, 0.0),), 1e-15),
    "ellipe": ((between(-50, 1, 1, 1.5, 0, -INF),), 1e-14),
    "ellipk": ((between(-50, 1, 1, 1.5, 0),), 1e-14),
    "ellipkm1": ((10 ** between(-300, 0),), 1e-14),
    "erfcinv": ((between(0, 2, 0, 2, 1, 1e-300, -1),), 1e-14),
    "exp10": ((between(-300, 300, INF, -INF, 400),), 1e-15),
    "exprel": ((between(-5, 700, 0, 1e-6, INF, -INF, 1e-5),), 1e-15),
    "factorial": ((np.arange(-1.0, 30),), 1e-15),
    "fdtr": ((between(1, 20), between(1, 20), between(0, 9)), 1e-13),
    "fdtrc": ((between(1, 20), between(1, 20), between(0, 9)), 1e-13),
    "gamma": ((np.concatenate([ODD, between(-20, 20)]),), 1e-14),
    "gammasgn": ((np.concatenate([ODD, between(-20, 20)]),), 0),
    "gdtr": ((between(0.5, 2), between(0.5, 10), between(0, 9)), 1e-13),
    "gdtrc": ((between(0.5, 2), between(0.5, 10), between(0, 9)), 1e-13),
    "huber": ((between(-1, 3), between(-5, 5)), 1e-15),
    "inv_boxcox": ((between(0.01, 1), between(-0.9, 3, 0, 0)), 1e-14),
    "inv_boxcox1p": ((between(0.01, 1), between(-0.9, 3, 0, 0)), 1e-14),
    "log_expit": ((between(-800, 40, INF, -INF),), 1e-15),
    "nbdtr": ((COUNTS, np.floor(between(1, 9)), between(0, 1)), 1e-13),
    "nbdtrc": ((COUNTS, np.floor(between(1, 9)), between(0, 1)), 1e-13),
    "pdtr": ((COUNTS, between(0.1, 20)), 1e-13),
    "pdtrc": ((COUNTS, between(0.1, 20)), 1e-13),
    "perm": ((between(0, 40, 5, 5, 5, 0, 60), between(0, 10, 2, 6, -1, 0, 30)), 1e-13),
    "poch": ((between(0.1, 20, -3, -3, -2.5, 0, 1, 2, 200), between(0, 10, 2, 5, 2, 2, 0, -3, 3)), 1e-13),
    "powm1": ((between(0.5, 2, -2, 0, 0, 1), between(-2, 2, 3, 0, -1, 5)), 1e-14),
    "pseudo_huber": ((between(-0.1, 3, 0, 0), between(-5, 5, 0, 1)), 1e-14),
    "rgamma": ((np.concatenate([ODD, between(-20, 20)]),), 1e-14),
    "softplus": ((between(-800, 800, INF, -INF),), 1e-15),
    "stdtr": ((between(1, 20, 5, 5, 5), between(-9, 9, 0, 1e-9, -1)), 1e-13),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    operands, error = CASES[name]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        wanted = getattr(scipy.special, name)(*operands)
    function = getattr(jg.special, name)
    for run in (function, jg.trace(function), jg.vmap(function)):
        np.testing.assert_allclose(run(*map(jg.asarray, operands)).numpy(), wanted, rtol=error, atol=0)
    assert function(*(np.float32(1) for _ in operands)).dtype == jg.float32
    assert function(*(1 for _ in operands)).dtype == jg.float32
    assert function(*(np.zeros((0, 2)) for _ in operands)).shape == (0, 2)


OF_THE_LAST = {
    "bdtr",
    "bdtrc",
    "betaincc",
    "chdtr",
    "chdtrc",
    "fdtr",
    "fdtrc",
    "nbdtr",
    "nbdtrc",
    "pdtr",
    "pdtrc",
    "stdtr",
}
AT: dict[str, tuple[float, ...]] = {
    "airy_ai": (-2.5,), "agm": (0.7, 3.0), "bdtr": (2, 5, 0.3), "bdtrc": (2, 5, 0.3), "beta": (0.7, 2.5),
    "betaincc": (2.0, 3.0, 0.3), "binom": (7.5, 2.5), "boxcox": (1.5, 0.7), "boxcox1p": (1.5, -0.7),
    "chdtr": (3.0, 2.0),
    "chdtrc": (3.0, 2.0), "comb": (7.5, 2.5), "cosm1": (0.3,), "ellipe": (0.3,), "ellipk": (0.3,), "ellipkm1": (0.7,),
    "erfcinv": (0.6,), "exp10": (0.3,), "exprel": (0.0,), "factorial": (4.0,), "fdtr": (3, 4, 1.5),
    "fdtrc": (3, 4, 1.5),
    "gamma": (-1.3,), "gdtr": (1.5, 2.5, 2.0), "gdtrc": (1.5, 2.5, 2.0), "huber": (1.0, 2.5), "inv_boxcox": (0.5, 0.7),
    "inv_boxcox1p": (0.5, 0.7), "log_expit": (0.5,), "nbdtr": (2, 3, 0.4), "nbdtrc": (2, 3, 0.4), "pdtr": (2, 1.5),
    "pdtrc": (2, 1.5), "perm": (7.5, 2.5), "poch": (2.5, 1.5), "powm1": (1.5, 0.3), "pseudo_huber": (1.0, 2.5),
    "rgamma": (-1.3,), "softplus": (0.5,), "stdtr": (3.0, -1.5),
}  # fmt: skip


@pytest.mark.parametrize("name", AT)
def test_gradients(name: str) -> None:
    """Of first and second order by differences, with respect to all operands or the last one."""
    values = AT[name]
    last = name in OF_THE_LAST or name in ("gdtr", "gdtrc")
    fixed = [np.float64(v) for v in (values[:-1] if last else ())]
    inputs = [jg.asarray(np.float64(v), requires_grad=True) for v in values[len(fixed) :]]
    function: Callable[..., Any] = lambda *xs: getattr(jg.special, name)(*fixed, *xs)
    assert jg.autograd.gradcheck(function, inputs, rtol=1e-6, atol=1e-8)
    assert jg.autograd.gradgradcheck(function, inputs, rtol=1e-5, atol=1e-7)


def test_box_and_cox_at_the_powers_0() -> None:
    for name in ("boxcox", "boxcox1p", "inv_boxcox", "inv_boxcox1p"):
        function = getattr(jg.special, name)
        near, at = (jg.grad(function, argnums=1)(1.5, np.float64(power)).item() for power in (1e-6, 0.0))
        assert abs(near - at) < 1e-4


@pytest.mark.parametrize(("low", "high", "ulps"), [(-6, 1.5, 8), (1.5, 100, 5), (-2000, -6, 0)])
def test_airy_ai(low: float, high: float, ulps: int) -> None:
    x = RNG.uniform(low, high, 200)
    wanted = [mp.airyai(mp.mpf(v)) for v in x]
    result = jg.special.airy_ai(x).numpy()
    wide = np.array([float(w) for w in wanted])
    difference = np.array([float(abs(mp.mpf(float(f)) - w)) for f, w in zip(result, wanted, strict=True)])
    scale = ulps * np.spacing(np.abs(wide)) if ulps else 4e-16 / np.abs(x) ** 0.25
    assert (difference <= scale).all()


def test_airy_ai_at_its_ends() -> None:
    result = jg.special.airy_ai(np.array([INF, -INF, 1e300, -1e300, 110.0])).numpy()
    np.testing.assert_array_equal(result, np.zeros(5))
    assert np.isnan(jg.special.airy_ai(NAN).item())
    assert jg.special.airy_ai(0.0).item() == np.float32(scipy.special.airy(0)[0])


def test_signatures_are_scipys_in_order() -> None:
    assert list(inspect.signature(jg.special.boxcox).parameters) == ["x", "lmbda"]


def test_ends_of_the_ranges() -> None:
    """Infinities, products that are subnormal, and quotients that overflow where the result does not."""
    special, big = jg.special, np.float64
    results = {
        "ellipk": (special.ellipk(big(-INF)), 0.0),
        "ellipkm1": (special.ellipkm1(big(INF)), 0.0),
        "boxcox1p": (special.boxcox1p(big(1e-300), 1e-300), 1e-300),
        "boxcox1p of -1": (special.boxcox1p(big(-1), 1e-300), -1e300),
        "inv_boxcox1p": (special.inv_boxcox1p(big(1e-20), 1e-300), 1e-20),
        "erfcinv": (special.erfcinv(big(-5e-324)), np.nan),
        "kl_div": (special.kl_div(big(0.3), -INF), INF),
        "kl_div of NaN": (special.kl_div(big(np.nan), -1.0), np.nan),
        "rel_entr": (special.rel_entr(big(1e12), 1e-300), 1e12 * (312 * np.log(10))),
        "rel_entr of small": (special.rel_entr(big(1e-300), 1e100), -1e-300 * (400 * np.log(10))),
        "pseudo_huber": (special.pseudo_huber(big(1e-3), INF), INF),
        "pseudo_huber of far": (special.pseudo_huber(big(1e-200), 3.0), 3e-200),
        "pseudo_huber of infinite": (special.pseudo_huber(big(INF), 2.0), 2.0),
        "rgamma": (special.rgamma(big(1e-310)), 1e-310),
        "beta": (special.beta(big(1e-300), 1e12), 1e300),
        "betaln": (special.betaln(big(1e8), 2.0), -np.log(1e8 * (1e8 + 1))),
        "betaln of small": (special.betaln(big(1e-3), 1e6), 6.893363375325389),
    }
    for name, (value, wanted) in results.items():
        np.testing.assert_allclose(value.numpy(), wanted, rtol=1e-14, atol=0, err_msg=name)
