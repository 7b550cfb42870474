"""Convolutions of spread operands that are computed without the zeros."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import ops
from jitgraph.ir.builder import build
from jitgraph.ir.dims import Dim
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.types import TensorType
from jitgraph.ops.convolution import spread_conv


def drawn(*shape: int) -> np.ndarray:
    """Small integers, whose sums are exact in any order."""
    return np.random.default_rng(0).integers(-3, 4, shape).astype(np.float64)


def results(x: np.ndarray, w: np.ndarray, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """What conv gives by its NumPy evaluation, zeros included, and what the parted convolution gives."""
    evaluate = ops.conv.evaluate
    assert evaluate is not None
    zeros = evaluate(x, w, strides=(1,) * (x.ndim - 2), **settings)
    parted = spread_conv(ops.conv, jg.asarray(x).value, jg.asarray(w).value, **settings)
    return zeros, np.asarray(parted.array)


@pytest.mark.parametrize("spread", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
def test_outputs_are_those_of_zeros_between(kernel: int, spread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    compared = 0
    for extent, low, high, second in product([1, 4], [-2, -1, 0, 1, 3], [-1, 0, 2], [1, 2]):
        if (extent - 1) * spread + 1 + low + high < kernel or min(low, high) + extent < 1:
            continue
        settings = {"padding": ((low, high), (1, 1)), "lhs_dilation": (spread, second), "rhs_dilation": (1, 1)}
        zeros, parted = results(drawn(2, 4, extent, 3), drawn(6, 2, kernel, 2), **settings, groups=2)
        np.testing.assert_array_equal(parted, zeros)
        compared += 1
    assert compared > 10


def test_dilated_kernels_of_spread_operands() -> None:
    settings = {"padding": ((2, 3),), "lhs_dilation": (2,), "rhs_dilation": (3,), "groups": 1}
    zeros, parted = results(drawn(1, 2, 5), drawn(3, 2, 3), **settings)
    np.testing.assert_array_equal(parted, zeros)


def test_no_kernel_element_meets_a_zero_that_is_none_of_x() -> None:
    w = np.array([[[1.0, np.inf]]])
    settings = {"padding": ((1, 1),), "lhs_dilation": (2,), "rhs_dilation": (1,), "groups": 1}
    x = jg.asarray(np.array([[[1.0, 2.0]]]))
    result = spread_conv(ops.conv, x.value, jg.asarray(w).value, **settings)
    np.testing.assert_array_equal(result.array, [[[np.inf, 1.0, np.inf, 2.0]]])
    ct = jg.nn.functional.conv_transpose1d(x, jg.asarray(w), stride=2)
    np.testing.assert_array_equal(ct.numpy(), [[[1.0, np.inf, 2.0, np.inf]]])


def test_places_may_have_names() -> None:
    settings: Any = {"padding": ((1, 2),), "lhs_dilation": (2,), "rhs_dilation": (1,), "groups": 1}
    size = Dim.name("n")
    types = [TensorType(jg.float64, (1, 2, size)), TensorType(jg.float64, (3, 2, 3))]
    graph = build(lambda x, w: spread_conv(ops.conv, x, w, **settings), types)
    for extent in (1, 2, 5):
        x, w = drawn(1, 2, extent), drawn(3, 2, 3)
        zeros, _ = results(x, w, **settings)
        np.testing.assert_array_equal(interpret(graph, [x, w])[0], zeros)
