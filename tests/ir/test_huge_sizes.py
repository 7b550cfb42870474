"""Sizes that leave 64 bits are refused, known or named, and never cut: what has few elements itself may pass them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import ArgumentError, CompileError

X = np.ones((3, 4), np.float32)
NAMED = {"x": {0: "n"}}
both = pytest.mark.parametrize("named", [False, True], ids=["known", "named"])


def traced(function: Any, named: bool) -> Any:
    return jg.trace(dynamic_shapes=NAMED if named else None)(lambda x: function(x))


@both
@pytest.mark.parametrize("extent", [2**61, 2**62, 2**62 - 1, 2**63 - 1])
def test_a_temporary_of_more_bytes_than_64_bits_hold(extent: int, named: bool) -> None:
    """2^62 floats are 2^64 bytes, which is no memory at all where the number is cut."""
    for function in (
        lambda x: jg.zeros((extent, 0)).sum(axis=1)[:3] + x.sum(),
        lambda x: jg.cumsum(jg.broadcast_to(x.sum(), (extent,)), axis=0)[:3],
        lambda x: (jg.zeros((extent, 0)) @ jg.zeros((0, 4)))[0] + x.sum(),
    ):
        with pytest.raises(ArgumentError, match="leaves 64 bits"):
            traced(function, named)(X)


@both
@pytest.mark.parametrize("extent", [2**63, 2**64, 2**64 + 1])
def test_a_loop_of_more_steps_than_64_bits_hold(extent: int, named: bool) -> None:
    with pytest.raises(CompileError, match=f"size or index {extent} leaves 64 bits"):
        traced(lambda x: jg.zeros((extent, 0)).sum(axis=1)[:3] + x.sum(), named)(X)


@both
def test_a_named_size_times_a_number(named: bool) -> None:
    function = traced(lambda x: jg.zeros((x.shape[0] * 2**61, 0)).sum(axis=1)[:3] + x.sum(), named)
    for _ in range(2):
        with pytest.raises(ArgumentError, match="leaves 64 bits"):
            function(X)


@both
def test_no_elements_and_a_shape_that_numpy_refuses(named: bool) -> None:
    """Nothing of it is computed beforehand, which NumPy could not."""
    result = traced(lambda x: jg.zeros((2**62, 0)).sum(axis=0) + x.sum(), named)(X)
    assert result.shape == (0,)


@both
def test_what_is_never_stored_may_be_as_large_as_it_likes(named: bool) -> None:
    assert float(traced(lambda x: jg.zeros((2**62, 2**62))[5, 7] + x.sum(), named)(X)) == 12
    rows = traced(lambda x: jg.broadcast_to(jg.arange(4), (2**62, 4)).reshape(-1)[-1] + x.sum(), named)
    assert float(rows(X)) == 15
    joined = traced(lambda x: jg.concat([jg.broadcast_to(x.sum(), (2**62,))] * 4)[5], named)
    assert float(joined(X)) == 12
