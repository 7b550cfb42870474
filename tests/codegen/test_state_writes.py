"""Calls that write elements, rows and slices of state move what they write, and change nothing where a check fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.codegen.kernels.schedule import Launch, Schedule, copied
from jitgraph.codegen.kernels.schedule_verifier import verify_plan
from jitgraph.errors import GraphError
from jitgraph.standalone import write_loaders
from tests.codegen.moved_bytes import moved_bytes
from tests.graphs import needs_native
from tests.runtime.c_library import CError, Library

WIDTH = 16


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("JITGRAPH_VERIFY", "1")
    yield


class Cache(jg.nn.Module):
    """Rows of earlier calls, and a table that is read alone."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.k = jg.asarray(np.arange(length * WIDTH, dtype=np.float32).reshape(length, WIDTH))
        self.v = self.k * 2
        self.table = self.k * 0.5

    def forward(self, row: Any, i: Any) -> Any:
        self.k[i] = row * self.table[i]
        return self.k[i - 1].sum()


class Slices(Cache):
    def forward(self, row: Any, i: Any) -> Any:
        self.k[i : i + 2] = row * 2 - self.v[i]
        return row.sum()


class Elements(Cache):
    def forward(self, row: Any, i: Any) -> Any:
        self.k[i, 3] = row[0]
        self.v[2, i] = row[i]
        return row * 2


class Sums(Cache):
    """What is written is computed from what was there."""

    def forward(self, row: Any, i: Any) -> Any:
        self.k[i] += row
        self.v[i] = self.v[i - 1] - self.k[i] * 0.5
        return self.v[i]


class Twice(Cache):
    def forward(self, row: Any, i: Any) -> Any:
        self.k[i] = row
        self.k[i - 1], self.v[i] = self.k[i] * 2, self.k[i - 2]
        return self.k[i]


class OldRows(Cache):
    """What was there is wanted behind the write."""

    def forward(self, row: Any, i: Any) -> Any:
        old, first = self.k[i : i + 2], self.v[0]
        self.k[i : i + 2] = row
        self.v[i] = row
        return old * row - first + self.v[i]


class Lists(Cache):
    def forward(self, row: Any, i: Any) -> Any:
        self.k[jg.stack([i, i + 2, i])] = row
        self.v[jg.stack([i, i + 2])] += row
        return row.sum()


class Counted(Cache):
    """A ring whose position is state too."""

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.position = jg.asarray(length - 2)

    def forward(self, row: Any, i: Any) -> Any:
        self.k[self.position] = row
        self.position = (self.position + 1) % self.k.shape[0]
        return self.position + i


class Layers(jg.nn.Module):
    """The checks of the second layer stand behind the writes of the first in the program."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.first, self.second = Cache(length), Twice(length)
        self.embedding = jg.asarray(np.ones((7, WIDTH), np.float32))

    def forward(self, row: Any, i: Any) -> Any:
        row = row + self.embedding[i % 7]
        return self.second(row * self.first(row, i), i)


ROWS = [Cache, Slices, Elements, Sums, Twice, OldRows, Lists, Counted, Layers]
"""Modules a call of which moves as many bytes whatever the length of their state."""


class WantedAfterwards(Cache):
    def forward(self, row: Any, i: Any) -> Any:
        old = self.k
        self.k = self.k * 1
        self.k[i] = row
        return old - self.k


class ReadLater(Cache):
    """The old value is read behind the write, and the two states take each other's rows."""

    def forward(self, row: Any, i: Any) -> Any:
        before = self.k[i - 1]
        old = self.k * 1
        self.k[i], self.v[i] = self.v[i] + before, self.k[i] + row
        return old.sum() - self.k.sum(), before


class CheckedLate(Cache):
    """An index that is computed of what was written is checked behind the write."""

    def forward(self, row: Any, i: Any) -> Any:
        self.k[i] = row
        j = self.k[i].sum().astype(jg.int64) % 5
        return self.table[j] + self.k[i]


HAZARDS = [WantedAfterwards, ReadLater, CheckedLate]
"""Modules whose state has to be copied, or is read when it is written."""


def state_of(module: Any) -> list[np.ndarray]:
    """Copies of what is written, which leave the memory to the module alone."""
    holders = [module.first, module.second] if isinstance(module, Layers) else [module]
    return [
        np.asarray(getattr(one, name) * 1) for one in holders for name in ("k", "v", "position") if hasattr(one, name)
    ]


def results(values: Any) -> list[np.ndarray]:
    return [np.asarray(one) for one in (values if isinstance(values, tuple) else (values,))]


def given(number: int, i: int) -> tuple[jg.Tensor, jg.Tensor]:
    row = np.random.default_rng(number).integers(-9, 9, WIDTH).astype(np.float32)
    return jg.asarray(row), jg.asarray(i)


def schedule_of(module: type[Any], length: int = 40) -> Schedule:
    schedule: Schedule = jg.trace(module(length)).lower(*given(0, 3)).stages.schedule
    return schedule


def by_name(module: type[Any]) -> str:
    return module.__name__


@needs_native
@pytest.mark.parametrize("module", [*ROWS, *HAZARDS], ids=by_name)
def test_state_is_what_it_is_eagerly(module: type[Any]) -> None:
    plain, compiled = module(40), module(40)
    traced = jg.trace(compiled)
    for number, i in enumerate((3, 4, 13, 2, 2, 11)):
        for x, y in zip(results(traced(*given(number, i))), results(plain(*given(number, i))), strict=True):
            np.testing.assert_array_equal(x, y)
    for x, y in zip(state_of(compiled), state_of(plain), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("module", ROWS, ids=by_name)
def test_a_call_moves_what_it_writes(module: type[Any]) -> None:
    small, large = (moved_bytes(schedule_of(module, length), donated=True) for length in (40, 4000))
    assert small == large < 8000, f"{small} bytes for 40 rows, {large} for 4,000"


@pytest.mark.parametrize("module", HAZARDS, ids=by_name)
def test_the_count_tells_a_copy_of_state(module: type[Any]) -> None:
    small, large = (moved_bytes(schedule_of(module, length), donated=True) for length in (40, 4000))
    assert large > 50 * small


@needs_native
@pytest.mark.parametrize("module", ROWS, ids=by_name)
def test_state_stays_where_it_is(module: type[Any]) -> None:
    compiled = module(40)
    traced = jg.trace(compiled)
    written = compiled.second if isinstance(compiled, Layers) else compiled
    for i in (3, 4):  # the first call may find its code in a cache, and the state's memory new
        traced(*given(0, i))
    before = written.k._value.array.ctypes.data
    for number in range(3):
        traced(*given(number, 4 + number))
    assert written.k._value.array.ctypes.data == before


@needs_native
@pytest.mark.parametrize("module", [*ROWS, *HAZARDS], ids=by_name)
def test_a_call_that_fails_leaves_state_as_it_was(module: type[Any]) -> None:
    if module is Counted:
        pytest.skip("its position is always one of the cache")
    compiled = module(40)
    traced = jg.trace(compiled)
    traced(*given(0, 3))
    before = state_of(compiled)
    with pytest.raises(IndexError):
        traced(*given(1, 40))
    for x, y in zip(state_of(compiled), before, strict=True):
        np.testing.assert_array_equal(x, y)
    traced(*given(1, 5))
    assert any((x != y).any() for x, y in zip(state_of(compiled), before, strict=True))


@needs_native
def test_a_failure_of_the_last_check_leaves_all_state_as_it_was() -> None:
    """The index of the embedding is good, and only the second layer's cache is too short for the position."""
    compiled = Layers(40)
    compiled.second = Twice(20)
    traced = jg.trace(compiled)
    traced(*given(0, 3))
    before = state_of(compiled)
    with pytest.raises(IndexError, match="20"):
        traced(*given(1, 30))
    for x, y in zip(state_of(compiled), before, strict=True):
        np.testing.assert_array_equal(x, y)


@needs_native
@pytest.mark.parametrize("module", ROWS, ids=by_name)
def test_what_was_given_out_is_not_overwritten(module: type[Any]) -> None:
    """A view of the array, and another tensor that is the old value: the same code copies then."""
    plain, compiled = module(40), module(40)
    traced = jg.trace(compiled)
    holder = compiled.second if isinstance(compiled, Layers) else compiled
    for number, i in enumerate((3, 7, 9, 12)):
        view, old = holder.k.numpy(), holder.k.detach()
        due = np.array(view)
        for x, y in zip(results(traced(*given(number, i))), results(plain(*given(number, i))), strict=True):
            np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(view, due)
        np.testing.assert_array_equal(np.asarray(old), due)
    for x, y in zip(state_of(compiled), state_of(plain), strict=True):
        np.testing.assert_array_equal(x, y)


def test_donations_before_a_check_are_refused() -> None:
    """The plan leaves out the state that is written before an index is checked; one that did not is refused."""
    schedule = schedule_of(CheckedLate)
    assert schedule.plan is not None
    assert not schedule.plan.donations
    steps, donations = [], {}
    for step in schedule.steps:
        if (pair := copied(step)) is not None and isinstance(step, Launch):
            donations[pair[1]] = pair[0]
            read, written = (param.name for param in step.kernel.params)
            step = replace(step, kernel=replace(step.kernel, aliases=((written, read),)))
        steps.append(step)
    assert donations
    with pytest.raises(GraphError, match="can fail when"):
        verify_plan(replace(schedule, steps=tuple(steps), plan=replace(schedule.plan, donations=donations)))


@needs_native
@pytest.mark.parametrize("module", [Twice, Layers], ids=by_name)
def test_files_write_state_in_place(module: type[Any], tmp_path: Path) -> None:
    compiled = module(40)
    plain = module(40)
    jg.save(jg.trace(compiled), tmp_path / "model.jg", example_inputs=given(0, 3))
    write_loaders(tmp_path)
    code = (
        "import loader, numpy as np\n"
        "model, found = loader.load('model.jg'), []\n"
        "for row, i in zip(np.load('rows.npy'), np.load('places.npy')):\n"
        "    found.append(model(row, i))\n"
        "try:\n"
        "    model(row, np.int64(40))\n"
        "except IndexError:\n"
        "    found.append(model(row, i))\n"
        "np.save('found.npy', found)\n"
    )
    positions = (3, 4, 13, 2)
    np.save(tmp_path / "rows.npy", np.stack([np.asarray(given(k, 0)[0]) for k in range(4)]))
    np.save(tmp_path / "places.npy", np.asarray(positions))
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    calls = [*enumerate(positions), (3, 2)]
    due = [np.asarray(plain(*given(number, i))) for number, i in calls]
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), np.stack(due))


@needs_native
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is needed to compile loader.c")
def test_the_c_loader_writes_state_in_place(tmp_path: Path) -> None:
    """From the second run on, whose state is memory of the model; a run that fails leaves it as it was."""
    compiled, plain = Twice(100_000), Twice(100_000)
    state_bytes = 100_000 * WIDTH * 4
    jg.save(jg.trace(compiled), tmp_path / "model.jg", example_inputs=given(0, 3))
    model = Library(tmp_path).load(tmp_path / "model.jg")
    resident = []
    for number, i in enumerate((3, 4, 13, 2)):
        (actual,) = model(*map(np.asarray, given(number, i)))
        np.testing.assert_array_equal(actual, np.asarray(plain(*given(number, i))))
        resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
    assert resident[-1] - resident[0] < state_bytes // 2
    with pytest.raises(CError, match="out of range"):
        model(*map(np.asarray, given(9, 100_000)))
    (actual,) = model(*map(np.asarray, given(5, 14)))
    np.testing.assert_array_equal(actual, np.asarray(plain(*given(5, 14))))
    model.close()
