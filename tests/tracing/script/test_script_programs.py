"""Random programs of nested branches and loops mean under jg.script what they mean in plain Python."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import jitgraph as jg
from jitgraph import tree
from tests.programs import numbers
from tests.programs import scripts as script_programs
from tests.tracing.script.scripts import define

COUNT = int(os.environ.get("SCRIPT_PROGRAMS", "60"))
PHASES = tuple(Phase) if "SCRIPT_SHRINK" in os.environ else (Phase.generate,)  # shrinking takes minutes
NATIVE = 30  # of so many programs one runs as native code; the interpreter runs the others
SHARE = 1000  # programs of one test, so that processes share them
ROWS = np.array([0.5, -1.0, 2.0])


def plain(value: Any) -> tuple[Any, list[Any]]:
    leaves, structure = tree.flatten(value)
    return structure, [np.asarray(x.detach().numpy() if isinstance(x, jg.Tensor) else x) for x in leaves]


def staged_statements(program: Any, scripted: Any, source: str) -> tuple[int, int]:
    """How many statements a program has, and of how many of them its graphs have ops."""
    file, before = program.__code__.co_filename, script_programs.HELPERS.count("\n")
    lines = {
        node.location.line + before
        for plan in scripted.plans
        for node in plan.graph.walk()
        if node.location is not None and node.location.file == file
    }
    statements = script_programs.statements_of(source)
    return len(statements), len(statements & lines)


def run_programs(count: int, part: int, patch: pytest.MonkeyPatch) -> tuple[Counter[str], set[str]]:
    """Run so many programs both ways; what they consisted of, and which operations of numbers they had."""
    covered: Counter[str] = Counter()
    reached: set[str] = set()
    floats = st.sampled_from([-1.0, 0.5, 2.0])

    @seed(part)
    @settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        phases=PHASES,
    )
    @given(script_programs.programs, floats, floats, st.integers(-2, 5), st.sampled_from("xy"))
    def run(source: str, a: float, b: float, n: int, mode: str) -> None:
        program = define(source, shared=script_programs.HELPERS)
        try:
            scripted = jg.script(program)
        except jg.ScriptError as error:  # of ``:=`` in a comprehension
            assert "an assignment inside an expression" in str(error)
            covered["refused"] += 1
            return
        covered["programs"] += 1
        is_native = covered["programs"] % NATIVE == 0
        patch.setenv("JITGRAPH_INTERPRET", "0" if is_native else "1")
        covered.update(script_programs.parts(source))
        reached.update(script_programs.operations(source))
        for m in (1, 3, 0):
            args = [jg.asarray(np.array(x)) for x in (a, b, n, m, ROWS, True)]
            covered["calls"] += 1
            with np.errstate(all="ignore"):
                try:
                    structure, due = plain(program(*args, mode))
                except UnboundLocalError as error:
                    covered["unbound"] += 1
                    with pytest.raises(UnboundLocalError, match=re.escape(str(error))):
                        scripted(*args, mode)
                    continue
                shape, mine = plain(scripted(*args, mode))
            assert structure == shape
            for x, y in zip(mine, due, strict=True):
                np.testing.assert_array_equal(x, y)
        statements, staged = staged_statements(program, scripted, source)
        covered["statements"] += statements
        covered["statements in graphs"] += staged
        covered["statements as native code"] += staged if is_native else 0

    run()
    return covered, reached


def test_every_operation_of_the_table_stands_in_programs() -> None:
    """But for those whose operands raise in all programs."""
    assert len(script_programs.OPERATIONS) > 0.98 * len(numbers.OPERATIONS)


@pytest.mark.parametrize("part", range(-(-COUNT // SHARE)))
def test_random_programs_change_containers_and_leave_loops_as_python_does(part: int) -> None:
    count = min(SHARE, COUNT - part * SHARE)
    with pytest.MonkeyPatch.context() as patch:
        covered, reached = run_programs(count, part, patch)
    print(", ".join(f"{part} {number}" for part, number in covered.most_common()))
    share = {word: covered[f"statements {word}"] / covered["statements"] for word in ("in graphs", "as native code")}
    print(f"of {covered['statements']} statements", ", ".join(f"{part:.1%} {word}" for word, part in share.items()))
    every = {operation.text for operation in script_programs.OPERATIONS}
    print(f"operations of numbers: {len(reached)} of {len(every)}; not {', '.join(sorted(every - reached)[:20])}")
    assert share["in graphs"] > 0.5
    often = {"list", "dict", "attribute", "else", "rates", "grid"}
    rarely = {"break", "continue", ":=", "step", "zip", "by number", "grown", "nonlocal", "deleted", "unbound"}
    assert not often - covered.keys()
    assert count < SHARE or len(rarely - covered.keys()) < 4  # each of them stands in some of 20 such parts
    assert count < SHARE or len(reached) > 0.8 * len(every)  # in 20 such parts each of them is sure to stand somewhere
