"""Counts of calls that begin anew in each test that asks for it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import cache

import pytest

from jitgraph.eager.emitter import EAGER
from jitgraph.eager.launch import FEW
from jitgraph.eager.rules import Rules
from jitgraph.tensor import direct_calls


@cache
def made_before_tests() -> list[direct_calls.DirectCall]:
    """Functions that are older than the first test: lists of objects leave them out (``tests/conftest.py``)."""
    gc.unfreeze()
    found = [held for held in gc.get_objects() if isinstance(held, direct_calls.DirectCall)]
    gc.freeze()
    return found


@pytest.fixture
def rules_of_their_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What was settled and counted under other flags does not count."""
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")
    monkeypatch.setattr(EAGER, "_rules", Rules())
    for held in [*made_before_tests(), *gc.get_objects()]:
        if isinstance(held, direct_calls.DirectCall):
            held._served, held._next, held._written = 0, FEW, 0
    yield
