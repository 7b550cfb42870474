"""Whose memory a value's is: unique, shared, borrowed or exported, and what each state means for calls."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.eager.tape import EagerValue
from jitgraph.runtime.buffer import UniqueAmong, are_released, is_unique, ownership

SIZE = 64


def state_of(tensor: Any) -> str:
    """The state of the memory of a tensor that one name holds."""
    value = tensor._value
    return ownership(value, holders=2)


def address(tensor: Any) -> int:
    return int(tensor._value.array.ctypes.data)


def one() -> Any:
    return jg.asarray(np.arange(SIZE, dtype=np.float32))


SHARING: dict[str, Callable[[Any], Any]] = {
    "another handle": lambda x: x.clone(),
    "detached": lambda x: x.detach(),
    "a value": lambda x: x._value,
    "an array": lambda x: x._value.array,
    "a view": lambda x: x.reshape(8, 8),
    "the tape": lambda x: (x * jg.ones(SIZE).requires_grad_()).grad_fn,
}
EXPORTING: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda x: x.numpy(),
    "part of it": lambda x: x.numpy()[3:],
    "a buffer": lambda x: memoryview(x.numpy()),
    "asarray": np.asarray,
    "DLPack": np.from_dlpack,
    "a capsule": lambda x: x.__dlpack__(max_version=(1, 0)),
}


def _taken(array: Any) -> Callable[[], Any]:
    return jg.asarray(array).tolist


def _assigned(array: Any) -> Callable[[], Any]:
    x = jg.zeros(SIZE)
    x[...] = array
    return x.tolist


def _factor(array: Any) -> Callable[[], Any]:
    x = jg.ones(SIZE).requires_grad_()
    product = (x * array).sum()

    def gradient() -> Any:
        product.backward()
        assert x.grad is not None
        return x.grad.tolist()

    return gradient


TAKING = {"asarray": _taken, "assigned": _assigned, "a factor on the tape": _factor}
THAWING: dict[str, Callable[[Any, Any], Any]] = {
    "made writable": lambda array, _: (array.setflags(write=True), array.__setitem__(0, 7)),
    "an earlier view": lambda _, writable: writable.__setitem__(0, 7),
}


def test_memory_of_ones_own_is_unique() -> None:
    assert state_of(one()) == "unique"
    x = one()
    assert state_of(x) == state_of(x + 1) == "unique"
    double = jg.trace(lambda x: x * 2)
    results = [double(x) for _ in range(4)]
    assert state_of(results[0]) == "unique"
    assert x._value.nbytes == 4 * SIZE and x._value.device == x.device == "cpu"


@pytest.mark.parametrize("how", SHARING)
def test_memory_is_shared_for_as_long_as_somebody_holds_it(how: str) -> None:
    x = one()
    held = SHARING[how](x)
    assert state_of(x) == "shared"
    assert held is not None
    del held
    gc.collect()
    assert state_of(x) == "unique"


@pytest.mark.parametrize("how", EXPORTING)
def test_memory_stays_exported(how: str) -> None:
    x = one()
    assert EXPORTING[how](x) is not None
    assert state_of(x) == "exported" == state_of(x.detach())
    assert state_of(x + 0) == "unique"


def test_borrowed_memory_stays_the_callers() -> None:
    array = np.ones(SIZE, np.float32)
    x = jg.asarray(array, copy=False)
    assert state_of(x) == "borrowed"
    x.numpy()
    assert state_of(x) == "borrowed" and state_of(x.detach()) == "borrowed"
    del array
    assert state_of(x) == "borrowed"


def test_memory_of_bytes_is_taken_and_not_unique() -> None:
    array = np.frombuffer(bytes(4 * SIZE), np.float32)
    x = jg.asarray(array)
    assert x._value.array is array
    del array
    assert state_of(x) == "shared"


@pytest.mark.parametrize("take", TAKING.values(), ids=TAKING)
@pytest.mark.parametrize("thaw", THAWING.values(), ids=THAWING)
def test_memory_that_could_be_made_writable_is_copied(take: Any, thaw: Any) -> None:
    array = np.ones(SIZE, np.float32)
    writable = array[:]
    array.flags.writeable = False
    elements = take(array)
    thaw(array, writable)
    assert array[0] == 7 and elements() == [1.0] * SIZE


def test_each_question_counts_its_own_holders() -> None:
    values = [EagerValue(np.zeros(2)) for _ in range(3)]
    held, view = values[1], values[2].array[:1]
    assert UniqueAmong(3, holders=0)(values) == [True, False, False]
    assert held.array is not view.base
    del held, view
    assert UniqueAmong(3, holders=0)(values) is None
    others = list(values)
    assert UniqueAmong(3, holders=0)(values) == [False] * 3 and UniqueAmong(3, holders=1)(others) is None
    value = EagerValue(np.zeros(2))
    assert is_unique(value)
    again = value
    assert not is_unique(value) and again is value
    assert not are_released(values)
    del others
    assert are_released(values)


def make() -> Any:
    """A state of zeros and the step that adds one to it."""
    state = jg.zeros(SIZE)

    @jg.trace
    def step(x: Any) -> Any:
        state.__iadd__(x)
        return x * 2

    step(jg.ones(SIZE))
    assert step._specialisations[0].in_place
    return state, lambda: step(jg.ones(SIZE))


@pytest.mark.parametrize("how", [*SHARING, *EXPORTING])
def test_donation_leaves_memory_that_others_hold_and_comes_back(how: str) -> None:
    state, call = make()
    call()
    before = address(state)
    call()
    assert address(state) == before
    held = (SHARING | EXPORTING)[how](state)
    for _ in range(3):
        call()
        assert address(state) != before
        assert list((ctypes.c_float * SIZE).from_address(before)) == [3.0] * SIZE
    assert held is not None
    device = address(state)
    call()
    assert address(state) == device and state.tolist() == [7.0] * SIZE


def test_exported_memory_is_never_written_again() -> None:
    double = jg.trace(lambda x: x * 2)
    held: list[Any] = []
    for n in range(40):
        y = double(jg.full((SIZE,), n))
        held.append((list(EXPORTING.values())[n % 5](y), n))
        del y
    for seen, n in held:
        np.testing.assert_array_equal(np.asarray(seen)[-SIZE + 3 :], np.full(SIZE - 3, 2.0 * n))


def test_exports_in_threads_while_state_is_updated() -> None:
    state, call = make()
    torn: list[Any] = []
    stop = threading.Event()

    def look() -> None:
        kept: list[Any] = []
        while not stop.is_set():
            view = np.from_dlpack(state) if len(kept) % 2 else state.numpy()
            kept = [*kept[-6:], (view, view[0])]
            torn.extend((view.copy(), first) for view, first in kept if not (view == first).all())

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        call()
    stop.set()
    for thread in threads:
        thread.join()
    assert not torn and state.tolist() == [301.0] * SIZE
