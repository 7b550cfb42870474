"""Native functions as callbacks of SciPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.native.function import native_function
from tests.graphs import needs_native

integrate = pytest.importorskip("scipy.integrate")
ndimage = pytest.importorskip("scipy.ndimage")
pytestmark = needs_native


def test_quad_integrates_a_function_of_a_number() -> None:
    f = native_function(lambda t: jg.exp(-t * t), jg.TensorSpec((), jg.float64))
    for signature in ("quad", "double (double, void *)", "double(double,void*)"):
        value, _ = integrate.quad(f.low_level_callable(signature), 0, 1)
        assert value == integrate.quad(lambda t: float(f(np.float64(t))), 0, 1)[0]
    assert abs(value - math.sqrt(math.pi) / 2 * math.erf(1)) < 1e-12


@pytest.mark.parametrize(
    "function", [lambda a, b, c: a * b * b + c, lambda v: v[0] * v[1] * v[1] + v[2]], ids=["numbers", "a vector"]
)
def test_nquad_integrates_a_function_of_several(function: Any) -> None:
    examples = (1.0, 1.0, 1.0) if function.__code__.co_argcount == 3 else (np.ones(3),)
    f = native_function(function, *examples)
    value, _ = integrate.nquad(f.low_level_callable("nquad"), [[0, 1], [0, 2]], args=(3.0,))
    assert abs(value - (0.5 * 8 / 3 + 6)) < 1e-12
    with pytest.warns(integrate.IntegrationWarning):  # two numbers, not three
        assert math.isnan(integrate.quad(f.low_level_callable("nquad"), 0, 1, args=(1.0,))[0])
    with pytest.raises(jg.ArgumentError, match="another number of elements"):
        f.raise_error()
    f.raise_error()  # told once


def test_filters_of_windows_and_lines() -> None:
    image = np.random.default_rng(0).standard_normal((20, 13))
    spread = native_function(lambda v: v.max() - v.min(), np.ones(9))
    actual = ndimage.generic_filter(image, spread.low_level_callable("generic_filter"), size=3)
    assert np.array_equal(actual, ndimage.generic_filter(image, lambda v: v.max() - v.min(), size=3))
    with pytest.raises(RuntimeError):
        ndimage.generic_filter(image, spread.low_level_callable("generic_filter"), size=5)
    with pytest.raises(jg.ArgumentError, match="another number of elements"):
        spread.raise_error()

    line = native_function(lambda v: v[1:-1] * 2 - v[2:], np.ones(15))

    def in_python(source: Any, target: Any) -> None:
        target[...] = source[1:-1] * 2 - source[2:]

    actual = ndimage.generic_filter1d(image, line.low_level_callable("generic_filter1d"), 3)
    assert np.array_equal(actual, ndimage.generic_filter1d(image, in_python, 3))


def test_a_check_that_fails_gives_nan_and_is_raised_when_asked_for() -> None:
    table = jg.asarray(np.arange(3.0))
    f = native_function(lambda t: table[jg.astype(t, jg.int64)], jg.TensorSpec((), jg.float64))
    with pytest.warns(integrate.IntegrationWarning):
        value, _ = integrate.quad(f.low_level_callable("quad"), 0, 9)
    assert math.isnan(value)
    with pytest.raises(IndexError, match="out of range for an axis of 3"):
        f.raise_error()
