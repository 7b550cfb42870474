"""Tensors without elements: every op behind every movement op, native code against the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import compiler, dtypes
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Value
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType
from jitgraph.ops import (
    OPS,
    broadcast,
    complex_eq,
    concat,
    dynamic_slice,
    dynamic_update_slice,
    eq,
    flip,
    full,
    gather,
    pad,
    reshape,
    scatter,
    select,
    slice,
    transpose,
)
from tests.op_loop import NOT_COMPILED, require_same

Supply = Callable[..., Value]
Way = Callable[[Supply, tuple[int, ...]], Value]


def first_zero(shape: Sequence[int]) -> int:
    return list(shape).index(0)


def sides(shape: Sequence[int], **changed: int) -> tuple[int, ...]:
    return tuple(changed.get(f"axis{axis}", extent) for axis, extent in enumerate(shape))


def zeros(shape: Sequence[int]) -> tuple[int, ...]:
    return (0,) * len(shape)


def ones(shape: Sequence[int]) -> tuple[int, ...]:
    return (1,) * len(shape)


def joined(argument: Supply, shape: tuple[int, ...], axis: int, *extents: int) -> Value:
    return concat(*(argument(sides(shape, **{f"axis{axis}": extent})) for extent in extents), axis=axis)


def stacked(argument: Supply, shape: tuple[int, ...]) -> Value:
    """What ``stack`` records: the parts with one more axis each, joined along it."""
    part, axis = (*shape[1:],), 0
    parts = [reshape(argument(part), shape=(1, *part)) for _ in range(shape[0])]
    return concat(*parts, axis=axis) if parts else argument(shape)


def computed(x: Value) -> Value:
    return select((complex_eq if dtypes.is_complex(x.dtype) else eq)(x, x), x, x)


def index(argument: Supply) -> Value:
    return full(shape=(), value=0, dtype=dtypes.int64)


# Each gives a tensor of a shape with an extent of 0; the shapes with one axis and with none behind are among them.
WAYS: dict[str, Way] = {
    "given": lambda given, shape: given(shape),
    "computed": lambda given, shape: computed(given(shape)),
    "full": lambda given, shape: full(shape=shape, value=True, dtype=given(shape).dtype),
    "reshape": lambda given, shape: reshape(given((3, 0)), shape=shape),
    "transpose": lambda given, shape: transpose(given(shape[::-1]), permutation=tuple(range(len(shape)))[::-1]),
    "flip": lambda given, shape: flip(given(shape), axes=tuple(range(len(shape)))),
    "broadcast": lambda given, shape: broadcast(given(shape[1:]), shape=shape, axes=tuple(range(1, len(shape)))),
    "broadcast of one": lambda given, shape: broadcast(
        given(tuple(min(1, extent) for extent in shape)), shape=shape, axes=tuple(range(len(shape)))
    ),
    "slice": lambda given, shape: slice(
        given(tuple(extent + 2 for extent in shape)),
        starts=ones(shape),
        stops=tuple(extent + 1 for extent in shape),
        strides=ones(shape),
    ),
    "pad": lambda given, shape: pad(
        given(tuple(max(0, extent - 1) for extent in shape)),
        full(shape=(), value=True, dtype=given(()).dtype),
        low=zeros(shape),
        high=tuple(min(1, extent) for extent in shape),
        interior=zeros(shape),
    ),
    "concat of none": lambda given, shape: joined(given, shape, first_zero(shape), 0, 0),
    "concat": lambda given, shape: joined(given, shape, len(shape) - 1, 0, shape[-1]),
    "stack": stacked,
    "dynamic_slice": lambda given, shape: dynamic_slice(
        given(tuple(extent + 1 for extent in shape)), *[index(given) for _ in shape], sizes=shape
    ),
    "dynamic_update_slice": lambda given, shape: dynamic_update_slice(
        given(shape), given(shape), *[index(given) for _ in shape]
    ),
    "gather": lambda given, shape: gather(
        given(sides(shape, **{f"axis{first_zero(shape)}": 4})),
        full(shape=(0,), value=0, dtype=dtypes.int64),
        axis=first_zero(shape),
    ),
    "scatter": lambda given, shape: scatter(
        given(shape), full(shape=(0,), value=0, dtype=dtypes.int64), given((0, *shape[1:])), axis=0
    ),
}


def sample(*shapes: tuple[int, ...], **attrs: Any) -> Sample:
    return Sample(tuple(np.ones(shape, np.float32) for shape in shapes), attrs)


def no_indices(*shape: int) -> Any:
    return np.zeros(shape, np.int64)


# Shapes that the table's own samples lack.
MORE: dict[str, list[Sample]] = {
    "dot": [
        sample((2, 0), (0, 3), batch=((), ()), contract=((1,), (0,))),
        sample((0,), (0,), batch=((), ()), contract=((0,), (0,))),
        sample((0, 2), (2, 3), batch=((), ()), contract=((1,), (0,))),
        sample((3, 2), (2, 0), batch=((), ()), contract=((1,), (0,))),
        sample((0, 2, 3), (0, 3, 4), batch=((0,), (0,)), contract=((2,), (1,))),
        sample((2, 2, 0), (2, 0, 4), batch=((0,), (0,)), contract=((2,), (1,))),
        sample((2, 0, 3), (3, 0, 5), batch=((), ()), contract=((1, 2), (1, 0))),
    ],
    "reduce_sum": [sample((2, 0), axes=(1,)), sample((2, 0), axes=(0,)), sample((0, 3), axes=(0, 1))],
    "reduce_max": [sample((0, 3), axes=(1,))],
    "argmax": [sample((0, 3), axis=1)],
    "cumsum": [sample((2, 0), axis=1), sample((0, 2), axis=1)],
    "sort": [sample((2, 0), axis=1, descending=False), sample((0, 2), axis=1, descending=True)],
    "softmax": [sample((2, 0), axis=1), sample((0, 2), axis=1)],
    "gather": [
        Sample((np.ones((0, 3), np.float32), no_indices(0)), {"axis": 0}),
        Sample((np.ones((4, 0), np.float32), no_indices(2)), {"axis": 0}),
        Sample((np.ones((4, 3), np.float32), no_indices(2, 0)), {"axis": 1}),
    ],
    "scatter": [
        Sample((np.ones((4, 0), np.float32), no_indices(2), np.ones((2, 0), np.float32)), {"axis": 0}),
        Sample((np.ones((4, 3), np.float32), no_indices(0), np.ones((0, 3), np.float32)), {"axis": 0}),
    ],
    "scatter_add": [
        Sample((np.ones((4, 0), np.float32), no_indices(2), np.ones((2, 0), np.float32)), {"axis": 0}),
        Sample((np.ones((4, 3), np.float32), no_indices(0), np.ones((0, 3), np.float32)), {"axis": 0}),
    ],
}


def empty_samples(op: Op) -> list[Sample]:
    """Samples with an operand without elements, those of the first dtype that has some."""
    assert op.samples is not None
    for dtype in (dtypes.float32, dtypes.int64, dtypes.bool_, dtypes.float64):
        results = [s for s in (*op.samples(dtype), *MORE.get(op.name, ())) if any(np.size(x) == 0 for x in s.inputs)]
        if results:
            return results
    return []


def tables() -> Iterator[tuple[str, list[Sample]]]:
    for name, op in OPS.items():
        if name not in NOT_COMPILED and op.samples is not None and (result := empty_samples(op)):
            yield name, result


TABLES = dict(tables())


def test_every_family_is_there() -> None:
    kinds = {OPS[name].kind for name in TABLES}
    assert kinds >= {"elementwise", "movement", "reduce", "contraction", "indexing", "composite", "other"}
    assert {"cumsum", "sort", "scatter_add", "conv", "dot", "argmax", "pad", "concat", "softmax"} <= set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_op_behind_every_movement_op(name: str) -> None:
    """Each empty operand made in each way; results without elements, and results that say what an empty sum is."""
    op = OPS[name]
    builder = GraphBuilder()
    arguments: list[Any] = []
    outputs: list[Value] = []

    def given_array(array: Any) -> Value:
        arguments.append(array)
        return builder.input(TensorType(array.dtype, array.shape))

    with context.using(emitter=builder, constraints=builder.constraints):
        for one in TABLES[name]:
            for way in WAYS.values():
                operands = []
                for x in map(np.asarray, one.inputs):

                    def given(shape: tuple[int, ...], x: Any = x) -> Value:
                        return given_array(np.ones(shape, x.dtype))

                    operands.append(given_array(x) if x.size else way(given, x.shape))
                outputs += builder.emit(op, operands, one.attrs, one.regions)
    graph = builder.graph(outputs, name)
    result = compiler.compile(graph).run(arguments)
    require_same(interpret(graph, arguments), result, ulps=64)


@pytest.mark.parametrize("extent", [0, 1, 384])  # 384: one block of the packed product, and no more
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex64", "bfloat16"])
@pytest.mark.parametrize("text", ["mk,nk->mn", "mk,kn->mn", "km,kn->mn", "bmk,bkn->bmn"])
def test_products_of_named_sizes_over_nothing(text: str, dtype: str, extent: int) -> None:
    lengths = {"b": 2, "m": 4, "n": 19, "k": extent}
    left, right = text.split("->")[0].split(",")
    x, y = (jg.ones(tuple(lengths[axis] for axis in axes), dtype=dtype) for axes in (left, right))
    named = {
        name: {at: axis for at, axis in enumerate(axes) if axis != "k"} for name, axes in (("x", left), ("y", right))
    }
    traced = jg.trace(lambda x, y: jg.einsum(text, x, y), dynamic_shapes=named)
    for _ in range(2):
        product = traced(x, y).astype("complex128").numpy()
        np.testing.assert_array_equal(product, np.full([lengths[axis] for axis in text.split("->")[1]], extent))
