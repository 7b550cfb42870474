"""The state of a loaded model: calls update it in place, and nobody who was shown it sees that."""

from __future__ import annotations

import contextlib
import io
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import loader
from jitgraph.runtime.loader.model import Model
from tests.graphs import needs_native

pytestmark = needs_native
ROWS = 2000  # enough that copies of the state show in the time and the memory of a call
ROW = np.arange(4.0)


class Cache(jg.nn.Module):
    """Rows that are written one by one, and how many calls there were."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", jg.zeros((ROWS, 4), dtype=jg.float64))
        self.register_buffer("calls", jg.asarray(0))

    def forward(self, i: Any, row: Any) -> Any:
        jg.debug.print("row {}", i)
        self.rows[i] = row
        self.calls += 1
        return self.rows[i] + self.rows[0], self.rows.sum()


def saved(path: Path, model: Callable[..., Any], *inputs: Any) -> Model:
    jg.save(model, path, example_inputs=inputs)
    model_of_file: Model = loader.load(path)
    return model_of_file


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return saved(tmp_path / "model.jg", Cache(), jg.asarray(0), jg.asarray(ROW))


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def address(model: Model, key: str = "Cache.rows") -> int:
    return int(model._state[key].ctypes.data)


def test_calls_write_where_the_state_lies(model: Model) -> None:
    model(1, ROW)  # that of the file is read-only
    positions = {address(model)}
    for i in range(2, 6):
        result, total = model(i, ROW * i)
        assert np.array_equal(result, ROW * i)
        positions.add(address(model))
    assert len(positions) == 1
    assert total == 6.0 * sum([1, 2, 3, 4, 5])
    assert model.state["Cache.calls"] == 5


def test_who_was_shown_the_state_keeps_what_they_saw(model: Model) -> None:
    shown = []
    for i in range(1, 8):
        result, _ = model(i, ROW * i)
        if i % 3 == 0:
            shown.append((i, model.state, result))
    for i, state, result in shown:
        assert state["Cache.calls"] == i
        assert np.array_equal(state["Cache.rows"][: i + 2, 1], [*range(i + 1), 0])
        assert np.array_equal(result, ROW * i)
        assert not any(array.flags.writeable for array in state.values())
    before = address(model)
    model(1, ROW)
    assert address(model) == before  # nobody was shown what the call behind the last snapshot made


def test_a_call_that_fails_changes_nothing(model: Model) -> None:
    for i in (1, 2):
        model(i, ROW)
    with pytest.raises(IndexError):
        model(ROWS, ROW)
    assert model.state["Cache.calls"] == 2
    assert model.state["Cache.rows"].sum() == 12


def test_state_that_is_set_is_a_copy(model: Model) -> None:
    mine = np.ones((ROWS, 4))
    for i in (1, 2):
        model(i, ROW)
    model.set_state({"Cache.rows": mine})
    for i in (1, 2, 3):
        model(i, ROW)
    assert mine.sum() == 4 * ROWS
    assert model.state["Cache.calls"] == 5
    assert model.state["Cache.rows"][5].sum() == 4


def test_a_result_that_is_the_state_is_the_callers_own(tmp_path: Path) -> None:
    counter = jg.zeros(3)

    def step(x: Any) -> Any:
        counter[...] = counter + x
        return counter

    model = saved(tmp_path / "model.jg", step, jg.ones(3))
    results = [model(np.ones(3, np.float32)) for _ in range(4)]
    assert [result.tolist() for result in results] == [[n] * 3 for n in (1, 2, 3, 4)]
    results[0][:] = 100
    assert model(np.ones(3, np.float32)).tolist() == [5] * 3


@pytest.mark.parametrize("nested", ["state", "call", "set"])
def test_what_is_asked_from_inside_a_call(model: Model, nested: str) -> None:
    """A print runs code of the user's while the call is under way: the state is still that before it."""
    for i in (1, 2):
        model(i, ROW)
    seen: list[Any] = []

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            if "(3," in text:
                if nested == "state":
                    seen.append(model.state)
                elif nested == "set":
                    model.set_state({"Cache.calls": np.array(70)})
                else:
                    seen.append(model(5, ROW)[1])
            return len(text)

    with contextlib.redirect_stdout(Stream()):
        assert model(3, ROW)[1] == 18
    model(4, ROW)
    assert model.state["Cache.calls"] == 4
    assert model.state["Cache.rows"].sum() == 24
    if nested == "state":
        assert seen[0]["Cache.calls"] == 2
        assert seen[0]["Cache.rows"].sum() == 12
    elif nested == "call":
        assert seen == [18]


def test_threads_that_call_and_read(model: Model) -> None:
    seen = []

    def call(first: int) -> None:
        for i in range(first, first + 50):
            model(i, ROW)

    def read() -> None:
        for _ in range(50):
            state = model.state
            seen.append((int(state["Cache.calls"]), float(state["Cache.rows"].sum()), state))

    threads = [threading.Thread(target=call, args=(first,)) for first in (1, 100, 200)]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.state["Cache.calls"] == 150
    for calls, total, state in seen:
        assert total == 6 * calls == state["Cache.rows"].sum()


def test_a_child_of_a_fork_does_not_use_a_state_that_was_being_written(model: Model) -> None:
    for i in (1, 2):
        model(i, ROW)
    model._in_place = threading.get_ident() + 1  # as a call of another thread sets it
    model.after_fork()
    for use in (lambda: model(1, ROW), lambda: model.state, lambda: model.set_state({})):
        with pytest.raises(loader.JitgraphError, match="forked"):
            use()


def test_a_call_costs_what_it_writes(tmp_path: Path) -> None:
    large = jg.zeros((200_000, 16))

    def write(i: Any) -> None:
        large[i] = 1.0

    model = saved(tmp_path / "model.jg", write, jg.asarray(0))
    for i in range(3):
        model(i)
    start = time.perf_counter()
    copied = np.copy(model._state[next(iter(model._state))])
    copying = time.perf_counter() - start
    least = np.inf
    for i in range(20):
        start = time.perf_counter()
        model(i)
        least = min(least, time.perf_counter() - start)
    assert copied.nbytes == 12_800_000
    assert least < copying / 5
