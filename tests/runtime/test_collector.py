"""What the cyclic collector is kept from looking at, and what it still finds."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from jitgraph.runtime import collector, imports

MODULE = "module_of_the_test_of_the_collector"


class Node:
    """May be part of a cycle."""

    def __init__(self) -> None:
        self.me: object = None


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module that can be imported under the name ``MODULE``."""
    (tmp_path / f"{MODULE}.py").write_text("class Class: pass\nTABLE = {'class': Class}\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(MODULE, None)


def is_old(value: object) -> bool:
    return any(found is value for found in gc.get_objects(generation=2))


def is_frozen(value: object) -> bool:
    return gc.is_tracked(value) and not any(found is value for found in gc.get_objects())


@pytest.mark.usefixtures("imported")
def test_what_a_module_defines_is_old_at_once() -> None:
    before = gc.get_stats()
    module = imports.module(MODULE)
    assert is_old(module.Class) and is_old(module.TABLE)
    assert gc.get_stats()[1]["collections"] == before[1]["collections"]
    assert gc.get_freeze_count() == 0


def test_a_module_that_is_there_makes_nothing_old() -> None:
    gc.disable()
    try:
        node = Node()
        imports.module("json")
        assert not is_old(node)
    finally:
        gc.enable()


@pytest.mark.usefixtures("imported")
def test_garbage_in_a_cycle_is_still_found() -> None:
    node = Node()
    node.me = node
    gone = weakref.ref(node)
    del node
    imports.module(MODULE)
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("imported")
def test_what_the_program_froze_stays_frozen() -> None:
    node = Node()
    gc.freeze()
    try:
        imports.module(MODULE)
        collector.age()
        assert is_frozen(node)
    finally:
        gc.unfreeze()
    assert is_old(node)
