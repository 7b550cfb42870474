"""Calls that come back with the addresses that they had are replayed as graphs; all others are launched."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime.cuda.replay import CapturedGraph, Replays
from tests.graphs import needs_native
from tests.runtime.cuda.machines import Machine, machine

A = np.random.default_rng(0).normal(size=(6, 70)).astype(np.float32)

pytestmark = needs_native


@pytest.fixture
def here() -> Iterator[Machine]:
    with machine(hides=True) as actual:
        yield actual
        gc.collect()


def chain(x: Any) -> Any:
    """More than a few launches: each needs all of the one before."""
    for _ in range(4):
        x = x - x.sum(axis=1, keepdims=True) * 0.01
        x = x - x.sum(axis=0, keepdims=True) * 0.01
    return x


@pytest.fixture
def expected() -> Any:
    return chain(jg.asarray(A)).numpy()


def same(x: Any, y: Any) -> None:
    np.testing.assert_allclose(x.cpu().numpy(), y, rtol=1e-5, atol=1e-6)


def test_a_call_that_comes_back_is_one_graph(here: Machine, expected: Any) -> None:
    function, x = jg.trace(chain), jg.asarray(A, device="cuda")
    for _ in range(2):
        same(function(x), expected)
    function(x)
    launches, graphs = here.calls("cuLaunchKernel"), here.calls("cuGraphLaunch")
    for _ in range(4):
        same(function(x), expected)
    assert here.calls("cuGraphLaunch") == graphs + 4
    assert here.calls("cuGraphInstantiateWithFlags") == 1
    assert here.calls("cuLaunchKernel") == launches


def test_other_addresses_are_launched_and_a_few_are_kept(here: Machine, expected: Any) -> None:
    function, xs = jg.trace(chain), [jg.asarray(A * k, device="cuda") for k in range(1, 7)]
    held = []
    for _ in range(4):
        for k, x in enumerate(xs, 1):
            same(function(x), expected * k)
        held.append(function(xs[0]))  # so that the results of the next round lie elsewhere
    for y in held:
        same(y, expected)


def test_few_launches_are_no_graph(here: Machine) -> None:
    function, x = jg.trace(lambda x: x * 2 + 1), jg.asarray(A, device="cuda")
    for _ in range(5):
        same(function(x), A * 2 + 1)
    assert here.calls("cuGraphLaunch") == 0


@pytest.mark.parametrize("symbol", ["cuStreamBeginCapture_v2", "cuGraphInstantiateWithFlags"])
def test_what_the_driver_cannot_capture_is_launched(here: Machine, expected: Any, symbol: str) -> None:
    function, x = jg.trace(chain), jg.asarray(A, device="cuda")
    function(x)
    here.fake.fail(symbol, code=900)
    for _ in range(3):
        same(function(x), expected)
    assert here.calls("cuGraphLaunch") == 0


def test_a_check_in_a_replayed_call_is_told(here: Machine) -> None:
    def picked(x: Any, i: Any) -> Any:
        return chain(jg.take(chain(x), i, axis=0))

    function, x, i = jg.trace(picked), jg.asarray(A, device="cuda"), jg.asarray(np.array([1, 0]), device="cuda")
    expected = picked(jg.asarray(A), jg.asarray(np.array([1, 0]))).numpy()
    for _ in range(4):
        same(function(x, i), expected)
    assert here.calls("cuGraphLaunch")
    here.device.context.driver.fill_bytes(i._value.buffer.address, 0x11, 16, 0)  # the same address, other indices
    failed = function(x, i)
    with pytest.raises(IndexError, match="out of range"):
        failed.cpu()


def test_state_in_place_and_streams(here: Machine) -> None:
    weight, x = jg.asarray(A, device="cuda"), jg.asarray(A, device="cuda")

    @jg.trace
    def update(x: Any) -> None:
        weight[...] = chain(weight) + x

    want = A
    stream = jg.cuda.Stream()
    for number in range(8):
        want = chain(jg.asarray(want)).numpy() + A
        if number % 4 < 2:
            update(x)
        else:
            with jg.cuda.stream(stream):
                update(x)
    same(weight, want)
    assert here.calls("cuGraphLaunch")


def test_memory_that_went_back_to_the_driver_is_another_key(here: Machine, expected: Any) -> None:
    function, x = jg.trace(chain), jg.asarray(A, device="cuda")
    for _ in range(3):
        function(x)
    count = here.calls("cuGraphLaunch")
    assert count
    jg.ones((1 << 20,), device="cuda")
    jg.cuda.empty_cache()
    same(function(x), expected)
    assert here.calls("cuGraphLaunch") == count


def test_threads_share_graphs(here: Machine, expected: Any) -> None:
    function, x, actual = jg.trace(chain), jg.asarray(A, device="cuda"), []

    def work() -> None:
        actual.extend(function(x).cpu().numpy() for _ in range(6))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(actual) == 18
    for y in actual:
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_graphs_go_with_their_code(here: Machine) -> None:
    function, x = jg.trace(chain), jg.asarray(A, device="cuda")
    for _ in range(4):
        function(x)
    assert here.device.capturing._graphs
    here.device.loaded.clear()
    del function
    gc.collect()
    again = jg.trace(lambda x: chain(x) + 1)
    for _ in range(4):
        again(x)
    assert len(here.device.capturing._graphs) == 1


def test_a_training_loop_has_few_sets_of_addresses(here: Machine) -> None:
    model = jg.nn.Sequential(jg.nn.Linear(7, 5), jg.nn.Tanh(), jg.nn.Linear(5, 5), jg.nn.Linear(5, 3)).to("cuda")
    optimizer = jg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = (jg.asarray(array, device="cuda") for array in (A[:, :7], np.array([0, 1, 2, 0, 1, 2])))

    @jg.trace
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = jg.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    first = step(x, y).item()
    for _ in range(19):  # nobody waits, so the error record of each call has a place of its own
        loss = step(x, y)
    assert 1 <= here.calls("cuGraphInstantiateWithFlags") <= 2
    assert here.calls("cuGraphLaunch") >= 14
    assert loss.item() < first


def test_addresses_that_never_come_back_are_not_captured_for_long() -> None:
    captured: list[int] = []

    class Capturing:
        def captured(self, driver: Any, ask: Any) -> int:
            captured.append(1)
            return len(captured)

        def drop(self, graph: int) -> None:
            """Nothing is held."""

    replays = Replays(Capturing())  # type: ignore[arg-type]
    for number in range(600):
        replays.graph((number // 2,), None, lambda stream: True)  # type: ignore[arg-type]
    assert len(captured) <= 10


def test_a_graph_that_somebody_is_about_to_launch_is_not_destroyed(here: Machine) -> None:
    device = here.device
    driver, replays = device.context.enter(), Replays(device.capturing)

    def found(key: int) -> CapturedGraph | None:
        for _ in range(2):
            graph = replays.graph((key,), driver, lambda stream: True)
        return graph

    held = found(0)
    assert held is not None
    for key in range(1, 7):  # more than are kept
        found(key)
    assert here.calls("cuGraphExecDestroy") == 1  # that of key 1, and not the one that is held
    driver.launch_graph(held.handle, device.context.stream)
    del held
    found(7)
    assert here.calls("cuGraphExecDestroy") == 3
