"""Central differences: the derivative of a graph as the interpreter computes it, against what autodiff gives.

A complex number counts as its two parts: a gradient has those by both, and a product of two is that of the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from jitgraph.dtypes import DType, complex128, float64, is_complex
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.verifier import verify
from jitgraph.passes.autodiff import backward, carries_gradient

Array = NDArray[Any]
STEP = 1e-5
DIFFERENTIATED = (float64, complex128)
"""The dtypes of numbers that are precise enough for differences."""


def derivative(graph: Graph, order: int) -> tuple[Graph, Graph]:
    """The derivative of ``graph`` of one order less, and the gradients of its outputs.

    Both take the inputs of ``graph``, then cotangents; the second one more for each output of the first. It gives a
    gradient for each input of ``graph`` that carries one.
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
    results = [(y.dtype, y.shape) for y in interpret(graph, operands) if y.dtype in DIFFERENTIATED]
    inputs = [(x.dtype, x.shape) for x in operands if x.dtype in DIFFERENTIATED]
    for i in range(order):
        drawn = [drawn_like(rng, *each) for each in (inputs if i else results)]
        operands += drawn
    last = operands[len(operands) - len(drawn) :]
    moved = operands[: len(operands) - len(drawn)]
    result = interpret(gradient, operands)
    wrt = [i for i, x in enumerate(arguments) if np.asarray(x).dtype in DIFFERENTIATED]
    scale = 1.0 + sum(float(np.sum(np.abs(x))) for x in last)
    for i, value in zip(wrt, result, strict=True):
        sign = rng.choice([-1.0, 1.0], operands[i].shape)
        direction = sign * drawn_like(rng, operands[i].dtype, operands[i].shape, 0.5, 1.0)
        wanted = along(function, moved, i, direction, last)
        have = inner(value, direction)
        assert have == pytest.approx(wanted, rel=1e-7, abs=2e-9 * scale), f"gradient of input {i} at order {order}"


def drawn_like(
    rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], low: float = 0.5, high: float = 1.5
) -> Array:
    """Numbers between ``low`` and ``high``, complex ones with both parts there."""
    numbers: Array = rng.uniform(low, high, shape)
    if is_complex(dtype):
        numbers = numbers + 1j * rng.uniform(low, high, shape)
    return numbers.astype(dtype)


def inner(x: Array, y: Array) -> float:
    """The sum of the products of all parts."""
    return float(np.sum(x.real * y.real + x.imag * y.imag))


def along(function: Graph, arguments: Sequence[Array], i: int, direction: Array, cotangents: Sequence[Array]) -> float:
    """The derivative of <cotangents, function> along a direction of argument ``i``, fourth order in the step."""

    def at(step: float) -> Sequence[Array]:
        return interpret(function, [x + step * direction if j == i else x for j, x in enumerate(arguments)])

    def across(step: float) -> float:
        total = 0.0
        for high, low, ct in zip(at(step), at(-step), cotangents, strict=True):
            moves = high != low  # an infinity that stays where it is does not move
            total += inner(high[moves] - low[moves], ct[moves])
        return total

    return (8 * across(STEP) - across(2 * STEP)) / (12 * STEP)
