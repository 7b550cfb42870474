"""Sorting by merging and by digits: stable, NaN last, the bits of elements kept, whatever the length and its name."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.codegen.lower.schedules.cpu import CPU
from jitgraph.codegen.lower.select import select
from jitgraph.compiler import compile as compile_graph
from jitgraph.ir.builder import build
from jitgraph.ir.dims import Dim
from jitgraph.ir.interpreter import interpret
from jitgraph.ir.types import TensorType
from jitgraph.ops import sort
from jitgraph_testing.kernels.schedule_executor import execute_schedule

LONGEST_MERGED = CPU.heuristics.sorting.longest_merged
NAMES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
DTYPES = [np.dtype(name) for name in ("bool", *NAMES)]
DTYPES.append(np.dtype(ml_dtypes.bfloat16))


def numbers(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int = 0) -> Any:
    """Random elements with many equal ones, extremes, both zeros, infinities, and NaN of both signs."""
    rng = np.random.default_rng(seed)
    if dtypes.is_bool(dtype):
        return rng.random(shape) < 0.5
    if dtypes.is_integer(dtype):
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        special: list[Any] = [info.min, info.max, 0, 1, info.max // 2]
    else:
        with np.errstate(over="ignore"):
            x = (rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 5, shape)).astype(dtype)
        special = [np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0]
    flat = x.reshape(-1)
    for position in range(0, flat.size, 3):
        flat[position] = special[position // 3 % len(special)]
    return x


@pytest.mark.parametrize(
    "dtype, descending, named",
    [(dtype, number % 2 == 1, dtype.name in ("float32", "uint8")) for number, dtype in enumerate(DTYPES)],
    ids=str,
)
def test_executor_and_native_code_equal_the_interpreter(dtype: np.dtype[Any], descending: bool, named: bool) -> None:
    lengths = (1, LONGEST_MERGED, LONGEST_MERGED + 1) if named else (LONGEST_MERGED + 3,)
    extent: Any = Dim.name("n") if named else lengths[0]
    type = TensorType(dtype, (extent,))
    graph = build(lambda x: sort(x, axis=0, descending=descending, stable=True), [type])
    schedule = select(graph, CPU)
    native = compile_graph(graph)
    for length in lengths:
        x = numbers(dtype, (length,))
        expected = interpret(graph, [x])
        for actual in (execute_schedule(schedule, [x]), native.run([x])):
            for one, wanted in zip(actual, expected, strict=True):
                assert one.tobytes() == np.asarray(wanted).tobytes()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_long_rows(dtype: np.dtype[Any], axis: int) -> None:
    for shape in ((5000, 2), (2, 5000)):
        x = jg.asarray(numbers(dtype, shape, seed=1))
        for descending in (False, True):
            positions = jg.argsort(x, axis=axis, descending=descending).numpy()
            order = jg.trace(lambda x, d=descending: jg.argsort(x, axis=axis, descending=d))
            both = jg.trace(lambda x, d=descending: jg.sort(x, axis=axis, descending=d))
            np.testing.assert_array_equal(order(x).numpy(), positions)
            assert both(x).numpy().tobytes() == np.take_along_axis(x.numpy(), positions, axis).tobytes()


@pytest.mark.parametrize("dtype", ["int64", "float64", "float32", "uint32"])
def test_rows_in_which_some_digits_are_all_the_same(dtype: str) -> None:
    """Passes are left out, so that the result lies in either half of the work buffer."""
    sorted_ = jg.trace(lambda x: (jg.sort(x), jg.argsort(x)))
    for most in (1, 2, 200, 300, 70_000, 2**24 + 5):
        x = np.random.default_rng(most).integers(0, most, 1000).astype(dtype)
        values, positions = sorted_(jg.asarray(x))
        np.testing.assert_array_equal(positions.numpy(), np.argsort(x, kind="stable"))
        np.testing.assert_array_equal(values.numpy(), np.sort(x))


@pytest.mark.parametrize("length", [1, 2, LONGEST_MERGED - 1, LONGEST_MERGED, LONGEST_MERGED + 1, 1000])
def test_a_length_known_only_at_the_call(length: int) -> None:
    sorted_ = jg.trace(lambda x: (jg.sort(x, axis=0), jg.argsort(x, axis=0)), dynamic_shapes={"x": {0: "n"}})
    x = numbers(np.dtype(np.float32), (length, 3))
    values, positions = sorted_(jg.asarray(x))
    expected = np.argsort(x, axis=0, kind="stable")
    np.testing.assert_array_equal(positions.numpy(), expected)
    assert values.numpy().tobytes() == np.take_along_axis(x, expected, 0).tobytes()
