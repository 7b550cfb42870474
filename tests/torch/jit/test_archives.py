"""Archives that PyTorch wrote, read without it: results, traces, state, and saved files in Python and in C."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import tree
from jitgraph.torch import jit
from tests.graphs import needs_native
from tests.runtime import c_library
from tests.torch.jit.records import ARCHIVES, records, require_same

RECORDS = records()


def loaded(name: str) -> Any:
    return jit.load(ARCHIVES / f"{name}.pt")


def given(value: Any) -> Any:
    """Arguments as tensors."""
    if isinstance(value, np.ndarray):
        return jg.asarray(value)
    if isinstance(value, list | tuple):
        return type(value)(map(given, value))
    return {key: given(item) for key, item in value.items()} if isinstance(value, dict) else value


def test_all_records_have_an_archive() -> None:
    assert sorted(path.stem for path in ARCHIVES.glob("*.pt")) == sorted(RECORDS) and len(RECORDS) >= 12


@pytest.mark.parametrize("name", RECORDS)
def test_an_archive_computes_what_pytorch_computed(name: str) -> None:
    args, result = RECORDS[name]
    with jg.no_grad():
        require_same(loaded(name)(*given(args)), result)
        traced = jg.trace(loaded(name))
        require_same(traced(*given(args)), result)
        if name in ("newton", "scripted_lstm", "vad", "classes"):  # elsewhere a script is a trace
            require_same(jg.script(loaded(name))(*given(args)), result)


@pytest.mark.parametrize("name", RECORDS)
def test_an_archive_is_saved(name: str, tmp_path: Path) -> None:
    args, result = RECORDS[name]
    module = loaded(name)
    with jg.no_grad():
        if name == "vad":  # its first call makes the state
            module(*given(args))
            result = loaded(name)
            result(*given(args))
            result = np.asarray(result(*given(args)))
        jg.save(jg.trace(module), tmp_path / "model.jg", example_inputs=given(args))
    tensors = [arg for arg in given(args) if isinstance(arg, jg.Tensor)]
    if name == "dicts":
        tensors = list(given(args))
    if name == "newton":  # a file's results are tensors
        result = (result[0], np.asarray(result[1]))
    require_same(jg.load(tmp_path / "model.jg")(*tensors), result)


@needs_native
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is needed to compile loader.c")
def test_archives_run_from_c(tmp_path: Path) -> None:
    """Loops, lists that grow in them, layers, and state that stays in the file's model."""
    library = c_library.Library(tmp_path)
    for name in RECORDS.keys() - {"vad"}:
        args, result = RECORDS[name]
        path = tmp_path / f"{name}.jg"
        with jg.no_grad():
            jg.save(jg.trace(loaded(name)), path, example_inputs=given(args))
        arrays = [leaf for leaf in tree.flatten(args)[0] if isinstance(leaf, np.ndarray)]
        expected = [leaf for leaf in tree.flatten(result)[0] if isinstance(leaf, np.ndarray)]
        outputs = library.load(path)(*arrays)
        require_same(outputs[: len(expected)], expected, name)
    args, _ = RECORDS["vad"]
    module = loaded("vad")
    with jg.no_grad():
        module(*given(args))
        jg.save(jg.trace(module), tmp_path / "vad.jg", example_inputs=given(args))
        model = library.load(tmp_path / "vad.jg")
        for _ in range(3):
            require_same(model(args[0])[0], np.asarray(module(*given(args))))


def test_state_goes_on_in_traces() -> None:
    """What a method sets in its module, eagerly and traced, in turns."""
    args, result = RECORDS["vad"]
    eager, traced = loaded("vad"), loaded("vad")
    step = jg.trace(traced)
    rng = np.random.default_rng(0)
    with jg.no_grad():
        for number in range(6):
            x = args[0] if number == 0 else rng.standard_normal(args[0].shape).astype(np.float32)
            expected = np.asarray(eager(jg.asarray(x), args[1]))
            actual = (step if number != 3 else traced)(jg.asarray(x), args[1])
            require_same(actual, expected)
            if number == 0:
                require_same(actual, result)
            for attribute in ("h", "c", "context", "calls"):
                require_same(getattr(traced, attribute), np.asarray(getattr(eager, attribute)))
        assert int(traced.calls) == 6 and traced.last_rate == 16 and step.cache_info().misses == 2
        traced.reset(2)
        assert traced.last_rate == 0 and traced.context.shape == (0,) and not np.asarray(traced.h).any()


def test_a_number_that_a_method_sets_steers_the_next_call() -> None:
    args, _ = RECORDS["vad"]
    eager, traced = loaded("vad"), loaded("vad")
    step = jg.trace(traced)
    with jg.no_grad():
        for rate in (16, 8, 8, 16):
            require_same(step(jg.asarray(args[0]), rate), np.asarray(eager(jg.asarray(args[0]), rate)))
            assert traced.last_rate == eager.last_rate == rate


def test_a_loop_over_a_named_size_is_one_op() -> None:
    args, _ = RECORDS["scripted_lstm"]
    module = loaded("scripted_lstm")
    scripted = jg.script(module, dynamic_shapes={"x": {0: "time"}})
    rng = np.random.default_rng(0)
    for length in (12, 50):
        x = rng.standard_normal((length, *args[0].shape[1:])).astype(np.float32)
        require_same(scripted(x), np.asarray(module(jg.asarray(x)).detach()))
    assert scripted.cache_info().misses == 1
    text = str(scripted.lower(np.zeros((500, *args[0].shape[1:]), np.float32)).graph)
    assert text.count("scan(") == 1 and len(text.splitlines()) < 80


def test_writes_through_views_reach_the_base() -> None:
    args, result = RECORDS["in_place"]
    x = jg.asarray(args[0])
    require_same(loaded("in_place")(x), result)
    np.testing.assert_array_equal(np.asarray(x), args[0])  # it works on a clone
