"""Every way of reading or changing Python state, by itself, with every edit: traced and scripted agree with plain."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.alone import Case, cases, telling
from tests.capture.worlds import run


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_a_rule_alone(case: Case, tmp_path: Path) -> None:
    program = telling(case, tmp_path)
    report = run(program, tmp_path)
    for failure in report.failures.values():
        pytest.fail(f"{failure}\n{program.script()}", pytrace=False)
    assert case.rule.refuses or not report.refusals, f"{report.refusals}\n{program.script()}"
