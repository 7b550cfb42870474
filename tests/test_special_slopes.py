"""Slopes of special functions where their formulas meet, and at the zeros that poles of gamma functions make."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest

import jitgraph as jg

JOINTS = np.unique([*np.arange(-9, 9.1, 0.5), -150, -30, 20, 30, 36, 50, 100, 110, 128, 150])
STEP = 1e-6
MEETING = {  # functions of several formulas, each of a range
    "airy_ai": jg.special.airy_ai,
    "digamma": jg.special.digamma,
    "erfcx": jg.special.erfcx,
    "gamma": jg.special.gamma,
    "gammaln": jg.special.gammaln,
    "i0e": jg.special.i0e,
    "log_ndtr": jg.special.log_ndtr,
    "rgamma": jg.special.rgamma,
    "poch": lambda x: jg.special.poch(x, 2.0),
    "poch to": lambda x: jg.special.poch(2.25, x),
    "poch of a half": lambda x: jg.special.poch(x, 3.0),
    "gammainc": lambda x: jg.special.gammainc(100.0, x),
    "factorial": jg.special.factorial,
}


def slopes(function: Any, x: Any) -> Any:
    with np.errstate(all="ignore"):
        return jg.grad(lambda v: jg.sum(function(v)))(jg.asarray(x)).numpy()


@pytest.mark.parametrize("name", MEETING)
def test_a_slope_where_two_formulas_meet_is_that_beside_it(name: str) -> None:
    at = slopes(MEETING[name], np.concatenate([JOINTS - STEP, JOINTS, JOINTS + STEP]))
    below, here, above = at.reshape(3, -1)
    with np.errstate(all="ignore"):
        due = (below + above) / 2
        smooth = np.isfinite(due) & (abs(above - below) < 1e-3 * abs(due)) & (name != "factorial" or JOINTS > 0)
        is_pole = np.isnan(MEETING[name](jg.asarray(JOINTS)).numpy())
    smooth &= ~is_pole & (abs(due) < 1e10)
    assert smooth.sum() > 8
    np.testing.assert_allclose(here[smooth], due[smooth], rtol=2e-4, atol=1e-300)


ZEROS = [  # the function, mpmath's, the arguments, and of which one the slope is taken
    *(("rgamma", mp.rgamma, (float(-n),), 0) for n in range(6)),
    *(("rgamma", mp.rgamma, (x,), 0) for x in (-30.0, -160.0, 0.5, -0.5)),
    *(("poch", mp.rf, (z, m), 0) for z, m in ((-2.0, 3.0), (-2, 3.5), (0, 2), (-3, 4), (-2, -0.5), (-30, 31))),
    ("poch", mp.rf, (-200.0, -0.5), 0),
    ("poch", mp.rf, (2.25, 0.0), 1),
    ("poch", mp.rf, (-2.25, 0.0), 1),
    *(("poch", mp.rf, (z, m), 0) for z, m in ((-2.0, 2.0), (-3, 2), (-2.5, 3), (-5, -2))),
    *(("binom", mp.binomial, (n, k), 0) for n, k in ((1.0, 3.0), (0, 1), (2, 5), (0, 2), (40, 60), (3, -2), (3, 2))),
    *(("binom", mp.binomial, (n, k), 1) for n, k in ((1.0, 3.0), (0, 1), (2, 5), (5, 7), (3, -2), (3, 2), (2, 2.5))),
    *(("beta", mp.beta, (a, b), 0) for a, b in ((-0.5, -0.5), (-1.5, 0.5), (0.5, -0.5), (-2.3, -0.7), (2, 2))),
]  # fmt: skip


@pytest.mark.parametrize("name, of_mpmath, arguments, of", ZEROS)
def test_slopes_at_zeros_that_poles_make(name: str, of_mpmath: Any, arguments: tuple[float, ...], of: int) -> None:
    function = getattr(jg.special, name)
    tensors = [jg.asarray(np.array(x, np.float64)) for x in arguments]
    mine = jg.grad(lambda x: function(*tensors[:of], x, *tensors[of + 1 :]))(tensors[of])
    due = mp.diff(lambda x: of_mpmath(*arguments[:of], x, *arguments[of + 1 :]), arguments[of])
    assert float(mine) == pytest.approx(float(due), rel=1e-9)
    if name != "beta" and all(x == int(x) for x in arguments) and of_mpmath(*arguments) == 0:
        assert float(function(*tensors)) == 0


def test_second_slopes_at_such_zeros() -> None:
    for function, of_mpmath, at in (
        (jg.special.rgamma, mp.rgamma, 0.0),
        (jg.special.rgamma, mp.rgamma, -2.0),
        (lambda x: jg.special.poch(x, 3.0), lambda x: mp.rf(x, 3), -2.0),
    ):
        mine = jg.grad(jg.grad(function))(jg.asarray(np.array(at)))
        assert float(mine) == pytest.approx(float(mp.diff(of_mpmath, at, 2)), rel=1e-7)


def test_slopes_beyond_float64_are_finite_or_infinite() -> None:
    for function, at in ((jg.special.rgamma, -300.0), (lambda x: jg.special.poch(x, 201.0), -200.0)):
        slope = float(jg.grad(function)(jg.asarray(np.array(at))))
        assert abs(slope) > 1e300
