"""What is proved of index expressions by ranges alone."""

from __future__ import annotations

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import ops
from jitgraph.codegen.kernels.index import Ranges
from jitgraph.ir.builder import build
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.types import TensorType
from tests.graphs import compiled

S, T = Dim.name("s"), Dim.name("t")


@pytest.mark.parametrize(
    "dim", [(-S) // 2, ((-S) // 2) * T, ((-S) // 2) * T + T, ((2 - S) // 3) * T + 5, (S - T) // 2, ((S - 3) // 2) * T]
)
def test_a_division_that_may_be_negative_is_not_taken_for_a_natural_number(dim: DimLike) -> None:
    assert not Ranges().nonnegative(dim)


@pytest.mark.parametrize("dim", [S // 2, (S // 2) * T, (S % 3) * T + 1, (S * T + 3) // 2])
def test_divisions_of_natural_numbers_are_natural(dim: DimLike) -> None:
    assert Ranges().nonnegative(dim)


def test_places_of_images_whose_height_is_rounded_up() -> None:
    """Rows and columns of a place were confused where the height is minus the floor of a negative number."""
    up, down = -((-S) // 2), (S - 1) // 2 + 1
    settings = {"strides": (1, 1), "lhs_dilation": (1, 1), "rhs_dilation": (1, 1), "groups": 3}
    graph = build(
        lambda y, w, x: ops.conv(y, w, padding=((0, up - down + 1), (1, 1)), **settings),
        [TensorType(jg.float32, shape) for shape in [(1, 3, down, T), (3, 1, 2, 3), (S,)]],
    )
    rng = np.random.default_rng(0)
    for s, t in [(4, 4), (5, 3), (1, 1)]:
        shapes = (1, 3, (s - 1) // 2 + 1, t), (3, 1, 2, 3), (s,)
        inputs = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
        np.testing.assert_array_equal(compiled(graph)(*inputs), interpret(graph, inputs)[0])
