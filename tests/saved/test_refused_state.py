"""What a saved function cannot do to Python state is named with its line, and with what to write instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import loader

X = np.ones((1, 2), np.float32)


class Counting(jg.nn.Module):
    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place
        self.register_buffer("n", jg.zeros((), dtype=jg.int64))

    def forward(self, x: Any) -> Any:
        if self.in_place:
            self.n += 1
        else:
            self.n = self.n + 1  # the line that is named
        return x * self.n


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if text in line)


def test_a_buffer_that_is_set_anew_is_named_and_one_changed_in_place_is_saved(tmp_path: Path) -> None:
    location = rf"\bn \(.*test_refused_state\.py:{line_of('the line that is named')}\)"
    with pytest.raises(jg.JitgraphError, match=rf"besides tensors: {location}\n  hint: .*self\.n \+= 1"):
        jg.save(Counting(False), tmp_path / "model.jg", example_inputs=(X,))
    jg.save(Counting(True), tmp_path / "model.jg", example_inputs=(X,))
    model = loader.load(tmp_path / "model.jg")
    assert [np.asarray(model(X)).tolist() for _ in range(3)] == [[[n, n]] for n in (1.0, 2.0, 3.0)]


def test_eval_inside_of_a_saved_function_is_named(tmp_path: Path) -> None:
    model = jg.nn.Sequential(jg.nn.Linear(2, 2), jg.nn.Dropout(0.5), jg.nn.ReLU())

    def predict(x: Any) -> Any:
        model.eval()  # inside
        return model(x)

    message = rf"model\.training \(.*:{line_of('# inside')}\), .*, \.\.\.\n  hint: call eval\(\) or train\(\) before"
    with pytest.raises(jg.JitgraphError, match=message):
        jg.save(predict, tmp_path / "model.jg", example_inputs=(X,))


def test_entries_of_one_file_have_their_own_mode(tmp_path: Path) -> None:
    jg.random.seed(0)
    model = jg.nn.Sequential(jg.nn.Linear(2, 3), jg.nn.BatchNorm1d(3), jg.nn.Dropout(0.5))

    def predict(x: Any) -> Any:
        model.eval()
        y = model(x)
        model.train()
        return y

    def noisy(x: Any) -> Any:
        return model(x)

    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    model.eval()
    first, changed = model(x).detach().numpy(), (model.train(), model(x))[1].detach().numpy()
    functions, inputs = {"predict": predict, "noisy": noisy}, {"predict": (x,), "noisy": (x,)}
    jg.save(functions, tmp_path / "model.jg", state=model, example_inputs=inputs)
    for run in (jg.load(tmp_path / "model.jg"), loader.load(tmp_path / "model.jg")):
        before = np.asarray(run.predict(x))
        assert not np.array_equal(before, first)  # the running averages went on
        assert np.count_nonzero(np.asarray(run.noisy(x))) < changed.size
        np.testing.assert_array_equal(np.asarray(run.predict(x)) == before, False)

    model.eval()  # what is restored is no longer what was there
    with pytest.raises(jg.JitgraphError, match=r"(?s)model\.training .*restore the mode"):
        jg.save(predict, tmp_path / "other.jg", example_inputs=(x,))


def test_a_python_number_that_is_counted_up_is_named_with_the_buffer_that_it_can_be(tmp_path: Path) -> None:
    model = Counting(False)
    model.n = 0  # type: ignore[assignment]
    location = rf"\bn \(.*test_refused_state\.py:{line_of('the line that is named')}\)"
    with pytest.raises(jg.JitgraphError, match=rf'{location}\n  hint: .*register_buffer\("n", jg\.asarray\(0\)\)'):
        jg.save(model, tmp_path / "model.jg", example_inputs=(X,))


def test_a_list_that_is_appended_to_is_named(tmp_path: Path) -> None:
    history: list[Any] = []

    def step(x: Any) -> Any:
        history.append(x * 2)  # append
        return x

    message = rf"history \(.*:{line_of('# append')}\)\n  hint: return what is put into the container"
    with pytest.raises(jg.JitgraphError, match=message):
        jg.save(step, tmp_path / "model.jg", example_inputs=(X,))
