"""Every way of reading or changing Python state, by itself, with every edit: traced and scripted agree with plain."""

from __future__ import annotations

from pathlib import Path

import pytest
from capture.alone import Case, alone, cases
from capture.catalogue import KIND_OF
from capture.worlds import Report, run

TRIES = 40  # programs of a case until one is found whose edits change its result

CASES = list(cases())


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


def telling(case: Case, folder: Path) -> tuple[Report, str]:
    """The first program of the case whose plain results differ from one another, run in all worlds."""
    for seed in range(TRIES):
        name = f"program_{seed}"
        program = alone(name, case, seed)
        where = folder / name
        where.mkdir()
        report = run(program, where, ())
        if report.changed or KIND_OF[case.rule.name] == "effect":
            return run(program, where), program.script()
    raise AssertionError(f"the edit of {case} changes no result:\n{program.script()}")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_alone(case: Case, tmp_path: Path) -> None:
    report, script = telling(case, tmp_path)
    assert not report.failure, f"{report.failure}\n{script}"
    if not case.rule.refuses:
        assert not report.refusals, f"{report.refusals}\n{script}"
