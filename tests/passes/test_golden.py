"""Every case of tests/golden; ``pytest --bless`` rewrites what the passes must give."""

from __future__ import annotations

import pytest

from jitgraph.errors import GraphError
from jitgraph.ir.printer import print_graph
from jitgraph.ir.verifier import verify
from tests.golden_files import FOLDER, Case, cases, check_run, write

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=[f"{case.file.stem}:{case.name}" for case in CASES])
def test_golden(case: Case, request: pytest.FixtureRequest) -> None:
    if case.expected is None:
        _check_error(case)
        return
    graph = case.graph()
    verify(graph)
    optimized = case.optimized(graph)
    if not request.config.getoption("--bless"):
        expected = case.graph(case.expected)
        assert optimized == expected, f"{print_graph(optimized, locations=False)}\nexpected\n{case.expected}"
    for arguments, results in case.runs():
        check_run(graph, arguments, results)
        check_run(optimized, arguments, results)


def _check_error(case: Case) -> None:
    assert len(case.errors()) == 1, (
        f"{case.name} has neither a line of three dashes behind its graph nor one error in it"
    )
    ((line, words),) = case.errors()
    with pytest.raises(GraphError) as caught:
        verify(case.graph())
    assert words in str(caught.value)
    assert caught.value.location is not None
    assert caught.value.location.line == line


def test_bless(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--bless"):
        pytest.skip("only with --bless")
    for file in sorted(FOLDER.glob("*.jgir")):
        blocks = []
        for case in (case for case in CASES if case.file == file):
            block = case.text
            if case.expected is not None:
                block += f"\n---\n{print_graph(case.optimized(case.graph()), locations=False)}\n"
            blocks.append(block)
        write(file, blocks)
