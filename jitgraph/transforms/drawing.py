"""Random numbers of samples: each begins where the one before it ended, as if they were run one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.errors import UnsupportedOp
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.passes.batching import Lane
from jitgraph.passes.vmap import Batcher


def sequential_draws(
    batcher: Batcher, graph: Graph, arguments: Sequence[Lane], index: int, output: Value
) -> tuple[Lane, Any]:
    """The state with which each sample begins, and the one after the last: as if they were run one after another.

    UnsupportedOp where how much a sample draws depends on it.
    """
    (after,) = batcher.run(_leading_to(graph, output), arguments)
    if after.varies:
        raise UnsupportedOp(
            "vmap: how many random numbers are drawn differs between samples",
            hint='randomness="same", or draw them outside and give them as an argument',
        )
    before = arguments[index].value
    step = ops.sub(after.value, before)
    shape = (batcher.size, *before.shape)

    def spread(value: Any, axes: tuple[int, ...]) -> Any:
        return ops.broadcast(value, shape=shape, axes=axes)

    count = ops.cast(ops.iota(shape=(batcher.size,), axis=0, dtype=dtypes.int64), dtype=dtypes.uint64)
    states = ops.add(spread(before, (1,)), ops.mul(spread(count, (0,)), spread(step, (1,))))
    total = ops.cast(ops.full(shape=before.shape, value=batcher.size, dtype=dtypes.int64), dtype=dtypes.uint64)
    return Lane(states, True), ops.add(before, ops.mul(total, step))


def _leading_to(graph: Graph, output: Value) -> Graph:
    """The part of a graph that one of its outputs needs."""
    needed, nodes = {output}, list[Node]()
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
            nodes.append(node)
    return replace(graph, nodes=tuple(reversed(nodes)), outputs=(output,))
