"""Random programs of several rules of reading Python state: traced, scripted and plain agree at every call.

Between the calls what they read is changed. 200 programs run by default; ``CAPTURE_PROGRAMS=5000`` in the environment
asks for as many, and ``CAPTURE_SEED`` draws others. A program that fails is made smaller and printed as a script that
stands alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.draw import COUNT, draw
from tests.capture.shrink import shrunk
from tests.capture.table import Table, note
from tests.capture.worlds import run

COUNTED = 400  # programs that the tables count


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


@pytest.mark.parametrize("index", range(COUNT))
def test_a_random_program(index: int, tmp_path: Path) -> None:
    program = draw(index)
    report = run(program, tmp_path)
    note(*(f"calls: {way} agreed" for way, calls in report.agreed.items() for _ in range(calls)))
    note(*(f"programs: {way} refused" for way in report.refusals))
    for failure in report.failures.values():
        program, failure = shrunk(program, failure)
        pytest.fail(f"{failure}\n{', '.join(program.rules)}\n{program.script()}", pytrace=False)


def test_every_rule_and_every_instruction_is_in_a_program(tmp_path: Path) -> None:
    table = Table()
    for index in range(COUNTED):
        folder = tmp_path / str(index)
        folder.mkdir()
        program = draw(index)
        table.add(program.rules, run(program, folder, ()).codes)
    print(*table.lines(), sep="\n")
    note(*table.by_kind())
    assert not table.missing()
