"""What C asks of a file's entries: names of inputs, and which entry is for which strings and numbers."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from tests.graphs import needs_native
from tests.runtime.c_library import Library, Tensor, given

pytestmark = [needs_native, pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is needed to compile loader.c")]
NONE, BOOL, INT, FLOAT, TEXT = range(5)


class Static(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("kind", ctypes.c_int), ("text", ctypes.c_char_p)]


def pooled(batch: dict[str, Any], mode: str = "sum", scale: Any = None, options: Any = (1, True)) -> Any:
    y = batch["x"] * batch["pair"][0]
    y = y.sum() if mode == "sum" else y.max()
    y = y if scale is None else y * scale
    return y * options[0] if options[1] else -y


BATCH = {"x": np.arange(4, dtype=np.float32), "pair": [np.full(4, 2, np.float32)]}
EXAMPLES = [(BATCH,), (BATCH, "max"), (BATCH, "größte", None, (3, False)), (BATCH, "max", 0.5)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("entries")
    jg.save(pooled, folder / "m.jg", example_inputs=EXAMPLES)
    loaded = Library(folder).load(folder / "m.jg")
    loaded.c.jg_entry_for.restype = loaded.c.jg_entry_name.restype = ctypes.c_char_p
    loaded.c.jg_static_at.restype = ctypes.POINTER(Static)
    loaded.c.jg_entry_count.restype = loaded.c.jg_static_count.restype = ctypes.c_size_t
    loaded.c.jg_input_index.restype = loaded.c.jg_output_index.restype = ctypes.c_ssize_t
    return loaded


@pytest.fixture
def chosen(model: Any) -> Callable[..., str]:
    """The entry that C finds for values, or the message."""

    def choose(*statics: tuple[str, int, str | None]) -> str:
        values = (Static * max(1, len(statics)))(
            *[Static(name.encode(), kind, None if text is None else text.encode()) for name, kind, text in statics]
        )
        count = ctypes.c_size_t(len(statics))
        name = model.c.jg_entry_for(model.model, None, values, count, ctypes.byref(model.error))
        return (name or model.error.message).decode()

    return choose


def test_every_value_is_told_with_its_kind(model: Any) -> None:
    names = [model.c.jg_entry_name(model.model, ctypes.c_size_t(number)) for number in range(4)]
    assert names == [b"forward", b"forward-2", b"forward-3", b"forward-4"] and model.c.jg_entry_count(model.model) == 4
    told = []
    for number in range(model.c.jg_static_count(model.model, b"forward-3")):
        each = model.c.jg_static_at(model.model, b"forward-3", ctypes.c_size_t(number)).contents
        told.append((each.name, each.kind, each.text.decode()))
    assert told == [
        (b"mode", TEXT, "größte"),
        (b"scale", NONE, "null"),
        (b"options.0", INT, "3"),
        (b"options.1", BOOL, "false"),
    ]
    assert not model.c.jg_static_at(model.model, b"forward-3", ctypes.c_size_t(4))
    assert model.c.jg_static_count(model.model, b"nothing") == 0


def test_an_entry_is_found_by_values_of_the_right_kind_alone(chosen: Callable[..., str]) -> None:
    usual = (("options.0", INT, "1"), ("options.1", BOOL, "true"))
    assert chosen(("mode", TEXT, "sum")) == "forward"
    assert chosen(("mode", TEXT, "größte")) == "forward-3"
    assert chosen(("mode", TEXT, "max"), ("scale", NONE, None)) == "forward-2"
    assert chosen(("mode", TEXT, "max"), *usual) == "forward-4"  # it has no other values
    assert chosen(("mode", TEXT, "max")) == "forward was saved for several values with mode = max"
    assert chosen() == "forward was saved for several values: name them"
    for wrong in (
        ("mode", TEXT, "median"),
        ("mode", TEXT, "ma"),
        ("mode", NONE, None),
        ("options.0", TEXT, "1"),
        ("options.0", FLOAT, "1"),
        ("options.1", INT, "true"),
        ("option", INT, "1"),
    ):
        assert chosen(wrong).startswith(f"forward was saved for no values with {wrong[0]}")


def test_inputs_are_found_and_set_by_name(model: Any) -> None:
    place = model.c.jg_input_index
    assert [place(model.model, None, name) for name in (b"batch.x", b"batch.pair.0", b"batch", b"mode")] == [
        0,
        1,
        -1,
        -1,
    ]
    assert place(model.model, b"forward-4", b"scale") == 2 and place(model.model, b"forward", b"scale") == -1
    assert place(None, None, b"x") == place(model.model, None, None) == -1
    assert model.c.jg_output_index(model.model, None, b"out0") == 0
    inputs, error = (Tensor * 3)(), ctypes.byref(model.error)
    values = {b"batch.pair.0": BATCH["pair"][0], b"scale": np.asarray(0.5), b"batch.x": BATCH["x"]}
    for name, array in values.items():
        tensor = given(array)
        assert model.c.jg_set_input(model.model, b"forward-4", name, tensor, inputs, ctypes.c_size_t(3), error) == 0
    output = (Tensor * 1)()
    run = model.c.jg_run
    assert run(model.model, b"forward-4", inputs, ctypes.c_size_t(3), output, ctypes.c_size_t(1), error) == 0
    assert float(model.taken(output[0])) == float(pooled({k: jg.asarray(v) if k == "x" else [jg.asarray(v[0])]
                                                          for k, v in BATCH.items()}, "max", 0.5))  # fmt: skip
    assert (
        model.c.jg_set_input(model.model, b"forward-4", b"y", given(BATCH["x"]), inputs, ctypes.c_size_t(3), error) == 2
    )
    assert b"forward has no input 'y'" in model.error.message
    assert (
        model.c.jg_set_input(model.model, b"forward-4", b"scale", given(BATCH["x"]), inputs, ctypes.c_size_t(2), error)
        == 2
    )
