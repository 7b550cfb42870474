"""What a target decides of its nests: each decision changes some schedule, and none changes a bit of a result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from jitgraph import compiler
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.schedules.heuristics import Heuristics
from jitgraph.dtypes import DType, float32, int64, uint64
from jitgraph.errors import UnsupportedOp
from jitgraph.ir.builder import build
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph
from jitgraph.ir.types import TensorType
from jitgraph.ops import (
    add,
    concat,
    conv,
    cumsum,
    dot,
    exp,
    full,
    mul,
    pad,
    reduce_max,
    reduce_sum,
    reshape,
    scatter,
    scatter_add,
    softmax,
    sort,
    tanh,
    transpose,
    uniform,
)
from tests.codegen.slow_backend import SLOW, Executed, SlowBackend

Case = tuple[Callable[..., Any], list[tuple[DType, tuple[Any, ...]]], list[tuple[int, ...]]]
ON_CPU = SlowBackend(CPU)


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_VERIFY", "1")


def of_floats(function: Callable[..., Any], *shapes: tuple[Any, ...], n: int = 0) -> Case:
    """A program of float32 with its shapes, and the ones that it is called with where a size is named."""
    called = [tuple(extent if isinstance(extent, int) else n for extent in shape) for shape in shapes]
    return function, [(float32, shape) for shape in shapes], called


def scattered(x: Any, i: Any, u: Any) -> Any:
    return scatter_add(x, i, u, axis=0)


def convolved(x: Any, w: Any) -> Any:
    plain = {"strides": (1,), "padding": ((0, 0),), "lhs_dilation": (1,), "rhs_dilation": (1,)}
    return exp(conv(x, w, groups=2, **plain))


def joined(x: Any, y: Any, end: int = 2) -> Any:
    """A transposed operand and another one side by side in each row, between two ends; sums of its columns, too."""
    rows = reshape(transpose(x, permutation=(0, 2, 1)), shape=(3, x.shape[1] * x.shape[2]))
    half = full(shape=(), value=0.5, dtype=float32)
    entire = pad(concat(rows, y, axis=1), half, low=(0, end), high=(0, 9), interior=(0, 0))
    return add(mul(entire, entire), exp(entire)), reduce_sum(entire, axes=(0,))


CASES: dict[str, Case] = {
    "chain": of_floats(lambda x, y: tanh(add(mul(x, y), x)), (9, 5, 8), (9, 5, 8)),
    "softmax": of_floats(lambda x: softmax(x, axis=1), (6, 300)),
    "softmax of another axis": of_floats(lambda x: softmax(x, axis=1), (4, 40, 9)),
    "sum": of_floats(lambda x: reduce_sum(x, axes=(0,)), (50_001,)),
    "sum of a named size": of_floats(lambda x: reduce_sum(exp(x), axes=(0, 1)), (3, Dim.name("n")), n=20_000),
    "sum down columns": of_floats(lambda x: reduce_sum(x, axes=(0,)), (4_100, 66)),
    "long runs around a kept axis": of_floats(lambda x: reduce_sum(x, axes=(0, 2)), (24, 5, 300)),
    "short runs around a kept axis": of_floats(lambda x: reduce_sum(x, axes=(0, 2)), (24, 5, 100)),
    "greatest": of_floats(lambda x: reduce_max(x, axes=(1,)), (7, 501)),
    "transposed": of_floats(lambda x: exp(transpose(x, permutation=(1, 0))), (128, 75)),
    "sort": of_floats(lambda x: sort(x, axis=1, descending=False, stable=True), (3, 30)),
    "cumsum": of_floats(lambda x: (cumsum(x, axis=0), cumsum(x, axis=1)), (20, 13)),
    "cumsum of one row": of_floats(lambda x: cumsum(x, axis=0), (2100,)),
    "product": of_floats(lambda x, y: exp(dot(x, y, batch=((), ()), contract=((1,), (0,)))), (9, 400), (400, 7)),
    "long product": of_floats(lambda x, y: exp(dot(x, y, batch=((), ()), contract=((1,), (0,)))), (3, 1700), (1700, 2)),
    "images": of_floats(convolved, (3, 4, 5), (6, 2, 3)),
    "a named number of images": of_floats(convolved, (Dim.name("n"), 4, 5), (6, 2, 3), n=3),
    "scatter": (
        scattered,
        [(float32, (6, 4)), (int64, (30,)), (float32, (30, 4))],
        [(6, 4), (30,), (30, 4)],
    ),
}


def in_the_plane(x: Any, w: Any) -> Any:
    attrs = {"strides": (1, 2), "padding": ((1, 0), (2, 1)), "lhs_dilation": (1, 1), "rhs_dilation": (2, 1)}
    return exp(conv(x, w, groups=1, **attrs))


CASES["rows of places"] = of_floats(in_the_plane, (2, 3, 9, 20), (9, 3, 3, 2))
CASES["large windows"] = of_floats(in_the_plane, (8, 4, 9, 20), (9, 4, 4, 18))
CASES["transposed of few rows"] = of_floats(lambda x: exp(transpose(x, permutation=(1, 0))), (6, 75))
CASES["joined"] = of_floats(joined, (3, 5, 4), (3, 20))
CASES["joined in long pieces"] = of_floats(lambda x, y: joined(x, y, 10), (3, 16, 8), (3, 130))
CASES["scatter of the last"] = (lambda x, i, u: scatter(x, i, u, axis=0), *CASES["scatter"][1:])

CASES["random numbers"] = (
    lambda key: uniform(key, shape=(5, 64), dtype=float32),
    [(uint64, (2,))],
    [(2,)],
)

ASKED: dict[str, tuple[str, ...]] = {
    "independent": ("chain", "softmax of another axis", "scatter"),
    "slot_bytes": ("greatest",),
    "row_materialisation": ("softmax",),
    "split_reductions": ("sum", "sum of a named size", "short runs around a kept axis"),
    "columns": ("sum down columns",),
    "squares": ("transposed",),
    "tiles": ("transposed of few rows",),
    "sorting": ("sort",),
    "rows_in_chunks": ("cumsum of one row",),
    "products": ("long product",),
    "library": ("product",),
    "images": ("images", "a named number of images"),
    "convolutions": ("images", "rows of places", "large windows"),
    "lane_cuts": ("joined",),
    "scattering": ("scatter", "scatter of the last"),
    "random_blocks": ("random numbers",),
}
"""The decisions, and cases whose schedules differ by them."""


def graph_of(case: str) -> Graph:
    function, types, _ = CASES[case]
    return build(function, [TensorType(*type) for type in types])


def arguments_of(case: str) -> list[Any]:
    _, types, shapes = CASES[case]
    rng = np.random.default_rng(3)
    return [
        rng.standard_normal(shape).astype(dtype) if dtype == float32 else rng.integers(0, 6, shape).astype(dtype)
        for (dtype, _), shape in zip(types, shapes, strict=True)
    ]


def compiled(case: str, backend: SlowBackend) -> Executed:
    made = compiler.compile(graph_of(case), backend=backend)
    assert isinstance(made, Executed)
    return made


def require_same_bits(one: Executed, other: Executed, case: str) -> None:
    arguments = arguments_of(case)
    for ours, theirs in zip(one.run(arguments), other.run(arguments), strict=True):
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("case", CASES)
def test_another_target_gives_the_same_bits(case: str) -> None:
    require_same_bits(compiled(case, ON_CPU), compiled(case, SlowBackend()), case)


@pytest.mark.parametrize("decision", [field.name for field in fields(Heuristics)])
def test_each_decision_by_itself(decision: str) -> None:
    changed: Any = {decision: getattr(SLOW.heuristics, decision)}
    other = SlowBackend(replace(CPU, heuristics=replace(CPU.heuristics, **changed)))
    for case in ASKED[decision]:
        one, two = compiled(case, ON_CPU), compiled(case, other)
        assert one.schedule.steps != two.schedule.steps, case
        require_same_bits(one, two, case)


def test_a_target_that_cuts_nothing() -> None:
    entire = SlowBackend(
        replace(CPU, heuristics=replace(CPU.heuristics, split_reductions=None, columns=None, squares=None, tiles=None))
    )
    for case in ("sum", "sum of a named size", "sum down columns", "transposed"):
        one, two = compiled(case, ON_CPU), compiled(case, entire)
        assert one.schedule.steps != two.schedule.steps, case
        require_same_bits(one, two, case)


def test_a_nest_that_a_target_does_not_have() -> None:
    without = SlowBackend(replace(CPU, anchors={name: nest for name, nest in CPU.anchors.items() if name != "sort"}))
    with pytest.raises(UnsupportedOp, match="sort"):
        compiler.compile(graph_of("sort"), backend=without)
