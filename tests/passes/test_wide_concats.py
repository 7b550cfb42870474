"""wide_concats: joins of many tensors become a tree of joins of few, and what is compiled no longer grows with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.codegen.kernels.schedule import Launch
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.ir.builder import build
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.verifier import verify
from jitgraph.ops import concat, exp, mul
from jitgraph.passes import pipeline
from jitgraph.passes.wide_concats import WIDEST, wide_concats
from tests.graphs import TARGET, t


def joined(*parts: Any, axis: int = 0) -> Any:
    return exp(mul(full := concat(*parts, axis=axis), full))


def lowered(graph: Graph) -> tuple[int, int]:
    """The launches of a graph, and the statements of its different kernels."""
    steps = [step for step in select(pipeline.run(graph, TARGET), CPU).steps if isinstance(step, Launch)]
    return len(steps), sum(len(repr(kernel)) for kernel in {step.kernel for step in steps})


@pytest.mark.parametrize("count", [WIDEST, WIDEST + 1, 100, WIDEST * WIDEST + 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_tree_of_joins_joins_the_same(count: int, axis: int) -> None:
    shapes = [(i % 3, 2) if axis == 0 else (2, i % 3) for i in range(count)]
    graph = build(lambda *parts: joined(*parts, axis=axis), [t(*shape) for shape in shapes])
    after = wide_concats(graph, TARGET)
    verify(after)
    assert (after is graph) == (count <= WIDEST)
    assert all(len(node.inputs) <= WIDEST for node in after.nodes)
    rng = np.random.default_rng(count)
    arrays = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    np.testing.assert_array_equal(interpret(after, arrays)[0], interpret(graph, arrays)[0])


def test_kernels_do_not_grow_with_the_parts() -> None:
    counts = [WIDEST * n for n in (4, 8, 16)]
    results = [lowered(build(joined, [t(3)] * count)) for count in counts]
    launches, sizes = zip(*results, strict=True)
    assert launches == (5, 10, 18)  # a join of a few is fused with what reads it
    assert max(sizes) < 3 * min(sizes)  # one kernel for each level, whatever it reads


def test_compiled_joins_and_their_gradients() -> None:
    parts = [jg.asarray(np.arange(i, i + 3, dtype=np.float32), requires_grad=True) for i in range(100)]

    @jg.trace
    def loss(parts: Any) -> Any:
        full = jg.concat(parts)
        (full * full).sum().backward()
        return full

    np.testing.assert_array_equal(np.asarray(loss(parts)), np.concatenate([np.asarray(p.detach()) for p in parts]))
    for part in parts:
        np.testing.assert_array_equal(np.asarray(part.grad), 2 * np.asarray(part.detach()))
