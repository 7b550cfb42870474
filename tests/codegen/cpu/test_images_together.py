"""Convolutions of images of few places, which are one product over all of them: each image has its own bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitgraph import ops
from jitgraph.codegen.kernels.kernel import Contract, statements_of
from jitgraph.codegen.kernels.schedule import Launch
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.compiler import compile
from jitgraph.ir.builder import build
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.types import TensorType
from jitgraph.runtime.executable import Executable

Shape = tuple[int, ...]

# x, w, strides, groups
CASES: list[tuple[Shape, Shape, Shape, int]] = [
    ((5, 16, 4, 4), (32, 16, 3, 3), (1, 1), 1),
    ((3, 32, 4, 4), (64, 16, 3, 3), (1, 1), 2),
    ((7, 44, 5, 4), (35, 44, 3, 3), (2, 2), 1),
    ((17, 128, 1), (32, 128, 1), (1,), 1),  # one place in each image
]


def _graph(x: Shape, w: Shape, strides: Shape, groups: int, dtype: str) -> Graph:
    unit = (1,) * len(strides)
    padding = tuple((extent // 2, extent // 2) for extent in w[2:])

    def program(x: Any, w: Any) -> Any:
        attrs = {"strides": strides, "padding": padding, "lhs_dilation": unit, "rhs_dilation": unit}
        return ops.tanh(ops.conv(x, w, groups=groups, **attrs))

    return build(program, [TensorType(np.dtype(dtype), shape) for shape in (x, w)])


def _run(graph: Graph, argument: list[Any]) -> Any:
    compiled = compile(graph)
    assert isinstance(compiled, Executable)
    return np.asarray(compiled.run(argument)[0])


def _columns(graph: Graph) -> set[Any]:
    """The columns of the products of a graph's kernels."""
    launches = [step for step in select(graph, CPU).steps if isinstance(step, Launch)]
    results = (statement for launch in launches for statement in statements_of(launch.kernel.body))
    return {statement.extents[1] for statement in results if isinstance(statement, Contract)}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_image_has_the_bits_that_it_has_alone(case: tuple[Shape, Shape, Shape, int], dtype: str) -> None:
    x, w, strides, groups = case
    random = np.random.default_rng(0)
    pixels, weight = (random.standard_normal(shape).astype(dtype) for shape in (x, w))
    pixels[0, 0] = np.nan
    pixels[1, 0] = np.inf
    pixels[2, :] = -0.0
    graph = _graph(x, w, strides, groups, dtype)
    full = _run(graph, [pixels, weight])
    single = _graph((1, *x[1:]), w, strides, groups, dtype)
    alone = np.concatenate([_run(single, [pixels[i : i + 1].copy(), weight]) for i in range(len(pixels))])
    assert full.tobytes() == alone.tobytes()
    np.testing.assert_allclose(full, interpret(graph, [pixels, weight])[0], rtol=1e-4, atol=1e-4)


def test_few_places_and_a_large_weight_make_one_product() -> None:
    few, many = ((5, 16, 4, 4), (32, 16, 3, 3)), ((5, 16, 5, 5), (32, 16, 3, 3))
    assert _columns(_graph(*few, (1, 1), 1, "float32")) == {5 * 16}
    assert _columns(_graph(*many, (1, 1), 1, "float32")) == {25}
    assert _columns(_graph(*few, (1, 1), 1, "float16")) == {16}
    assert _columns(_graph((5, 4, 4, 4), (32, 4, 3, 3), (1, 1), 1, "float32")) == {16}
