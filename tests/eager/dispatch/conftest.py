"""Counts of calls that begin anew in each test that asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jitgraph.eager.dispatch.function import FEW
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.rules import Rules
from jitgraph.tensor import direct_calls
from tests.freezing import instances


@pytest.fixture
def rules_of_their_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What was settled and counted under other flags does not count."""
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")
    monkeypatch.setattr(EAGER, "_rules", Rules())
    for call in instances(direct_calls.DirectCall):
        call._served, call._next, call._written = 0, FEW, 0
    yield
