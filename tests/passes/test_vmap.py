"""vmap of every op of the table equals the stack of single calls."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from jitgraph import dtypes
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.constraints import Constraints
from jitgraph.ir.graph import Graph
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType
from jitgraph.ops import OPS
from jitgraph.passes.batching import Lane
from jitgraph.passes.vmap import Batcher
from tests.op_loop import require_same

WITHOUT_TENSORS = {
    "token": "it has no operands, and tokens have no axis of samples",
    "stack_new": "it has no operands; stacks come of gradients, which are taken of the batched loop",
    "stack_push": "as stack_new",
    "stack_pop": "as stack_new",
    "print": "tokens are no arguments of a graph; test_vmap of tests/autograd prints",
    "grad": "its operands are values of one graph; test_vmap of tests/autograd differentiates",
}
ROUNDS = {"dot", "conv", "linear", "conv_nd", "attention", "attention_gradient"}
"""Whose sums have another order where samples are rows of one product: they agree within the bound of the order."""


def single(op: Op, sample: Sample) -> Graph:
    builder = GraphBuilder()
    inputs = [builder.input(TensorType(np.asarray(x).dtype, np.shape(x))) for x in sample.inputs]
    with context.using(emitter=builder, constraints=builder.constraints):
        outputs = builder.emit(op, inputs, sample.attrs, sample.regions)
    return builder.graph(outputs, op.name)


def batched(graph: Graph, size: int, flags: Sequence[bool]) -> Graph:
    with context.using(constraints=Constraints(graph.constraints)):
        operands = [Lane(None, flag) for flag in flags]
        return Batcher(size).region(graph, operands, [True] * len(graph.outputs))[0]


def variants(x: Any, size: int, op: Op) -> list[Any]:
    """``x``, and its elements in other orders; of a positive definite matrix the rows and columns alike."""
    array = np.asarray(x)
    if op.name == "cholesky":
        return [np.roll(array, (shift, shift), (-2, -1)) for shift in range(size)]
    return [np.roll(array.reshape(-1), shift).reshape(array.shape) for shift in range(size)]


def masks(count: int) -> list[tuple[bool, ...]]:
    """Every choice of operands for few, else each alone and all."""
    if count <= 3:
        return [flags for flags in product((True, False), repeat=count) if any(flags)]
    return [tuple(i == j for i in range(count)) for j in range(count)] + [(True,) * count]


def compare(op: Op, sample: Sample, size: int, flags: Sequence[bool]) -> None:
    graph = single(op, sample)
    rows = [
        variants(x, size, op) if flag else [np.asarray(x)] * size for x, flag in zip(sample.inputs, flags, strict=True)
    ]
    stacks = [
        np.stack(row) if size and flag else np.zeros((0, *np.shape(x)), np.asarray(x).dtype) if flag else np.asarray(x)
        for x, row, flag in zip(sample.inputs, rows, flags, strict=True)
    ]
    result = interpret(batched(graph, size, flags), stacks)
    alone = [interpret(graph, arguments) for arguments in zip(*rows, strict=True)]
    for number, value in enumerate(graph.outputs):
        want = np.stack([outputs[number] for outputs in alone]) if alone else np.zeros((0, *value.shape), value.dtype)
        scale = float(np.max(np.abs(want.astype(np.float64)), initial=1.0)) if want.dtype.kind == "f" else 1.0
        rounds = op.name in ROUNDS and np.all(np.isfinite(want.astype(np.float64)))
        require_same([want], [result[number]], ulps=4 if rounds else 0, scale=scale if np.isfinite(scale) else 1.0)


OF_USERS = {name for name, op in OPS.items() if "called_by_name" in op.traits}  # ``tests/tensor/test_custom_op.py``
NAMES = sorted(set(OPS) - set(WITHOUT_TENSORS) - OF_USERS - {name for name, op in OPS.items() if op.samples is None})


@pytest.mark.parametrize("name", NAMES)
def test_every_op_is_the_stack_of_its_single_calls(name: str) -> None:
    op = OPS[name]
    assert op.samples is not None
    some = [dtypes.float32, dtypes.int64, dtypes.bool_, dtypes.uint64, dtypes.bfloat16]
    known = [dtype for dtype in dtypes.DTYPES if op.samples(dtype)]
    chosen = [dtype for dtype in known if dtype in some] or known[:1]
    ran = 0
    for dtype in chosen:
        for number, sample in enumerate(op.samples(dtype)):
            for flags in masks(len(sample.inputs)):
                for size in (3,) if number else (0, 1, 3):
                    compare(op, sample, size, flags)
                    ran += 1
    assert ran or op.kind == "creation"
