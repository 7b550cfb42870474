"""Compiled code gives what the slow executor of its schedule gives, bit for bit, for the whole op table."""

from __future__ import annotations

import numpy as np
import pytest
from op_loop import cases, label, require_same, samples_of

from jitgraph import dtypes
from jitgraph.codegen.schedule_executor import execute_schedule
from jitgraph.compiler import Compiled, compile


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_VERIFY", "1")


@pytest.mark.parametrize("case", cases(), ids=label)
def test_native_equals_executor(case: tuple[str, dtypes.DType]) -> None:
    sampled = samples_of(*case)
    compiled = compile(sampled.graph)
    assert isinstance(compiled, Compiled)
    arguments = [np.asarray(x) for x in sampled.arguments]
    expected = execute_schedule(compiled.stages.schedule, arguments)
    require_same(expected, compiled.run(arguments), ulps=0.0)
