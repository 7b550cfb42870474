"""Central differences: the derivative of a graph as the interpreter computes it, against what autodiff gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from jitgraph.dtypes import float64
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.verifier import verify
from jitgraph.passes.autodiff import backward, carries_gradient

Array = NDArray[Any]
STEP = 1e-5


def derivative(graph: Graph, order: int) -> tuple[Graph, Graph]:
    """The derivative of ``graph`` of one order less, and the gradients of its outputs.

    Both take the inputs of ``graph``, then cotangents; the second one more for each output of the first. It gives a
    gradient for each float input of ``graph``.
    """
    builder = GraphBuilder(graph.constraints)
    inputs = [builder.input(value.type) for value in graph.inputs]
    wrt = [value for value in inputs if carries_gradient(value.type)]
    outputs = [value for value in builder.inline(graph, inputs) if carries_gradient(value.type)]
    for _ in range(order - 1):
        cotangents = [builder.input(value.type) for value in outputs]
        outputs = list(backward(builder, outputs, cotangents, wrt))
    function = builder.graph(outputs)
    cotangents = [builder.input(value.type) for value in outputs]
    gradients = backward(builder, outputs, cotangents, wrt)
    return function, builder.graph(gradients)


def check(graph: Graph, arguments: Sequence[Any], order: int = 1) -> None:
    """Each gradient of ``graph``, along a random direction of its input, against the central difference along it."""
    function, gradient = derivative(graph, order)
    verify(function)
    verify(gradient)
    rng = np.random.default_rng(0)
    operands = [np.asarray(x) for x in arguments]
    shapes = [y.shape for y in interpret(graph, operands) if y.dtype == float64]
    inputs = [x.shape for x in operands if x.dtype == float64]
    for i in range(order):
        drawn = [rng.uniform(0.5, 1.5, shape) for shape in (inputs if i else shapes)]
        operands += drawn
    last = operands[len(operands) - len(drawn) :]
    moved = operands[: len(operands) - len(drawn)]
    result = interpret(gradient, operands)
    floats = [i for i, x in enumerate(arguments) if np.asarray(x).dtype == float64]
    scale = 1.0 + sum(float(np.sum(np.abs(x))) for x in last)
    for i, value in zip(floats, result, strict=True):
        direction = rng.choice([-1.0, 1.0], operands[i].shape) * rng.uniform(0.5, 1.0, operands[i].shape)
        wanted = along(function, moved, i, direction, last)
        have = float(np.sum(value * direction))
        assert have == pytest.approx(wanted, rel=1e-7, abs=2e-9 * scale), f"gradient of input {i} at order {order}"


def along(function: Graph, arguments: Sequence[Array], i: int, direction: Array, cotangents: Sequence[Array]) -> float:
    """The derivative of <cotangents, function> along a direction of argument ``i``, fourth order in the step."""

    def at(step: float) -> Sequence[Array]:
        return interpret(function, [x + step * direction if j == i else x for j, x in enumerate(arguments)])

    def across(step: float) -> float:
        total = 0.0
        for high, low, ct in zip(at(step), at(-step), cotangents, strict=True):
            moves = high != low  # an infinity that stays where it is does not move
            total += float(np.sum((high[moves] - low[moves]) * ct[moves]))
        return total

    return (8 * across(STEP) - across(2 * STEP)) / (12 * STEP)
