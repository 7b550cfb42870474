"""Sums in at most two launches, both of which many threads share, in the order of the CPU and in any other."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.codegen.cuda.launches import launch_nests_of
from jitgraph.codegen.kernels.schedule import Launch
from tests.codegen.cuda.assembled import assemble, needs_ptxas
from tests.codegen.cuda.launched import SM_90, Array, code_of, run, schedule_of
from tests.codegen.cuda.parallelism import steps_of

TARGETS = {"in order": SM_90, "in any order": SM_90.in_any_order()}
Function = Callable[..., Any]


def everything(x: Any) -> Any:
    return jg.sum(x)


def results(function: Function, target: str, *arrays: Array, spec: tuple[Any, ...] = ()) -> tuple[list[Array], int]:
    """What the launches give, and how many there are; ``spec`` are the tensors that the function is lowered for."""
    lowered = jg.trace(function).lower(*(spec or map(jg.asarray, arrays)))
    schedule = schedule_of(lowered.graph, TARGETS[target])
    code = code_of(schedule, TARGETS[target])
    return run(schedule, code, arrays, races=True), len(code.launches)


def assert_gives(
    function: Function, target: str, *arrays: Array, spec: tuple[Any, ...] = (), launches: int = 2
) -> None:
    """The bits of the CPU in its order, and what is near to them in any other."""
    actual, count = results(function, target, *arrays, spec=spec)
    expected = function(*map(jg.asarray, arrays))
    assert count <= launches
    for result, tensor in zip(actual, expected if isinstance(expected, tuple) else (expected,), strict=True):
        if target == "in order":
            assert result.tobytes() == tensor.numpy().tobytes()
        else:
            np.testing.assert_allclose(result, tensor.numpy(), rtol=1e-4, atol=1e-3)


def normal(*shape: int) -> Array:
    return np.random.default_rng(prod(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "extent",
    [0, 1, 31, 32, 33, 63, 64, 65, 2047, 2048, 2049, 4097, 8191, 8193, 1 << 14, (1 << 16) + 1, (1 << 17) - 1, 327_681],
)
def test_a_sum_of_all(extent: int, target: str) -> None:
    assert_gives(everything, target, normal(extent))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("extent", [0, 1, 33, 2048, 8193, 70_000])
def test_a_sum_of_a_named_extent(extent: int, target: str) -> None:
    assert_gives(everything, target, normal(extent), spec=(jg.TensorSpec(("n",), jg.float32),))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [("n", 0), (0, "n"), ("n", 3, 0), (0, 3, "n")])
def test_sums_of_no_elements_beside_a_named_extent(shape: tuple[Any, ...], target: str) -> None:
    """The number of elements is known to be 0 where the extents are not all known."""
    array = np.zeros([2 if extent == "n" else extent for extent in shape], np.float32)

    def sums(x: Any) -> Any:
        turned = jg.permute_dims(x, tuple(range(x.ndim))[::-1])
        return jg.sum(x), jg.prod(turned), jg.sum(turned, axis=0)

    assert_gives(sums, target, array, spec=(jg.TensorSpec(shape, jg.float32),), launches=9)


@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_few_long_rows(target: str) -> None:
    assert_gives(lambda x: jg.sum(x, axis=1), target, normal(3, 40_001))
    assert_gives(lambda x: jg.sum(x, axis=(0, 2)), target, normal(2, 3, 20_001))
    assert_gives(
        lambda x: (jg.sum(x, axis=-1), jg.max(x, axis=-1), jg.argmin(x, axis=-1)), target, normal(2, 20_001), launches=4
    )


@pytest.mark.parametrize(("rows", "columns"), [(0, 5), (1, 37), (33, 32), (161, 1), (513, 33), (1000, 70), (4500, 5)])
@pytest.mark.parametrize("target", TARGETS)
def test_sums_of_columns(rows: int, columns: int, target: str) -> None:
    assert_gives(lambda x: jg.sum(x, axis=0), target, normal(rows, columns))


@pytest.mark.parametrize("target", TARGETS)
def test_several_results_of_columns(target: str) -> None:
    def several(x: Any) -> Any:
        return jg.sum(x, axis=0), jg.max(x, axis=0), jg.sum(x * x, axis=0) / x.shape[0], jg.prod(1 + x / 64, axis=0)

    assert_gives(several, target, normal(700, 45))
    assert_gives(lambda x: (jg.argmax(x, axis=1), jg.min(x, axis=1)), target, normal(2, 600, 9), launches=4)
    spec = (jg.TensorSpec(("n", "m"), jg.float32),)
    for shape in ((0, 3), (1, 1), (40, 33), (600, 31)):
        assert_gives(lambda x: jg.sum(x, axis=0), target, normal(*shape), spec=spec)


def batch_norm_step(x: Any, w: Any, ct: Any) -> Any:
    """The gradients of a layer with statistics of its batch."""
    nn = jg.nn.functional
    return jg.grad(
        lambda x, w: jg.sum(nn.relu(nn.batch_norm(x, None, None, w, None, training=True)) * ct), argnums=(0, 1)
    )(x, w)


@pytest.mark.parametrize("shape", [(64, 3, 4, 4), (9, 33, 8, 8), (33, 2, 16, 17), (2, 65, 32, 33), (300, 2, 1, 1)])
@pytest.mark.parametrize("target", TARGETS)
def test_sums_over_all_axes_but_channels(shape: tuple[int, ...], target: str) -> None:
    assert_gives(lambda x: (jg.sum(x, axis=(0, 2, 3)), jg.mean(x * x, axis=(0, 2, 3))), target, normal(*shape))
    assert_gives(batch_norm_step, target, normal(*shape), normal(shape[1]), normal(*shape) + 1, launches=9)


@pytest.mark.parametrize("target", TARGETS)
def test_a_sum_of_a_view(target: str) -> None:
    assert_gives(lambda x: jg.sum(x[1::2, ::-3]), target, normal(301, 207))


def test_zeros_keep_their_sign_and_nan_its_place() -> None:
    zeros = np.full(20_001, -0.0, np.float32)
    for target in TARGETS:
        (total,), _ = results(everything, target, zeros)
        assert np.signbit(total) and total == 0
        zeros[-1] = np.nan
        assert np.isnan(results(everything, target, zeros)[0][0])
        zeros[-1] = -0.0


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (everything, (1 << 25,)),
        (lambda x: jg.sum(x, axis=1), (4, 1 << 23)),
        (lambda x: jg.max(x), (1 << 25,)),
        (lambda x: jg.sum(x, axis=0), (16384, 2048)),
        (lambda x: jg.sum(x, axis=0), (1 << 22, 64)),
        (lambda x: jg.sum(x, axis=(0, 2, 3)), (128, 64, 32, 32)),
        (lambda x: jg.sum(x, axis=(0, 2, 3)), (128, 512, 4, 4)),
    ],
)
def test_no_thread_of_a_long_sum_merges_alone(function: Function, shape: tuple[int, ...], target: str) -> None:
    schedule = schedule_of(jg.trace(function).lower(jg.TensorSpec(shape, jg.float32)).graph, TARGETS[target])
    first, second = code_of(schedule, TARGETS[target]).launches
    nests = [nest for step in schedule.steps if isinstance(step, Launch) for nest in launch_nests_of(step.kernel)]
    assert steps_of(nests[1], prod(second.block)) <= 128
    assert prod(first.grid) * prod(first.block) >= 1 << 16


@needs_ptxas
def test_reductions_assemble() -> None:
    functions = [everything, lambda x: jg.sum(x, axis=1), lambda x: (jg.sum(x), jg.max(x))]
    texts = []
    for function in functions:
        for target in TARGETS.values():
            schedule = schedule_of(jg.trace(function).lower(jg.TensorSpec((8, 1 << 21), jg.float32)).graph, target)
            texts.append(code_of(schedule, target).texts["ptx"])
    for usage in assemble(texts, "sm_90"):
        assert usage.spilled == 0 and usage.registers <= 64, usage


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(3, 31), (2, 64), (5, 2049), (2, 1090), (1, 1024), (7, 33)])
def test_cumulative_sums(shape: tuple[int, ...], target: str) -> None:
    assert_gives(lambda x: jg.cumulative_sum(x, axis=1), target, normal(*shape), launches=5)
    assert_gives(lambda x: jg.cumulative_sum(x[:, 1:], axis=1), target, normal(*shape), launches=6)
    assert_gives(lambda x: jg.cumulative_sum(x, axis=0), target, normal(*shape[::-1]), launches=5)
    spec = (jg.TensorSpec(("n", "m"), jg.float32),)
    assert_gives(lambda x: jg.cumulative_prod(x, axis=1), target, normal(*shape), spec=spec, launches=9)


def test_cumulative_sums_move_several_elements_at_a_time() -> None:
    def texts(extent: int) -> str:
        argument = jg.TensorSpec((64, extent), jg.float32)
        return code_of(schedule_of(jg.trace(lambda x: jg.cumulative_sum(x, axis=1)).lower(argument).graph)).texts["ptx"]

    assert "ld.global.nc.v4" in texts(2048) and "st.global.v4" in texts(2048)
    assert ".v4" not in texts(2049)  # rows begin anywhere
