"""A repeated call takes short cuts: known operands, memory of dropped results, shared code. None may be seen."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.graphs import needs_native

SIZE = 48


def address(tensor: Any) -> int:
    return int(tensor._value.array.ctypes.data)


@pytest.fixture
def double() -> Any:
    return jg.trace(lambda x: x * 2)


def filled(value: float) -> Any:
    return jg.full((SIZE,), value)


@pytest.mark.parametrize(
    "hold",
    [
        lambda y: y,
        lambda y: y._value,
        lambda y: y._value.array,
        lambda y: y.numpy(),
        lambda y: y.numpy()[::2],
        lambda y: y.reshape(6, 8),
        lambda y: y[3:],
        lambda y: memoryview(y.numpy()),
        lambda y: y.detach(),
    ],
    ids=["tensor", "value", "array", "numpy", "strided", "reshape", "slice", "memoryview", "detach"],
)
def test_results_that_are_held_never_change(double: Any, hold: Any) -> None:
    held = [hold(double(filled(n))) for n in range(8)]
    for n, seen in enumerate(held):
        array = getattr(seen, "array", seen)
        actual = array.numpy() if isinstance(array, jg.Tensor) else np.asarray(array)
        np.testing.assert_array_equal(actual, 2.0 * n)


@needs_native
def test_memory_of_dropped_results_serves_again(double: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By Python; the dispatcher keeps memory of its own (``native/test_memory.py``)."""
    monkeypatch.setenv("JITGRAPH_DISPATCH", "0")
    x = filled(1)
    double(x)
    assert len({address(double(x)) for _ in range(6)}) <= 2
    kept = [double(x) for _ in range(6)]
    assert len({address(y) for y in kept}) == 6


def test_results_of_overlapping_calls_are_apart(double: Any) -> None:
    double(filled(0))
    wrong = []

    def work(n: int) -> None:
        x = filled(n)
        for _ in range(300):
            y = double(x)
            if not (y._value.array == 2 * n).all():
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@needs_native
def test_what_a_caller_can_change_is_looked_at_each_time(double: Any) -> None:
    array = np.zeros((4, 6), np.float32)
    x = jg.asarray(array, copy=False)
    assert double(x).shape == (4, 6)
    assert x._value.native is None
    y = jg.asarray(np.ones((4, 6), np.float32))
    double(y)
    assert y._value.native is not None
    y.numpy()
    assert y._value.native is None
    assert double(y).tolist() == [[2.0] * 6] * 4


@pytest.mark.parametrize("transposed", [False, True])
def test_operands_that_are_not_dense_are_read_rightly(double: Any, transposed: bool) -> None:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    x = jg.asarray(base)
    view = x.T if transposed else x[1:, ::2]
    expected = 2 * (base.T if transposed else base[1:, ::2])
    for _ in range(3):
        np.testing.assert_array_equal(double(view).numpy(), expected)
        np.testing.assert_array_equal(double(np.asarray(view)).numpy(), expected)


def test_the_same_float_object_and_others() -> None:
    scale = jg.trace(lambda x, s: x * s)
    x = filled(1)
    for s in (2.0, 2.0, 3.0, -0.0, 0.0, float("nan"), 2.0):
        np.testing.assert_array_equal(scale(x, s).numpy(), np.full(SIZE, s, np.float32))


def test_a_returned_borrowed_input_stays_borrowed() -> None:
    memory = bytearray(np.zeros(SIZE, np.float32).tobytes())
    same = jg.trace(lambda x: (x.detach(), x + 1))
    state = same(jg.asarray(np.frombuffer(memory, np.float32), copy=False))[0]

    @jg.trace
    def step() -> None:
        state.__iadd__(1)

    for _ in range(4):
        step()
    assert np.frombuffer(memory, np.float32).max() == 0 and state.tolist() == [4.0] * SIZE


def test_training_in_turns_with_eager_use_of_the_same_parameters() -> None:
    def make() -> Any:
        p = jg.asarray(np.linspace(-1, 1, SIZE, dtype=np.float32), requires_grad=True)

        def step(x: Any) -> Any:
            loss = ((p * x) ** 2).sum()
            p.grad = None
            loss.backward()
            with jg.no_grad():
                p.__isub__(0.01 * p.grad)
            return loss

        return p, step

    (p, step), (q, eager) = make(), make()
    traced = jg.trace(step)
    x = filled(2)
    losses, tapes, grads = [], [], []
    for n in range(6):
        losses.append((traced(x), eager(x)))
        if n % 2:
            tapes.append(((p * x).sum(), (q * x).sum()))  # the tape keeps these values of the parameters
        grads.append((p.grad, q.grad))
    for mine, due in (*losses, *grads, (p.detach(), q.detach())):
        np.testing.assert_allclose(mine.detach().numpy(), due.detach().numpy(), rtol=1e-5)
    for mine, due in tapes:
        np.testing.assert_allclose(mine.item(), due.item(), rtol=1e-4, atol=1e-4)
        mine.backward()
    np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy() + len(tapes) * 2.0, rtol=1e-5)


def test_a_value_overwritten_in_place_is_off_the_tape() -> None:
    p = jg.ones(SIZE).requires_grad_()

    @jg.trace
    def step(s: Any) -> None:
        with jg.no_grad():
            s.__iadd__(1)

    for _ in range(3):
        s = p * 2
        s.sum().backward()  # its record has let go of the array, but still stands in the value
        step(s)
        assert not s.requires_grad and s.tolist() == [3.0] * SIZE


def test_a_failing_call_leaves_state_and_results_alone() -> None:
    state = filled(0)

    @jg.trace
    def step(i: Any) -> Any:
        got = jg.take(state, i)
        state.__iadd__(1)
        return got

    good, bad = jg.asarray(np.array([1, 2])), jg.asarray(np.array([1, SIZE]))
    for _ in range(3):
        kept = step(good)
    value = state._value
    for _ in range(3):
        with pytest.raises(IndexError):
            step(bad)
        assert state._value is value and state.tolist() == [3.0] * SIZE and kept.tolist() == [2.0, 2.0]
    del value
    assert step(good).tolist() == [3.0, 3.0] and state.tolist() == [4.0] * SIZE


@needs_native
def test_equal_traces_share_their_code() -> None:
    def make() -> Any:
        return jg.trace(lambda x: jg.tanh(x) + 17)

    f, g = make(), make()
    x = filled(0.5)
    np.testing.assert_array_equal(f(x).numpy(), g(x).numpy())
    mine, other = f._specialisations[0].forward, g._specialisations[0].forward
    assert mine is other
    h = jg.trace(lambda x: jg.tanh(x) + 17)  # the same graph from another line, which errors would name
    h(x)
    assert h._specialisations[0].forward is not mine


@needs_native
def test_the_cache_drops_what_was_used_least_recently() -> None:
    from jitgraph import compiler

    graphs = [jg.trace(lambda x, n=n: x + n).lower(filled(0), n).graph for n in range(3)]
    compiler.compile(graphs[0], cache=(cache := compiler.Cache()))
    cache = compiler.Cache(limit=int(2.5 * cache.bytes))
    first, second = (compiler.compile(graph, cache=cache) for graph in graphs[:2])
    assert compiler.compile(graphs[0], cache=cache) is first
    compiler.compile(graphs[2], cache=cache)
    assert compiler.compile(graphs[0], cache=cache) is first
    assert compiler.compile(graphs[1], cache=cache) is not second


@needs_native
def test_the_cache_counts_the_objects_of_its_entries() -> None:
    """Graphs, kernels and other stages take more than the code: dropped functions must not fill the memory."""
    from jitgraph import compiler

    graphs = [jg.trace(lambda x, n=n: jg.where(x > n, x * n, x + x.sum())).lower(filled(0), n).graph for n in range(30)]
    cache = compiler.Cache(limit=400_000)
    compiler.compile(graphs[0])  # what the first compilation loads
    tracemalloc.start()
    try:
        for graph in graphs:
            compiler.compile(graph, cache=cache)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        counted = cache.bytes
        cache.clear()
        gc.collect()
        freed = before - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.3 * counted < freed < 1.5 * counted <= 1.5 * 400_000
