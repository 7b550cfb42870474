"""Which interpreters the dispatcher serves, and how it finds out that CPython keeps things elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.eager.dispatch import start, support
from jitgraph.runtime import cpython_api
from jitgraph.runtime import cpython_layout as cpython
from tests.graphs import needs_native


@pytest.fixture
def asked_anew() -> Iterator[None]:
    support.lacking.cache_clear()
    yield
    support.lacking.cache_clear()


@needs_native
def test_this_interpreter_is_known(asked_anew: None) -> None:
    assert support.lacking() == ""
    assert start.is_supported()


@pytest.mark.parametrize(("flags", "reason"), [("t", "without a global lock"), ("d", "for debugging")])
def test_other_builds_are_refused_by_name(
    asked_anew: None, monkeypatch: pytest.MonkeyPatch, flags: str, reason: str
) -> None:
    monkeypatch.setattr(sys, "abiflags", flags)
    assert reason in support.lacking()
    assert not start.is_supported()


def test_a_subinterpreter_is_refused_by_name(asked_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cpython_api.interpreter_number() == 0
    monkeypatch.setattr(cpython_api, "interpreter_number", lambda: 3)
    assert support.lacking() == "this is a subinterpreter"


def test_other_pythons_are_refused_by_name(asked_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "implementation", type(sys.implementation)(name="pypy"))
    assert "pypy" in support.lacking()
    assert not start.is_supported()


MOVED = ["TUPLE_ITEMS", "DICT_KEYS", "KEYS_COUNT", "FLOAT", "CELL", "MODULE_DICT", "FUNCTION_CODE",
         "FUNCTION_DEFAULTS", "ARRAY_DATA", "ARRAY_SHAPE", "ARRAY_DTYPE", "TYPE_FLAGS", "TYPE_BASIC_SIZE"]  # fmt: skip


@needs_native
@pytest.mark.parametrize("name", MOVED)
def test_what_lies_elsewhere_is_seen(asked_anew: None, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    others = {"TUPLE_ITEMS": 16, "FLOAT": 8, "CELL": 8, "MODULE_DICT": 8}
    shifted = others.get(name, getattr(cpython, name) + 8)
    if name == "DICT_KEYS":  # another object of the same kind, so that nothing wild is read
        monkeypatch.setattr(cpython, "KEYS_COUNT", cpython.KEYS_COUNT - 8)
    else:
        monkeypatch.setattr(cpython, name, shifted)
    assert "look otherwise here" in support.lacking()


@needs_native
def test_a_refusal_is_told_and_calls_go_on(asked_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")
    anew = start._Start()
    anew.handles = jg.Tensor
    monkeypatch.setattr(start, "_START", anew)
    monkeypatch.setattr(support, "lacking", lambda: "no reason at all")
    double: Any = jg.trace(lambda x: x * 2)
    x = jg.asarray(np.arange(4.0))
    for _ in range(5):
        assert double(x).numpy().tolist() == [0, 2, 4, 6]
    assert double.native.refused == "no reason at all"
    assert double.native.hits == 0
