"""Random programs of nested branches and loops mean under jg.script what they mean in plain Python."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jitgraph as jg
from jitgraph import tree
from tests.programs import scripts as script_programs
from tests.tracing.script.scripts import define

COUNT = int(os.environ.get("SCRIPT_PROGRAMS", "60"))
ROWS = np.array([0.5, -1.0, 2.0])


def plain(value: Any) -> tuple[Any, list[Any]]:
    leaves, structure = tree.flatten(value)
    return structure, [np.asarray(x.detach().numpy() if isinstance(x, jg.Tensor) else x) for x in leaves]


def run_programs(count: int) -> Counter[str]:
    """Run so many programs both ways; what they consisted of."""
    covered: Counter[str] = Counter()
    floats = st.sampled_from([-1.0, 0.5, 2.0])

    @settings(
        max_examples=count, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
    )
    @given(script_programs.programs, floats, floats, st.integers(-2, 5), st.sampled_from("xy"))
    def run(source: str, a: float, b: float, n: int, mode: str) -> None:
        program = define(source)
        scripted = jg.script(program)
        covered.update(script_programs.parts(source))
        for m in (1, 3, 0):
            args = [jg.asarray(np.array(x)) for x in (a, b, n, m, ROWS, True)]
            with np.errstate(all="ignore"):
                (structure, due), (shape, mine) = plain(program(*args, mode)), plain(scripted(*args, mode))
            assert structure == shape
            for x, y in zip(mine, due, strict=True):
                np.testing.assert_array_equal(x, y)
            covered["calls"] += 1

    run()
    return covered


def test_random_programs_change_containers_and_leave_loops_as_python_does() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JITGRAPH_INTERPRET", "1")
        covered = run_programs(COUNT)
    print(", ".join(f"{part} {number}" for part, number in covered.most_common()))
    due = {
        "list",
        "dict",
        "attribute",
        "break",
        "continue",
        "else",
        ":=",
        "step",
        "zip",
        "grown",
        "nonlocal",
        "deleted",
    }
    missing = due - covered.keys()
    assert not missing
