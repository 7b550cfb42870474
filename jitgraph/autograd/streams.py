"""Random streams under transforms: the handles that hold their states, and how many samples share one."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from jitgraph import dtypes, ops
from jitgraph.errors import UnsupportedOp
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.passes.batched import Sample

if TYPE_CHECKING:
    from jitgraph.passes.vmap import Batcher

_STATES: Final[weakref.WeakValueDictionary[int, Any]] = weakref.WeakValueDictionary()  # by id: tensors compare


def register(handle: Any) -> None:
    """Note that a handle holds the state of a stream: a ``uint64[2]`` of seed and counter."""
    _STATES[id(handle)] = handle


def is_state(handle: Any) -> bool:
    """Whether a handle holds the state of a stream."""
    return _STATES.get(id(handle)) is handle


def snapshot() -> list[tuple[Any, Any]]:
    """The handles of all streams with their values, outside of traces."""
    return [(handle, handle.value) for handle in _STATES.values()]


@contextmanager
def at(states: Sequence[tuple[Any, Any]]) -> Iterator[None]:
    """A block in which the streams stand where ``snapshot`` was asked; afterwards where they stood before."""
    now = snapshot()
    try:
        for handle, value in states:
            handle._rebind(value)
        yield
    finally:
        for handle, value in now:
            handle._rebind(value)


def apart(batcher: Batcher, graph: Graph, arguments: Sequence[Sample], place: int, output: Value) -> tuple[Sample, Any]:
    """The state with which each sample begins, and the one after the last: as if they were run one after another.

    UnsupportedOp where how much a sample draws depends on it.
    """
    (after,) = batcher.run(_leading_to(graph, output), arguments)
    if after.varies:
        raise UnsupportedOp(
            "vmap: how many random numbers are drawn differs between samples",
            hint='randomness="same", or draw them outside and give them as an argument',
        )
    before = arguments[place].value
    step = ops.sub(after.value, before)
    shape = (batcher.size, *before.shape)

    def spread(value: Any, axes: tuple[int, ...]) -> Any:
        return ops.broadcast(value, shape=shape, axes=axes)

    count = ops.cast(ops.iota(shape=(batcher.size,), axis=0, dtype=dtypes.int64), dtype=dtypes.uint64)
    states = ops.add(spread(before, (1,)), ops.mul(spread(count, (0,)), spread(step, (1,))))
    total = ops.cast(ops.full(shape=before.shape, value=batcher.size, dtype=dtypes.int64), dtype=dtypes.uint64)
    return Sample(states, True), ops.add(before, ops.mul(total, step))


def _leading_to(graph: Graph, output: Value) -> Graph:
    """The part of a graph that one of its outputs needs."""
    needed, nodes = {output}, list[Node]()
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs)
            nodes.append(node)
    return replace(graph, nodes=tuple(reversed(nodes)), outputs=(output,))
