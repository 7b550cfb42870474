"""Scatters, sorts and cumulative ops in launches: the interpreter's bits, whatever the indices and the lengths are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from jitgraph import dtypes
from jitgraph.codegen.kernels.schedule_verifier import verify_schedule
from jitgraph.dtypes import DType, bfloat16, float32, int8, int64, uint16
from jitgraph.ir.builder import build
from jitgraph.ir.dims import Dim
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.ops import cummax, cumprod, cumsum, scatter, scatter_add, sort
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.cuda.assembled import assemble, needs_ptxas
from tests.codegen.cuda.launched import SM_90, Array, DeviceCheckError, code_of, run, schedule_of
from tests.codegen.lower.test_sorting import numbers


class Launched:
    """An op compiled once, and held to the interpreter for several arguments."""

    def __init__(self, function: Callable[..., Any], types: Sequence[tuple[DType, tuple[Any, ...]]]) -> None:
        self.graph = build(function, [TensorType(*type) for type in types])
        self.schedule = schedule_of(self.graph)
        verify_schedule(self.schedule)
        self.code = code_of(self.schedule)

    def require(self, arguments: Sequence[Array], *, races: bool = False, executed: bool = False) -> None:
        expected = [np.asarray(value) for value in interpret(self.graph, arguments)]
        outputs = [run(self.schedule, self.code, arguments, seed=1, races=races)]
        if executed:
            outputs.append(execute_schedule(self.schedule, arguments))
        for results in outputs:
            for one, wanted in zip(results, expected, strict=True):
                assert one.tobytes() == wanted.tobytes()


def indices(how: str, extent: int, count: int) -> Array:
    """Indices all equal, all different as far as there are enough, or random, negative ones among them."""
    rng = np.random.default_rng(count)
    if how == "equal":
        return np.full(count, extent // 2)
    if how == "distinct":
        return np.resize(rng.permutation(extent), count)
    return rng.integers(-extent, extent, count)


@pytest.mark.parametrize("op", [scatter, scatter_add], ids=["scatter", "scatter_add"])
@pytest.mark.parametrize("dtype", [float32, int8, uint16, int64, bfloat16], ids=str)
def test_scatters_give_the_bits_of_the_interpreter(op: Any, dtype: DType) -> None:
    rng = np.random.default_rng(1)
    for shape, axis, count in (((40,), 0, 33), ((3, 70, 5), 1, 1025)):
        updates = (*shape[:axis], count, *shape[axis + 1 :])
        types = [(dtype, shape), (int64, (count,)), (dtype, updates)]
        launched = Launched(lambda x, i, u, axis=axis: op(x, i, u, axis=axis), types)
        x, u = ((rng.standard_normal(extents) * 50).astype(dtype) for extents in (shape, updates))
        u.flat[::5] = 0
        for how in ("random", "equal", "distinct"):
            small = count < 100
            launched.require([x, indices(how, shape[axis], count), u], races=small, executed=small)


@pytest.mark.parametrize("op", [scatter, scatter_add], ids=["scatter", "scatter_add"])
@pytest.mark.parametrize("dtype", [float32, int8, uint16, int64, bfloat16], ids=str)
def test_scatters_into_a_temporary(op: Any, dtype: DType) -> None:
    """A copy of the operand, which a loop can do without, and launches over the updates alone."""
    rng = np.random.default_rng(2)
    for shape, axis, count in (((400,), 0, 33), ((2, 8300, 2), 1, 1025)):
        updates = (*shape[:axis], count, *shape[axis + 1 :])
        types = [(dtype, shape), (int64, (count,)), (dtype, updates)]

        def twice(x: Any, i: Any, u: Any, axis: int = axis) -> Any:
            return op(op(x, i, u, axis=axis), i, u, axis=axis)

        launched = Launched(twice, types)
        x, u = ((rng.standard_normal(extents) * 50).astype(dtype) for extents in (shape, updates))
        for how in ("random", "equal", "distinct"):
            small = count < 100
            i = indices(how, shape[axis], count)
            i[: count // 2] = i[count // 2 : count // 2 * 2]
            launched.require([x, i, u], races=small, executed=small)


def test_signs_of_zeros_and_nan_are_scattered_as_they_are() -> None:
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40], np.float32)
    for op in (scatter, scatter_add):
        launched = Launched(
            lambda x, i, u, op=op: op(x, i, u, axis=0), [(float32, (6,)), (int64, (36,)), (float32, (36,))]
        )
        launched.require([np.full(6, -0.0, np.float32), np.repeat(np.arange(6), 6), np.resize(special[:2], 36)])
        if op is scatter:
            launched.require([special, np.resize(np.arange(5), 36), np.resize(special, 36)])


@pytest.mark.parametrize("op", [scatter, scatter_add], ids=["scatter", "scatter_add"])
def test_an_index_out_of_range_is_an_error(op: Any) -> None:
    types = [(float32, (9,)), (int64, (50,)), (float32, (50,))]
    launched = Launched(lambda x, i, u: op(x, i, u, axis=0), types)
    i = np.zeros(50, np.int64)
    i[33] = 9
    with pytest.raises(DeviceCheckError) as failed:
        run(launched.schedule, launched.code, [np.zeros(9, np.float32), i, np.zeros(50, np.float32)])
    assert (failed.value.value, failed.value.bound) == (9, 9)


def test_sums_in_any_order_are_updates_in_one_step() -> None:
    target, rng = SM_90.in_any_order(), np.random.default_rng(2)
    for dtype in (float32, bfloat16):
        types = [TensorType(dtype, (7, 3)), TensorType(int64, (500,)), TensorType(dtype, (500, 3))]
        graph = build(lambda x, i, u: scatter_add(x, i, u, axis=0), types)
        schedule = schedule_of(graph, target)
        code = code_of(schedule, target)
        assert "atomicrmw fadd" in code.texts["llvm"]
        x, u = (rng.standard_normal(extents).astype(dtype) for extents in ((7, 3), (500, 3)))
        arguments = [x, rng.integers(0, 7, 500), u]
        (expected,) = interpret(graph, arguments)
        for seed in (1, 2):
            (actual,) = run(schedule, code, arguments, seed=seed, races=True)
            near = 1e-4 if dtype == float32 else 0.2
            np.testing.assert_allclose(actual.astype(np.float64), np.asarray(expected).astype(np.float64), atol=near)


@pytest.mark.parametrize("named", [False, True], ids=["known", "named"])
def test_scatters_of_named_sizes_and_of_nothing(named: bool) -> None:
    m, n = (Dim.name("m"), Dim.name("n")) if named else (5, 40)
    for op in (scatter, scatter_add):
        launched = Launched(
            lambda x, i, u, op=op: op(x, i, u, axis=0), [(float32, (m, 2)), (int64, (n,)), (float32, (n, 2))]
        )
        for count in (0, 1, 1100) if named else (40,):
            u = np.random.default_rng(3).standard_normal((count, 2)).astype(np.float32)
            launched.require([np.ones((5, 2), np.float32), indices("random", 5, count), u])


def test_rows_of_named_length_are_sorted() -> None:
    launched = Launched(
        lambda x: sort(x, axis=1, descending=False, stable=True), [(float32, (Dim.name("m"), Dim.name("n")))]
    )
    for length in (0, 1, 33, 1024, 1025, 4097):
        launched.require([numbers(float32, (2, length))])
    launched.require([np.zeros((1, 2050), np.float32)])


@pytest.mark.parametrize("dtype", [int8, bfloat16, dtypes.bool_, dtypes.float64], ids=str)
def test_long_columns_are_sorted(dtype: DType) -> None:
    for descending in (False, True):
        launched = Launched(lambda x, d=descending: sort(x, axis=0, descending=d, stable=True), [(dtype, (4099, 2))])
        launched.require([numbers(dtype, (4099, 2))])


def test_tiles_of_a_sort_race_for_nothing() -> None:
    launched = Launched(lambda x: sort(x, axis=0, descending=False, stable=True), [(float32, (1030,))])
    launched.require([numbers(float32, (1030,))], races=True)


@pytest.mark.parametrize("dtype", [float32, bfloat16, int8], ids=str)
def test_chunks_of_cumulative_ops(dtype: DType) -> None:
    for op, spread in ((cumsum, 50.0), (cumprod, 0.01)):
        for shape, axis in (((33,), 0), ((1025, 3), 0), ((2, 1023), 1), ((33000,), 0)):
            launched = Launched(lambda x, op=op, axis=axis: op(x, axis=axis), [(dtype, shape)])
            x = (np.random.default_rng(4).standard_normal(shape) * spread + (op is cumprod)).astype(dtype)
            x.flat[0] = -0.0 if op is cumsum else 1
            small = x.size < 2000
            launched.require([x], races=small, executed=small)


def test_cumulative_ops_of_named_lengths_and_nan() -> None:
    for op in (cumsum, cummax):
        launched = Launched(lambda x, op=op: op(x, axis=0), [(float32, (Dim.name("n"), 2))])
        for length in (0, 1, 32, 33, 1024, 1025):
            x = np.random.default_rng(5).standard_normal((length, 2)).astype(np.float32)
            x[length // 2 : length // 2 + 1, 0] = np.nan
            launched.require([x])


@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_80", "sm_120"])
def test_the_assembler_takes_updates_in_one_step(arch: str) -> None:
    ptx = []
    for dtype in (float32, dtypes.float64, dtypes.int32, int64, uint16):
        types = [TensorType(dtype, (40,)), TensorType(int64, (50,)), TensorType(dtype, (50,))]
        for target in (Target.named(arch), Target.named(arch).in_any_order()):
            graph = build(lambda x, i, u: (scatter(x, i, u, axis=0), scatter_add(x, i, u, axis=0)), types)
            ptx.append(code_of(schedule_of(graph, target), target).texts["ptx"])
    updates = [actual for text in ptx for actual in re.findall(r"(?:atom|red)\.(\S*(?:max|add)\S*)", text)]
    assert {"global.max.s32", "global.add.f32", "global.add.f64", "global.add.u64"} <= set(updates)
    assert all(update.startswith("global.") for update in updates)
    assert not [function for function in assemble(ptx, arch) if function.spilled]
