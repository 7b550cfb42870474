"""State that a compiled call rebinds is updated in place exactly where nobody can see it."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.tracing.call import invocation
from tests.graphs import needs_native


def make(size: int = 64) -> tuple[Any, Any]:
    state = jg.zeros(size)

    @jg.trace
    def step(x: Any) -> Any:
        state.__iadd__(x)
        return x * 2

    step(jg.ones(size))
    return state, step


def address(tensor: Any) -> int:
    return int(tensor._value.array.ctypes.data)


@needs_native
def test_unshared_state_stays_where_it_is() -> None:
    state, step = make()
    step(jg.ones(64))
    assert step._specialisations[0].in_place
    location = address(state)
    for n in range(3, 6):
        step(jg.ones(64))
        assert address(state) == location
        assert state._value.array[0] == n


@pytest.mark.parametrize("share", ["clone", "numpy", "view", "alias"])
def test_what_others_can_see_never_changes(share: str) -> None:
    state, step = make()
    seen: Any = {
        "clone": lambda: state.clone(),
        "numpy": lambda: state.numpy(),
        "view": lambda: state[2:].numpy(),
        "alias": lambda: state.reshape(8, 8),
    }[share]()
    before = np.array(seen if isinstance(seen, np.ndarray) else seen._value.array)
    step(jg.ones(64))
    np.testing.assert_array_equal(seen if isinstance(seen, np.ndarray) else seen._value.array, before)
    np.testing.assert_array_equal(state._value.array, 2)


def test_a_reader_in_another_thread_sees_whole_states() -> None:
    state, step = make(1 << 16)
    read = jg.trace(lambda: (state.min(), state.max()))
    read()
    stop, torn = threading.Event(), []

    def look() -> None:
        while not stop.is_set():
            low, high = read()
            if low.item() != high.item():
                torn.append((low.item(), high.item()))

    thread = threading.Thread(target=look)
    thread.start()
    x = jg.ones(1 << 16)
    for _ in range(200):
        step(x)
    stop.set()
    thread.join()
    assert not torn and state.max().item() == 201


# --- tensors whose place another one takes ----------------------------------------------------------------------------


class Holder(jg.nn.Module):
    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.register_buffer("k", jg.zeros((size, 2)))
        self.inner: Any = None
        self.table: Any = {}


@pytest.fixture
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation, "_LEAST_REPLACED", 0)


def replaced_by_a_slice(m: Any, x: Any, i: Any) -> Any:
    m.k = jg.dynamic_update_slice(m.k, x.reshape(1, 2), (i, 0))
    return x.sum()


def replaced_by_a_choice(m: Any, x: Any, i: Any) -> Any:
    m.k = jg.where((jg.arange(64) == i)[:, None], x, m.k)
    return x.sum()


def replaced_by_a_sum(m: Any, x: Any, i: Any) -> Any:
    m.k = m.k + x
    return x[0] + i


REPLACED = [replaced_by_a_slice, replaced_by_a_choice, replaced_by_a_sum]


@needs_native
@pytest.mark.parametrize("function", REPLACED)
@pytest.mark.parametrize("capture", [jg.trace, jg.script])
def test_a_tensor_takes_the_memory_of_the_one_that_it_replaces(function: Any, capture: Any, of_any_size: None) -> None:
    mine, due = Holder(), Holder()
    step = capture(lambda x, i: function(mine, x, i))
    positions = set()
    for n in range(6):
        x, i = jg.asarray([float(n), 2.0]), jg.asarray(n)
        np.testing.assert_array_equal(step(x, i).numpy(), function(due, x, i).numpy())
        np.testing.assert_array_equal(np.array(mine.k._value.array), due.k.numpy())
        if n:
            positions.add(address(mine.k))
    assert len(positions) == 1
    assert step.cache_info().misses == 1


@needs_native
@pytest.mark.parametrize("function", REPLACED)
@pytest.mark.parametrize(
    "share",
    [
        lambda m: m.k,
        lambda m: m.k.detach(),
        lambda m: m.k.clone(),
        lambda m: m.k.numpy(),
        lambda m: m.k[2:].numpy(),
        lambda m: m.k.reshape(-1),
        lambda m: m.table.__setitem__("k", m.k) or m.table["k"],
        lambda m: setattr(m, "other", m.k) or m.other,
        lambda m: memoryview(m.k.numpy()),
    ],
)
def test_a_tensor_that_somebody_holds_is_not_taken_over(function: Any, share: Any, of_any_size: None) -> None:
    m = Holder()
    step = jg.trace(lambda x, i: function(m, x, i))
    for n in range(3):
        step(jg.asarray([1.0, n]), jg.asarray(n))
    seen = share(m)
    before = np.array(seen if not isinstance(seen, jg.Tensor) else seen._value.array)
    for n in range(3, 6):
        step(jg.asarray([1.0, n]), jg.asarray(n))
    after = np.array(seen if not isinstance(seen, jg.Tensor) else seen._value.array)
    np.testing.assert_array_equal(before, after)


def handed_on(m: Any, x: Any) -> Any:
    old = m.k
    m.k = m.k + x
    return old


def put_elsewhere(m: Any, x: Any) -> Any:
    m.inner = m.k
    m.k = m.k + x
    return x


def returned_and_stored(m: Any, x: Any) -> Any:
    m.k = m.k + x
    return m.k


def exchanged(m: Any, x: Any) -> Any:
    m.inner, m.k = m.k, m.inner + x
    return x


def written_and_replaced(m: Any, x: Any) -> Any:
    old = m.k
    old[0] = x
    m.k = m.k * 2
    return old[0] * 1


def stored_twice(m: Any, x: Any) -> Any:
    m.k = m.inner = m.k + x
    return x


def in_containers(m: Any, x: Any) -> Any:
    m.table["k"] = m.table["k"] + x
    m.inner[0] = m.inner[0] * 2 + m.table["k"]
    return x


def in_a_list(m: Any, x: Any) -> Any:
    held = [m.k]
    m.k = m.k + x
    return held


@needs_native
@pytest.mark.parametrize(
    "function",
    [
        handed_on,
        put_elsewhere,
        returned_and_stored,
        exchanged,
        written_and_replaced,
        stored_twice,
        in_containers,
        in_a_list,
    ],
)
@pytest.mark.parametrize("retains", [False, True])
def test_what_becomes_of_the_old_tensor_is_as_in_eager(function: Any, retains: bool, of_any_size: None) -> None:
    states = []
    for capture in (jg.trace, lambda f: f):
        m = Holder()
        m.inner = [jg.ones((64, 2))] if function is in_containers else jg.ones((64, 2))
        m.table["k"] = jg.ones((64, 2))
        step = capture(lambda x, m=m: function(m, x))
        seen = []
        for n in range(5):
            result = step(jg.asarray([float(n), 1.0]))
            held = [result, m.k, m.inner, m.table["k"]]
            seen.append(held if retains else [np.array(jg.asarray(y).numpy()) for y in _flat(held)])
            del result, held
        states.append([np.asarray(y) for each in seen for y in _flat(each)])
    for mine, due in zip(*states, strict=True):
        np.testing.assert_array_equal(mine, due)


def _flat(value: Any) -> list[Any]:
    return [y for x in value for y in _flat(x)] if isinstance(value, list) else [value]


@needs_native
def test_a_call_that_fails_leaves_the_tensor_that_it_would_replace(of_any_size: None) -> None:
    m = Holder()

    @jg.trace
    def step(x: Any, i: Any) -> Any:
        row = m.k[i]
        m.k = m.k + x
        return row

    for n in range(3):
        step(jg.ones(2), jg.asarray(n))
    before = m.k
    del before
    for _ in range(2):
        with pytest.raises(IndexError):
            step(jg.ones(2), jg.asarray(64))
        np.testing.assert_array_equal(np.array(m.k._value.array), 3)
    step(jg.ones(2), jg.asarray(0))
    np.testing.assert_array_equal(np.array(m.k._value.array), 4)


@needs_native
def test_small_tensors_are_replaced_by_native_calls() -> None:
    m = Holder()
    step = jg.trace(lambda x: replaced_by_a_sum(m, x, 0))
    step(jg.ones(2))
    assert not invocation.replacements(step.plans[0])
    large = Holder(1 << 16)
    step = jg.trace(lambda x: replaced_by_a_sum(large, x, 0))
    step(jg.ones(2))
    assert invocation.replacements(step.plans[0])
