"""Float sums: the documented order and its bound, and the same bits however and wherever a program that sums runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.compiler import compile
from jitgraph.ir.interpreter import interpret
from jitgraph.runtime.executable import Executable
from jitgraph.runtime.loader import Runtime
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen import order_samples
from tests.ops.sum_cases import KINDS, PROGRAMS, SHAPES, Array, data, runs

SLOTS, CHAIN = 64, 32  # of a float32 sum along the last axis
THREADS = {threads: Runtime(threads=threads) for threads in (1, 2, 5)}


def ordered(x: Array, slots: int) -> Array:
    """The sum of a vector by its definition: 0.0 for none."""
    return order_samples.ordered(x, slots, CHAIN) if len(x) else x.dtype.type(0)  # type: ignore[no-any-return]


def bound(n: int, slots: int) -> float:
    """The greatest error of a float32 sum of n elements, as a part of the sum of their absolute values."""
    return (CHAIN + math.log2(slots) + math.ceil(math.log2(max(1.0, n / (slots * CHAIN))))) * 2.0**-24


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 1000, 2048, 2049, 16_384, 16_385, 100_003, 131_073])
def test_rows(n: int) -> None:
    for kind in KINDS:
        x = data(kind, (2, n))
        wanted = np.array([ordered(row, SLOTS) for row in x])
        for way, actual in runs(x, lambda x: x.sum(axis=1)):
            assert actual.tobytes() == wanted.tobytes(), (kind, way)


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 64, 257, 999, 1000, 4096, 5001])
@pytest.mark.parametrize("columns", [1, 3, 70])
def test_columns(n: int, columns: int) -> None:
    x = data("sorted", (n, columns))
    wanted = np.array([ordered(column, 1) for column in x.T])
    for way, actual in runs(x, lambda x: x.sum(axis=0)):
        assert actual.tobytes() == wanted.tobytes(), way


def test_several_axes_are_reduced_one_after_another_from_the_last() -> None:
    x = data("sorted", (5, 67, 33, 130))
    rows = np.array([ordered(row, SLOTS) for row in x.reshape(-1, 130)]).reshape(5, 67, 33)
    wanted = np.array([ordered(rows[:, j, k], 1) for j in range(67) for k in range(33)])
    for way, actual in runs(x, lambda x: x.sum(axis=(0, 3))):
        assert actual.tobytes() == wanted.tobytes(), way


@pytest.mark.parametrize("shape", [(40, 9, 7, 130), (70, 2, 33, 9), (3, 16, 1, 3000)], ids=str)
def test_runs_behind_a_kept_axis(shape: tuple[int, ...]) -> None:
    x = data("sorted", shape)
    images, channels, rows, width = shape
    by_row = np.array([ordered(row, SLOTS) for row in x.reshape(-1, width)]).reshape(images * channels, rows)
    runs_ = np.array([ordered(run, 1) for run in by_row]).reshape(images, channels)
    wanted = np.array([ordered(channel, 1) for channel in runs_.T])
    for way, actual in runs(x, lambda x: x.sum(axis=(0, 2, 3))):
        assert actual.tobytes() == wanted.tobytes(), way


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1000, 131_072, 1_000_003, 10_000_000])
def test_a_sum_stays_within_its_bound(kind: str, n: int) -> None:
    x = data(kind, (n,))
    exact = math.fsum(x.tolist())
    for way, actual in runs(x, lambda x: x.sum()):
        assert abs(float(actual) - exact) <= bound(n, SLOTS) * abs(exact), way
    columns = x[: n // 8 * 8].reshape(-1, 8)
    for way, actual in runs(columns, lambda x: x.sum(axis=0)):
        error = np.abs(actual - columns.sum(axis=0, dtype=np.float64))
        assert (error <= bound(len(columns), 1) * columns.sum(axis=0, dtype=np.float64)).all(), way


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_way_gives_the_same_bits(shape: tuple[int, ...]) -> None:
    for kind in KINDS[1:]:
        x = data(kind, shape)
        for name, program in PROGRAMS.items():
            actual = dict(runs(x, program))
            assert len({result.tobytes() for result in actual.values()}) == 1, (kind, name, actual)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_made_of_sums_does_not_drift(name: str, kind: str) -> None:
    x = data(kind, (1_000_000, 3))
    program = PROGRAMS[name]
    exact = np.asarray(program(jg.asarray(x.astype(np.float64))))
    wide = max(float(np.abs(exact).max()), 0.01)  # a variance of 0 is as good as its sum of squares
    named = np.asarray(jg.trace(dynamic_shapes={"x": {0: "rows"}})(lambda x: program(x))(x))
    for actual in (np.asarray(program(jg.asarray(x))), named):
        assert (np.abs(actual - exact) <= 2 * bound(1_000_000, 1) * wide).all(), (actual, exact)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("named", [False, True], ids=["known", "named"])
def test_every_floor_and_number_of_threads_gives_the_same_bits(name: str, named: bool) -> None:
    x = data("sorted", (2100, 70))
    dynamic = {"x": {0: "rows"}} if named else None
    program = PROGRAMS[name]
    graph = jg.trace(dynamic_shapes=dynamic)(lambda x: program(x)).lower(x).graph
    compiled = compile(graph)
    (wanted,) = interpret(compiled.stages.optimized, [x])  # type: ignore[union-attr]
    assert wanted.tobytes() == np.asarray(program(jg.asarray(x))).tobytes()
    (executed,) = execute_schedule(compiled.stages.schedule, [x])  # type: ignore[union-attr]
    assert np.asarray(executed).tobytes() == wanted.tobytes()
    for threads, runtime in THREADS.items():
        (actual,) = Executable(compiled.image, compiled.signature, runtime=runtime).run([x])  # type: ignore[union-attr]
        assert actual.tobytes() == wanted.tobytes(), threads


def test_the_sign_of_zero_and_sums_of_nothing() -> None:
    for x, wanted in ((np.full(100, -0.0, np.float32), -0.0), (np.zeros(0, np.float32), 0.0)):
        for way, actual in runs(x, lambda x: x.sum()):
            assert (float(actual), np.signbit(actual)) == (wanted, np.signbit(wanted)), way
    nothing = np.zeros((3, 0), np.float32)
    for way, actual in runs(nothing, lambda x: x.sum(axis=(0, 1))):
        assert (float(actual), np.signbit(actual)) == (0.0, False), way


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes_are_the_same_in_any_order(dtype: type) -> None:
    """Among zeros 0.0 is the greater, and a NaN wins, wherever it stands."""
    rng = np.random.default_rng(0)
    x = rng.choice(np.array([0.0, -0.0]), (64, 300)).astype(dtype)
    x[:8] = -0.0
    x[8:16] = 0.0
    x[16, 77] = np.nan
    positive = (~np.signbit(x)).any(axis=1)
    for name, sign in (("max", ~positive), ("min", np.signbit(x).any(axis=1))):
        for way, actual in runs(x, lambda x, name=name: getattr(x, name)(axis=1)):  # type: ignore[misc]
            numbers = ~np.isnan(actual)
            assert np.isnan(actual[16]), way
            assert numbers.sum() == 63, way
            assert (np.signbit(actual)[numbers] == sign[numbers]).all(), (name, way)


@pytest.mark.parametrize("shape", [(100_000, 3), (3, 100_000), (8, 40_000), (9, 40_000), (2, 3, 30_000)], ids=str)
def test_what_parts_make_takes_little_memory(shape: tuple[int, ...]) -> None:
    """The arena of a sum over all axes is a small part of its operand, whichever sizes are named."""
    x = data("sorted", shape)
    wanted = np.asarray(jg.asarray(x).sum()).tobytes()
    for named in range(len(shape)):
        traced = jg.trace(dynamic_shapes={"x": {named: "n"}})(lambda x: x.sum())
        lowered = traced.lower(x)
        assert np.asarray(traced(x)).tobytes() == wanted
        shapes = tuple(tuple(spec.shape) for spec in lowered.runnable.signature.parameters)
        sized = tuple(tuple(shape[i] if i == named else dim for i, dim in enumerate(s)) for s in shapes)
        assert lowered.runnable.entry.plan(sized).arena_bytes <= x.nbytes // 4 + (1 << 16)
