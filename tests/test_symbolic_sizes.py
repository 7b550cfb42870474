"""A size that is a name stands for an int wherever a program compares or computes with it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg

COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("compare", COMPARISONS)
def test_a_tensor_against_a_size_gives_a_tensor(compare: Callable[[Any, Any], Any]) -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def f(x: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
        places = jg.arange(x.shape[0])
        return compare(places, x.shape[0] - 1), compare(x.shape[0], x)

    for size in (1, 3, 8):
        x = np.linspace(0, 8, size)
        left, right = f(x)
        np.testing.assert_array_equal(left.numpy(), compare(np.arange(size), size - 1))
        np.testing.assert_array_equal(right.numpy(), compare(size, x))


def test_a_size_that_turns_out_to_vary_changes_no_comparison() -> None:
    @jg.trace
    def last(x: jg.Tensor) -> jg.Tensor:
        return jg.where(jg.arange(x.shape[0]) == x.shape[0] - 1, x, 0)

    for size in (2, 3, 5):
        assert last(np.ones(size, np.float32)).tolist() == [0.0] * (size - 1) + [1.0]


@pytest.mark.parametrize("compare", COMPARISONS)
@pytest.mark.parametrize("number", [2.5, 3.0, -0.5, float("inf"), float("-inf"), float("nan")])
def test_a_size_against_a_float_is_a_guard(compare: Callable[[Any, Any], Any], number: float) -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def f(x: jg.Tensor) -> tuple[jg.Tensor, jg.Tensor]:
        n = x.shape[0]
        return x if compare(n, number) else -x, x if compare(number, n) else -x

    for size in (2, 3, 4, 0):
        left, right = f(jg.ones(size))
        assert left.tolist() == [1.0 if compare(size, number) else -1.0] * size
        assert right.tolist() == [1.0 if compare(number, size) else -1.0] * size


def test_the_magnitude_of_a_size() -> None:
    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def f(x: jg.Tensor) -> jg.Tensor:
        return x[: abs(x.shape[0] - 3)]

    assert [f(jg.ones(size)).shape for size in (2, 3, 5)] == [(1,), (0,), (2,)]


def test_a_return_among_rows_of_any_number() -> None:
    @jg.script
    def found(rows: jg.Tensor, wanted: jg.Tensor) -> Any:
        for row in rows:  # noqa: SIM110 - the loop is what is tested
            if row == wanted:
                return True
        return False

    for rows, wanted in (([3, 1, 2], 2), ([5, 5], 5), ([1], 9), ([4, 4, 4, 4], 3)):
        assert bool(found(jg.asarray(rows), jg.asarray(wanted))) is (wanted in rows)


def test_code_that_takes_no_name_for_a_size_gets_the_size() -> None:
    @jg.trace
    def positions(x: jg.Tensor) -> jg.Tensor:
        return x + jg.arange(0, 2 * x.shape[0], 2, dtype=jg.float32)  # a range with a step has no named end

    for size in (3, 4, 5, 3, 4, 5):
        assert positions(jg.ones(size)).tolist() == [1.0 + 2 * i for i in range(size)]
    assert positions.cache_info().misses == 3

    @jg.trace
    def grown(x: jg.Tensor, y: jg.Tensor) -> jg.Tensor:
        return x + y

    grown(jg.ones(3), jg.ones(3))
    for _ in range(2):
        with pytest.raises(jg.ShapeError, match="sizes 4 and 5 meet"):
            grown(jg.ones(4), jg.ones(5))
    for size in (4, 5, 6):
        assert grown(jg.ones(size), jg.ones(size)).shape == (size,)
    assert grown.cache_info().misses == 2  # the call that failed pins nothing


def test_a_size_is_an_operand_like_an_int() -> None:
    def f(x: Any, i: Any) -> tuple[Any, ...]:
        n = x.shape[0]
        y = x * 1
        y[0] = n
        half = x.astype(jg.float16)
        return (
            y,
            jg.where(i < n, i, n),
            jg.minimum(i, n - 1),
            jg.clip(i, 0, n),
            jg.full((2,), n),
            jg.sqrt(n),
            half * n,
            half / jg.sqrt(n),
            i.astype(jg.int8) + n,
        )

    traced = jg.trace(dynamic_shapes={"x": {0: "n"}})(f)
    for size in (1, 4, 9):
        x, i = jg.ones(size, dtype=jg.float64), jg.asarray([0, 5, 20])
        for mine, due in zip(traced(x, i), f(x, i), strict=True):
            assert mine.dtype == due.dtype
            np.testing.assert_allclose(mine.numpy(), due.numpy(), rtol=1e-6)
    assert traced.cache_info().misses == 1


def test_layers_take_sizes_that_are_names() -> None:
    functional = jg.nn.functional

    def f(x: Any, w: Any, labels: Any) -> tuple[Any, ...]:
        return (
            functional.layer_norm(x, x.shape[1:]),
            functional.layer_norm(x, (x.shape[-1],), w),
            functional.rms_norm(x, x.shape[-1], w),
            functional.one_hot(labels, x.shape[1]),
        )

    traced = jg.trace(dynamic_shapes={"x": {0: "n", 1: "m"}, "w": {0: "m"}})(f)
    for n, m in ((2, 3), (1, 5), (4, 1)):
        x, w, labels = np.arange(n * m, dtype=np.float64).reshape(n, m), np.ones(m), np.arange(n) % m
        for mine, due in zip(traced(x, w, labels), f(jg.asarray(x), jg.asarray(w), labels), strict=True):
            assert mine.dtype == due.dtype
            np.testing.assert_allclose(mine.numpy(), due.numpy(), rtol=1e-12)
    with pytest.raises(IndexError, match="one_hot"):
        traced(np.ones((2, 3)), np.ones(3), np.array([3, 0]))
    fixed = jg.trace(dynamic_shapes={"x": {1: "m"}})(lambda x, w: functional.layer_norm(x, x.shape[1:], w))
    assert fixed(np.ones((2, 3)), np.ones(3)).shape == (2, 3)  # the weight holds m to 3
    with pytest.raises(jg.JitgraphError):
        fixed(np.ones((2, 4)), np.ones(3))


def test_the_mean_of_images_of_any_size() -> None:
    pooled = jg.trace(dynamic_shapes={"x": {0: "n", 2: "h", 3: "w"}})(
        lambda x: jg.nn.functional.adaptive_avg_pool2d(x, 1)
    )
    for shape in ((2, 3, 4, 5), (1, 3, 7, 2)):
        x = np.random.default_rng(0).standard_normal(shape)
        np.testing.assert_allclose(pooled(x).numpy(), x.mean(axis=(2, 3), keepdims=True), rtol=1e-12)
    assert pooled.cache_info().misses == 1
    with pytest.raises(jg.TraceError, match="n used as a Python int"):
        jg.trace(dynamic_shapes={"x": {0: "n"}})(lambda x: jg.nn.functional.pad(x, (0, x.shape[0])))(jg.ones(3))
