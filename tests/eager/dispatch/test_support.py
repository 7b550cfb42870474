"""Which interpreters the dispatcher serves, and how it finds out that CPython keeps things elsewhere."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.eager.dispatch import function, start
from jitgraph.runtime.cpython import api
from jitgraph.runtime.cpython import layout as cpython
from tests import ROOT
from tests.graphs import needs_native


@pytest.fixture
def asked_anew() -> Iterator[None]:
    start.lacking.cache_clear()
    yield
    start.lacking.cache_clear()


@needs_native
def test_this_interpreter_is_known(asked_anew: None) -> None:
    assert start.lacking() == ""
    assert start.is_supported()


@pytest.mark.parametrize(("flags", "reason"), [("t", "without a global lock"), ("d", "for debugging")])
def test_other_builds_are_refused_by_name(
    asked_anew: None, monkeypatch: pytest.MonkeyPatch, flags: str, reason: str
) -> None:
    monkeypatch.setattr(sys, "abiflags", flags)
    assert reason in start.lacking()
    assert not start.is_supported()


def test_a_subinterpreter_is_refused_by_name(asked_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert api.interpreter_number() == 0
    monkeypatch.setattr(api, "interpreter_number", lambda: 3)
    assert start.lacking() == "this is a subinterpreter"


def test_other_pythons_are_refused_by_name(asked_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "implementation", type(sys.implementation)(name="pypy"))
    assert "pypy" in start.lacking()
    assert not start.is_supported()


NUMBERS = {name: value for name, value in vars(cpython).items() if name.isupper()}
ELSEWHERE = {  # another number, by which nothing wild is read; 8 more for those that are not listed
    "CELL": 8, "COLLECTOR_NEXT": 8, "ENTRY_BYTES": 24, "FLOAT": 8, "KEYS_GENERAL": 1, "LIST_ITEMS": 8, "SLICE": 8,
    "MODULE_DICT": 8, "ORDER_BEFORE_VALUES": -4, "TUPLE_ITEMS": 16, "VALUES_11": -16, "VALUES_13_VALID": 1, "SIZE": 24,
    "SHARED_KEYS": {minor: offset - 8 for minor, offset in cpython.SHARED_KEYS.items()}, "DICT_VALUES": 32,
    "KEYS_FORM_MASK": 0xFFFF, "ARRAY_DENSE": 0x900, "ARRAY_WRITEABLE": 0x800,
    **{name: NUMBERS[name] << 9 for name in ("HAVE_VECTORCALL", "INLINE_VALUES", "MANAGED_DICT", "METHOD_DESCRIPTOR")},
}  # fmt: skip
UNTRIED = {
    "COLLECTOR_PREVIOUS": "the other word of the header, whose first one is tried",
    "DICT_KEYS": "the words of another object would be taken for addresses; what is read there is tried",
    "MOST_SHARED": "a limit: further attributes are looked up by their names",
}
MINOR = sys.version_info[1]
OF_VERSIONS = {"VALUES_11": 11, "VALUES_13_VALID": 13, "VALUES_13_FIRST": 13, "INLINE_VALUES": 13}


@needs_native
def test_what_lies_elsewhere_is_seen(asked_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number of ``cpython/layout.py``, were it another one."""
    assert UNTRIED.keys() | ELSEWHERE.keys() | OF_VERSIONS.keys() <= NUMBERS.keys()
    unseen = []
    for name, value in NUMBERS.items():
        if name in UNTRIED or OF_VERSIONS.get(name, MINOR) != MINOR or (name == "ORDER_BEFORE_VALUES" and MINOR == 13):
            continue
        with monkeypatch.context() as patch:
            patch.setattr(cpython, name, ELSEWHERE.get(name, value + 8 if isinstance(value, int) else value))
            start.lacking.cache_clear()
            if "look otherwise here" not in start.lacking():
                unseen.append(name)
    assert not unseen


def test_each_number_is_on_the_page_of_facts() -> None:
    page = (ROOT / "docs" / "architecture" / "cpython.md").read_text()
    assert not [name for name in NUMBERS if f"`{name}`" not in page]
    assert not [
        name
        for name in re.findall(r"`([A-Z][A-Z_0-9]+)`", page)
        if name not in NUMBERS.keys() | OTHER_NAMES | OF_BYTECODE
    ]


OTHER_NAMES = {"HANDLE_SLOTS", "VALUE_SLOTS", "RUNTIME_FUNCTIONS", "SUPPORTED", "JITGRAPH_DISABLE_JIT"}
OF_BYTECODE = {"PRECALL", "CALL", "RETURN_GENERATOR"}


@needs_native
@pytest.mark.parametrize("name", ["TYPE_FLAGS", "TYPE_VECTORCALL_OFFSET"])
def test_no_word_of_a_class_is_written_that_lies_elsewhere(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    class Called:
        def __call__(self) -> int:
            return 7

    offsets = range(cpython.TYPE, cpython.TYPE_VERSION, 8)
    before = [api.word(id(Called) + offset) for offset in offsets]
    monkeypatch.setattr(cpython, name, cpython.TYPE_GET_ATTRIBUTE)
    function.enable_vectorcall(Called)
    assert [api.word(id(Called) + offset) for offset in offsets] == before and Called()() == 7


@needs_native
def test_a_refusal_is_told_and_calls_go_on(asked_anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")
    anew = start._Start()
    anew.handles = jg.Tensor
    monkeypatch.setattr(start, "_START", anew)
    monkeypatch.setattr(start, "lacking", lambda: "no reason at all")
    double: Any = jg.trace(lambda x: x * 2)
    x = jg.asarray(np.arange(4.0))
    for _ in range(5):
        assert double(x).numpy().tolist() == [0, 2, 4, 6]
    assert double.native.refused == "no reason at all"
    assert double.native.hits == 0
