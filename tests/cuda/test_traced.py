"""Traced functions on simulated GPUs: devices in the key, state, gradients, whole steps, errors, streams, threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import DeviceError
from tests.cuda.places import Machine, needs_two
from tests.graphs import needs_native

A = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
B = np.random.default_rng(1).normal(size=(3, 2)).astype(np.float32)

pytestmark = needs_native


def on(device: str, *arrays: Any) -> list[Any]:
    return [jg.asarray(array, device=device) for array in arrays]


def same(x: Any, y: Any) -> None:
    np.testing.assert_allclose(x.detach().cpu().numpy(), y.detach().cpu().numpy(), rtol=2e-6, atol=1e-6)


def test_dtype_and_shape_are_part_of_the_key(here: Machine) -> None:
    doubled = jg.trace(lambda x: x + x)
    arrays = [np.ones(shape, dtype) for dtype in (np.float32, np.int32) for shape in ((2, 3), (3, 2), (6,))]
    for array in arrays * 2:
        actual = doubled(jg.asarray(array, device="cuda"))
        assert actual.shape == array.shape and actual.dtype == array.dtype
        np.testing.assert_array_equal(actual.cpu().numpy(), array + array)
    assert doubled.cache_info().misses == len(arrays)


@needs_two
def test_the_device_is_part_of_the_key(here: Machine) -> None:
    function = jg.trace(lambda a, b: jg.tanh(a @ b) + 1)
    expected = function(*on("cpu", A, B))
    for device in ("cuda:0", "cuda:1", "cpu", "cuda:0"):
        actual = function(*on(device, A, B))
        assert actual.device == device
        same(actual, expected)
    assert function.cache_info()[:2] == (2, 3)


@needs_two
def test_mixed_devices_are_named(here: Machine) -> None:
    function = jg.trace(lambda a, b: a @ b)
    (a,), (b,), (c,) = on("cpu", A), on("cuda:0", B), on("cuda:1", A)
    with pytest.raises(DeviceError, match=r"b \(f32\[3, 2\]\) on cuda:0 and a \(f32\[4, 3\]\) on cpu"):
        function(a, b)
    with pytest.raises(DeviceError, match="on cuda:1 and on cuda:0"):
        function(c, b)


def test_numbers_go_with_tensors_of_a_gpu(here: Machine) -> None:
    function = jg.trace(lambda a, s, t: a * s + t)
    (a,) = on("cuda", A)
    for s in (2.5, -1.5):
        np.testing.assert_allclose(function(a, s, jg.asarray(0.5)).cpu().numpy(), A * np.float32(s) + 0.5, rtol=1e-6)
    assert function.cache_info()[:2] == (1, 1)


@pytest.mark.parametrize("eager", [False, True])
def test_a_failed_check_tells_the_line_when_it_is_waited_for(here: Machine, eager: bool) -> None:
    def take(x: Any, i: Any) -> Any:
        return jg.take(x, i, axis=1)

    function = take if eager else jg.trace(take)
    a, good, bad = on("cuda", A, np.array([2, 0]), np.array([0, 7]))
    for wait in (lambda y: y.cpu(), lambda y: jg.cuda.synchronize(), lambda y: jg.cuda.current_stream().synchronize()):
        failed = function(a, bad)
        with pytest.raises(IndexError, match=r"index 7 is out of range[\s\S]*at .*test_traced\.py:\d+"):
            wait(failed)
        np.testing.assert_array_equal(function(a, good).cpu().numpy(), A[:, [2, 0]])


def test_gradients_go_through_calls(here: Machine) -> None:
    function = jg.trace(lambda a, b: jg.softmax(a @ b, axis=1)[:, 0])
    results = []
    for device in ("cpu", "cuda"):
        a, b = on(device, A, B)
        b.requires_grad = True
        function(a * 2, b).sum().backward()
        assert b.grad.device == b.device
        results.append(b.grad)
    same(*results)


def steps(device: str, kind: Any, is_traced: bool, count: int = 5, **settings: Any) -> list[Any]:
    jg.random.seed(3)
    model = jg.nn.Sequential(jg.nn.Linear(3, 8), jg.nn.ReLU(), jg.nn.Linear(8, 4)).to(device)
    optimizer = kind(model.parameters(), **settings)
    x, y = on(device, A, np.array([0, 3, 1, 2]))

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = jg.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = jg.trace(step) if is_traced else step
    return [*(run(x, y) for _ in range(count)), *model.parameters()]


@pytest.mark.parametrize("is_traced", [True, False])
@pytest.mark.parametrize(
    ("kind", "settings"), [(jg.optim.SGD, {"lr": 0.1, "momentum": 0.9}), (jg.optim.Adam, {"lr": 0.01})]
)
def test_training_steps(here: Machine, kind: Any, settings: Any, is_traced: bool) -> None:
    actual = steps("cuda", kind, is_traced, **settings)
    assert {x.device for x in actual} == {"cuda:0"}
    for x, y in zip(steps("cpu", kind, is_traced, **settings), actual, strict=True):
        same(x, y)


def test_random_numbers_are_those_of_the_cpu_and_their_state_stays_there(here: Machine) -> None:
    draw = jg.trace(lambda x: x * jg.random.uniform((4, 3)))
    results = []
    for device in ("cpu", "cuda"):
        jg.random.seed(1)
        results.append((draw(*on(device, A)), jg.random.uniform((2,))))
        assert results[-1][1].device == "cpu"
    for x, y in zip(*results, strict=True):
        same(x, y)


def test_calls_run_on_the_current_stream(here: Machine) -> None:
    function, stream = jg.trace(lambda a: jg.exp(a) * 2), jg.cuda.Stream()
    (a,) = on("cuda", A)
    with jg.cuda.stream(stream):
        actual = function(a)
    assert actual._value.buffer.stream == stream.cuda_stream
    np.testing.assert_allclose((actual + 1).cpu().numpy(), np.exp(A) * 2 + 1, rtol=2e-6)


def test_threads_share_code(here: Machine) -> None:
    function, actual = jg.trace(lambda a: a * 3 + 1), []

    def work() -> None:
        (a,) = on("cuda", A)
        actual.append([function(a).cpu().numpy() for _ in range(5)])

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(actual) == 3
    for result in actual:
        np.testing.assert_array_equal(result, np.stack([A * 3 + 1] * 5))


def test_memory_is_given_back(here: Machine) -> None:
    function = jg.trace(lambda a, b: jg.exp(a @ b).sum(axis=1))
    a, b = on("cuda", A, B)
    function(a, b)
    before = jg.cuda.memory_allocated()
    for _ in range(5):
        function(a, b)
    assert jg.cuda.memory_allocated() == before


def test_a_sum_and_what_was_summed(here: Machine) -> None:
    """A short row that is reduced and returned as well: one loop's result is stored behind another one's."""
    x = np.arange(-16, 17, dtype=np.float32)

    def function(x: jg.Tensor) -> Any:
        y = jg.abs(x)
        return y, y.sum(), y.max(), y.var()

    actual, expected = (jg.trace(function)(*on(device, x)) for device in ("cuda", "cpu"))
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one.cpu().numpy(), other.numpy())


def test_sizes_are_exact_at_any_length(here: Machine) -> None:
    """The host computes them; kernels are given float64 or 64-bit integers."""

    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def f(x: Any, y: Any, i: Any) -> Any:
        n = x.shape[0]
        return y * n**4, n * (n * n - 1) * y, y + n**5 // 7, i + n**2 % 1009

    for n in (3, 2_097_152, 4_194_305, 2**31):
        x, y, i = on("cuda", np.empty((n, 0), np.int8), np.ones((), np.float32), np.zeros((), np.int64))
        expected = [n**4, n * (n * n - 1), 1 + n**5 // 7, n**2 % 1009]
        results = [result.cpu().numpy() for result in f(x, y, i)]
        assert [array.item() for array in results[:2]] == [np.float32(float(number)) for number in expected[:2]]
        with np.errstate(over="ignore"):  # the last one is infinite in float32
            assert results[2] == np.float32(1) + np.float32(float(expected[2] - 1)) and results[3] == expected[3]

    @jg.trace(dynamic_shapes={"x": {0: "n"}})
    def narrow(x: Any, i: Any) -> Any:
        return i + x.shape[0] ** 3

    for n in (5, 2**21):
        x, i = on("cuda", np.empty((n, 0), np.int8), np.zeros((), np.int64))
        if n == 5:
            assert narrow(x, i).cpu().item() == 125
        else:
            with pytest.raises(jg.NumberError, match="does not fit int64"):
                narrow(x, i)
