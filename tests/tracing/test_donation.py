"""State that a compiled call rebinds is updated in place exactly where nobody can see it."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
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
    place = address(state)
    for n in range(3, 6):
        step(jg.ones(64))
        assert address(state) == place
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
