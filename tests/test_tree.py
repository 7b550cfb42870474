"""Trees of values: which objects are containers, and which are leaves."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import jitgraph as jg


def test_a_registered_leaf_is_no_container() -> None:
    @dataclasses.dataclass
    class Pair:
        first: Any
        second: Any

    pair = Pair(jg.ones(2), [jg.zeros(3)])
    assert jg.tree.flatten({"pair": pair})[0] == [pair.first, pair.second[0]]
    jg.tree.register_leaf(Pair)
    assert jg.tree.flatten({"pair": pair})[0] == [pair]
    assert jg.tree.map_leaves(lambda leaf: leaf is pair, [pair]) == [True]


def test_backward_of_a_tensor_with_a_cotangent() -> None:
    x = jg.asarray([1.0, 2.0], requires_grad=True)
    jg.autograd.backward((x * x).sum(), retain_graph=True)
    jg.autograd.backward(x * 3.0, jg.asarray([1.0, 10.0]))
    assert x.grad is not None and x.grad.tolist() == [5.0, 34.0]
    with pytest.raises(jg.JitgraphError, match="needs a scalar"):
        jg.autograd.backward(x * 3.0)
