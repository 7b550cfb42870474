"""Random chains of float operations as a hypothesis strategy: rows, contractions and what is computed around them.

Unlike ``programs.programs`` a result that depends on the order of a sum is used on, so that fusion has epilogues and
rows to build. Every op keeps values within a few units and moves an error in its operands on by a small factor at most,
so an error bound that grows by that factor an op holds for the whole program: ``assert_close``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from jitgraph import ops
from jitgraph.dtypes import DType, float32, float64
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph, Value
from jitgraph.ir.types import TensorType

SIZES = {"n": 5, "m": 3}
EXTENTS: tuple[Any, ...] = (1, 3, 17, 33, Dim.name("n"), Dim.name("m"))
Step = Callable[["Chain", Value], Value | None]


def concrete(shape: Sequence[Any]) -> tuple[int, ...]:
    return tuple(d if isinstance(d, int) else SIZES[str(d)] for d in shape)


class Chain:
    """One program: its values, and for each the factor by which rounding may have grown."""

    def __init__(self, draw: Any, dtype: DType) -> None:
        self.draw = draw
        self.dtype = dtype
        self.builder = GraphBuilder()
        self.values: list[Value] = []
        self.arrays: list[Any] = []

    def choice(self, items: Sequence[Any]) -> Any:
        return items[self.draw(st.integers(0, len(items) - 1))]

    def supply(self, shape: Sequence[Any]) -> Value:
        rng = np.random.default_rng(self.draw(st.integers(0, 2**16)))
        self.arrays.append(rng.uniform(-1, 1, concrete(shape)).astype(self.dtype))
        self.values.append(self.builder.input(TensorType(self.dtype, tuple(shape))))
        return self.values[-1]

    def like(self, x: Value) -> Value:
        """A value of the same type."""
        return self.choice([value for value in self.values if value.type == x.type])

    def number(self, x: Value, value: float) -> Value:
        return ops.full(shape=x.shape, value=value, dtype=self.dtype)

    def scaled(self, x: Value, by: float) -> Value:
        return ops.mul(x, self.number(x, by))


def elementwise(chain: Chain, x: Value) -> Value:
    y = chain.like(x)
    return chain.choice(
        [
            lambda: ops.tanh(x),
            lambda: ops.sin(ops.add(x, y)),
            lambda: chain.scaled(ops.sub(x, y), 0.5),
            lambda: ops.mul(ops.tanh(x), ops.tanh(y)),
            lambda: ops.maximum(x, ops.neg(y)),
            lambda: ops.exp(ops.neg(ops.abs(x))),
            lambda: ops.div(x, ops.add(ops.mul(y, y), chain.number(x, 1.0))),
            lambda: ops.sqrt(ops.add(ops.mul(x, x), chain.number(x, 0.25))),
            lambda: ops.sigmoid(x),
        ]
    )()


def row(chain: Chain, x: Value) -> Value | None:
    """A reduction over some last axes, and what it is broadcast back to."""
    rank = len(x.shape)
    if rank == 0:
        return None
    axis = chain.draw(st.integers(0, rank - 1))
    count = int(np.prod(concrete(x.shape[axis : axis + 1])))
    if count == 0:
        return None
    kind = chain.choice(["sum", "max", "softmax", "norm"])
    if kind == "softmax":
        return ops.softmax(x, axis=axis)
    if kind == "max":
        reduced = ops.reduce_max(x, axes=(axis,))
    else:
        squared = ops.mul(x, x) if kind == "norm" else x
        reduced = ops.reduce_sum(squared, axes=(axis,))
        reduced = chain.scaled(reduced, 1 / count)
    kept = tuple(i for i in range(rank) if i != axis)
    chain.values.append(reduced)
    return ops.sub(x, ops.broadcast(reduced, shape=x.shape, axes=kept))


def product(chain: Chain, x: Value) -> Value | None:
    """A contraction of the last axis with a new matrix."""
    rank = len(x.shape)
    if rank not in (1, 2):
        return None
    columns = chain.choice(EXTENTS)
    w = chain.supply((x.shape[-1], columns))
    depth = max(1, concrete(x.shape)[-1])
    return chain.scaled(ops.dot(x, w, batch=((), ()), contract=((rank - 1,), (0,))), 1 / depth)


def moved(chain: Chain, x: Value) -> Value | None:
    rank = len(x.shape)
    if rank == 0:
        return None
    axis = chain.draw(st.integers(0, rank - 1))
    return chain.choice(
        [
            lambda: ops.transpose(x, permutation=tuple(reversed(range(rank)))),
            lambda: ops.flip(x, axes=(axis,)),
            lambda: ops.reshape(x, shape=(*x.shape[:axis], 1, *x.shape[axis:])) if rank < 3 else x,
            lambda: ops.concat(x, chain.like(x), axis=axis) if isinstance(x.shape[axis], int) else x,
        ]
    )()


STEPS: tuple[Step, ...] = (elementwise, elementwise, elementwise, row, row, product, moved)


@st.composite
def smooth_programs(draw: Any, max_steps: int = 10) -> tuple[Graph, list[Any]]:
    """A graph of floats, of one dtype, and arguments for it."""
    chain = Chain(draw, draw(st.sampled_from([float32, float64])))
    rank = draw(st.integers(1, 2))
    chain.supply([chain.choice(EXTENTS) for _ in range(rank)])
    with context.using(emitter=chain.builder, constraints=chain.builder.constraints):
        for _ in range(draw(st.integers(2, max_steps))):
            x = chain.choice(chain.values[-3:])
            result = chain.choice(STEPS)(chain, x)
            if result is not None and np.prod(concrete(result.shape)) <= 4000:
                chain.values.append(result)
    outputs = [chain.values[-1], *(value for value in chain.values[-4:-1] if draw(st.booleans()))]
    return chain.builder.graph(outputs, "chain"), chain.arrays


def assert_close(actual: Sequence[Any], wanted: Sequence[Any], ops_before: int) -> None:
    """Within the bound that the strategy keeps: each op doubles an error at most and adds one of its own."""
    for i, (a, b) in enumerate(zip(actual, wanted, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"output {i}"
        bound = np.finfo(b.dtype).eps * min(2.0 ** (ops_before + 5), 1e4)
        np.testing.assert_allclose(a, b, rtol=0, atol=bound, err_msg=f"output {i}")
