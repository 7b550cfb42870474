"""Transposed copies, which go through squares in registers: elements of every size, and what squares leave over."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from jitgraph import ops
from jitgraph.codegen.kernels.kernel import Local, statements_of
from jitgraph.codegen.kernels.schedule import Launch
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.compiler import compile
from jitgraph.ir.builder import build
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.runtime.executable import Executable

DTYPES = ["float32", "float64", "int32", "uint8", "int16", "float16", "bool", "int64", ml_dtypes.bfloat16]
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((37, 45), (1, 0)),
    ((64, 64), (1, 0)),
    ((100, 8), (1, 0)),
    ((8, 100), (1, 0)),
    ((3, 17, 33), (0, 2, 1)),
    ((9, 40, 8), (2, 1, 0)),
    ((2, 3, 32, 16), (0, 3, 2, 1)),
    ((5, 24, 24, 7), (3, 2, 1, 0)),
    ((16, 1, 33), (2, 1, 0)),
]


def _graph(shape: tuple[int, ...], permutation: tuple[int, ...], dtype: Any) -> Graph:
    """A transposed operand by itself, and beside another one."""

    def program(x: Any, y: Any) -> Any:
        turned = ops.transpose(x, permutation=permutation)
        return turned, ops.select(ops.eq(turned, y), y, turned)

    turned = tuple(shape[axis] for axis in permutation)
    return build(program, [TensorType(np.dtype(dtype), shape), TensorType(np.dtype(dtype), turned)])


@pytest.mark.parametrize("level", sorted({"x86-64-v3", Target.host().name}))
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_transposed_copies(dtype: Any, level: str) -> None:
    random = np.random.default_rng(0)
    for shape, permutation in SHAPES:
        x = (random.standard_normal(shape) * 50).astype(dtype)
        other = (random.standard_normal(shape) * 50).astype(dtype)
        expected = np.ascontiguousarray(x.transpose(permutation))
        compiled = compile(_graph(shape, permutation, dtype), Target.named(level), donate=[(1, 1)])
        assert isinstance(compiled, Executable)
        operands = [x, np.ascontiguousarray(other.transpose(permutation))]
        copy, chosen = (np.asarray(result) for result in compiled.run(operands))
        assert copy.tobytes() == expected.tobytes(), (shape, permutation)
        assert chosen.tobytes() == expected.tobytes(), (shape, permutation)


def test_which_nests_go_through_squares() -> None:
    def squares(graph: Graph) -> int:
        launches = [step for step in select(graph, CPU).steps if isinstance(step, Launch)]
        return sum(isinstance(statement, Local) for x in launches for statement in statements_of(x.kernel.body))

    assert squares(_graph((40, 24), (1, 0), "float32")) == 1  # one local buffer, which both results read
    assert squares(_graph((40, 7), (1, 0), "float32")) == 0
    assert squares(_graph((4, 40, 24), (1, 0, 2), "float32")) == 0  # read along the innermost axis
