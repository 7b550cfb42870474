"""A traced training step gives the bits of an eager one, but for the math functions, which NumPy evaluates eagerly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import nn, ops
from jitgraph.compiler import compile
from jitgraph.ir.builder import build
from jitgraph.ir.op import Op
from jitgraph.ir.types import TensorType

MATH = (ops.exp, ops.log, ops.erf)
STEPS, ROWS, FEATURES, CLASSES = 3, 32, 64, 10


def by_kernel(op: Op) -> Any:
    """What compiled code of ``op`` alone gives for an array."""

    def evaluate(x: Any) -> Any:
        graph = build(op, [TensorType(x.dtype, x.shape)])
        return np.array(compile(graph).run([np.ascontiguousarray(x).reshape(x.shape)])[0])

    return evaluate


@pytest.fixture
def math_by_kernels() -> Iterator[None]:
    plain = [op.evaluate for op in MATH]
    try:
        for op in MATH:
            object.__setattr__(op, "evaluate", by_kernel(op))
        yield
    finally:
        for op, evaluate in zip(MATH, plain, strict=True):
            object.__setattr__(op, "evaluate", evaluate)


def trained(activation: Any, traced: bool) -> list[Any]:
    """Losses and parameters of some steps of Adam from one start over one set of data."""
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(FEATURES, 2 * FEATURES), activation(), nn.Linear(2 * FEATURES, CLASSES))
    start = {name: 0.1 * rng.normal(size=value.shape) for name, value in model.state_dict().items()}
    model.load_state_dict({name: value.astype(np.float32) for name, value in start.items()})
    adam = jg.optim.Adam(model.parameters(), lr=1e-2)

    def step(x: Any, labels: Any) -> Any:
        adam.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        adam.step()
        return loss

    run = jg.trace(step) if traced else step
    losses = []
    for _ in range(STEPS):
        x, labels = rng.normal(size=(ROWS, FEATURES)), rng.integers(0, CLASSES, size=ROWS)
        losses.append(run(jg.asarray(x.astype(np.float32)), jg.asarray(labels)).item())
    return [losses, *(np.array(value) for value in model.state_dict().values())]


@pytest.mark.parametrize("activation", [nn.GELU, nn.ReLU])
@pytest.mark.usefixtures("math_by_kernels")
def test_traced_and_eager_steps_give_the_same_bits(activation: Any) -> None:
    for traced, eager in zip(trained(activation, True), trained(activation, False), strict=True):
        np.testing.assert_array_equal(traced, eager)
