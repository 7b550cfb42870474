"""Every case of tests/golden; ``pytest tests/test_golden.py --bless`` rewrites what the steps must give."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from jitgraph import passes
from jitgraph.codegen.kernels.kernel_verifier import verify_kernel
from jitgraph.errors import GraphError
from jitgraph.ir.graph import Graph
from jitgraph.ir.op import Op
from jitgraph.ir.printer import print_graph
from jitgraph.ir.target import Target
from jitgraph.ir.verifier import verify
from jitgraph.ops import OPS
from jitgraph.passes import pipeline
from jitgraph.passes.autodiff import has_gradients
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from tests.golden_files import FOLDER, Case, cases, check_run, read, write
from tests.golden_kernels import kernel_result
from tests.golden_steps import result_of

CASES = cases()
PARTS = {
    "active_samples": "vmap",
    "batched": "vmap",
    "batched_control": "vmap",
    "batching": "vmap",
    "effect_order": "fuse",
    "fusion_forms": "fuse",
    "fusion_groups": "fuse",
    "minimum_cut": "partition",
    "recomputing": "reverse",
    "sparse_sums": "control_gradients",
}  # of a pass, whose cases they share
TOOLS = {"patterns": "the language of the rules", "rewriter": "what passes write graphs with"}  # no passes themselves
MODULES = sorted({file.stem for file in Path(passes.__path__[0]).glob("*.py")} - {"__init__", *TOOLS})


def found_text(case: Case) -> str:
    """What the case's steps give; red where that does not mean what the graph means."""
    if case.file.suffix == ".kernel":
        return kernel_result(case)
    graph, result = case.graph(), result_of(case)
    assert case.runs() or not has_gradients(graph), "a case with a grad node needs a line '# run: ...'"
    for arguments, results in case.runs():
        for one in result.graphs if has_gradients(graph) else (graph, *result.graphs):
            check_run(one, arguments, results)
    return result.text


@pytest.mark.parametrize("case", CASES, ids=[f"{case.file.stem}:{case.name}" for case in CASES])
def test_golden(case: Case, request: pytest.FixtureRequest) -> None:
    if case.expected is None:
        _check_error(case)
        return
    text = found_text(case)
    if not request.config.getoption("--bless"):
        case.require(text)


def _check_error(case: Case) -> None:
    ((line, words),) = case.errors()
    with pytest.raises(GraphError) as caught:
        if case.file.suffix == ".kernel":
            verify_kernel(parse_kernel(case.kernel))
        else:
            verify(case.graph())
    assert words in str(caught.value)
    if case.file.suffix == ".kernel":
        (marked,) = [text for text in str(caught.value).splitlines() if text.startswith("  > ")]
        assert marked.strip("> ") == case.text.split("\n")[line - case.line].partition("#")[0].strip()
        return
    assert caught.value.location is not None
    assert caught.value.location.line == line


def test_bless(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--bless"):
        pytest.skip("only with --bless")
    for file in sorted({case.file for case in CASES}):
        bless(file)


def bless(file: Path) -> None:
    """Write what the steps of each case give into its file."""
    actual = read(file)
    blocks = [
        case.text.rstrip() if case.expected is None else f"{case.text.rstrip()}\n---\n{found_text(case)}"
        for case in actual
    ]
    write(file, blocks)


def case_of(text: str, command: str) -> Case:
    return Case(FOLDER / "sample.jgir", 1, command, text, "")


DIFFERENCE = """graph @difference(%x: f64[n], %y: f64[n]) -> f64[n] {
  %0: f64[n] = sub(%x, %y)
  return %0
}"""


def test_a_result_that_means_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """So --bless writes none."""

    def turned(graph: Graph, target: Target) -> Graph:
        (node,) = graph.nodes
        return replace(graph, nodes=(replace(node, inputs=node.inputs[::-1]),))

    assert found_text(case_of(DIFFERENCE, "cse")).strip() == DIFFERENCE
    monkeypatch.setitem(pipeline.PASSES, "cse", turned)
    with pytest.raises(AssertionError, match="output 0"):
        found_text(case_of(DIFFERENCE, "cse"))


def test_a_gradient_that_is_no_slope_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for step in ("reverse", "vjp"):
        assert "neg" in found_text(case_of(DIFFERENCE, step))
    sub = OPS["sub"]
    monkeypatch.setattr(Op, "vjp", property(lambda op: (lambda ct, *_: (ct, ct)) if op is sub else None), raising=False)
    for step in ("reverse", "vjp"):
        with pytest.raises(AssertionError, match="input 1"):
            found_text(case_of(DIFFERENCE, step))


def test_a_text_that_differs_is_shown_as_a_diff() -> None:
    case = replace(case_of(DIFFERENCE, "cse"), expected=DIFFERENCE)
    case.require(DIFFERENCE)
    with pytest.raises(
        AssertionError, match=r"-  %0: f64\[n\] = sub\(%x, %y\)\n\+  %0: f64\[n\] = sub\(%y, %x\)[\s\S]*--bless"
    ):
        case.require(DIFFERENCE.replace("%x, %y)\n", "%y, %x)\n"))


@pytest.mark.parametrize("end", ["\n---\n", "\n---", "\n--- \n", "\n", ""])
def test_a_case_appended_without_its_text_is_red_until_it_is_blessed(tmp_path: Path, end: str) -> None:
    file = tmp_path / "sample.jgir"
    refused = "graph @refused(%x: f64[n]) -> f64[n] {\n  return %y  # error: %y\n}\n"
    first = f"# RUN: cse\n{DIFFERENCE}\n---\n{DIFFERENCE}\n===\n{refused}"
    file.write_text(f"{first}===\n{DIFFERENCE.replace('@difference', '@appended')}{end}")
    full, _, appended = read(file)
    full.require(found_text(full))
    with pytest.raises(AssertionError, match="--bless"):
        appended.require(found_text(appended))
    bless(file)
    *_, appended = read(file)
    appended.require(found_text(appended))
    assert file.read_text().startswith(first)
    blessed = file.read_text()
    bless(file)
    assert file.read_text() == blessed


def test_the_folder_holds_cases_alone() -> None:
    assert {file.suffix for file in FOLDER.iterdir()} == {".jgir", ".kernel"}
    assert not [case for case in CASES if case.expected == ""], "a case that expects nothing: --bless fills it"


@pytest.mark.parametrize("name", MODULES)
def test_every_pass_has_golden_cases(name: str) -> None:
    """Three or more cases in files named after the module, which reach its code and change something."""
    files = PARTS.get(name, name)
    outputs = [case for case in CASES if case.file.stem == files or case.file.stem.startswith(f"{files}_")]
    outputs = [case for case in outputs if case.expected is not None]
    assert len(outputs) >= 3, f"tests/golden has {len(outputs)} cases of {name}: write graphs, then --bless"
    changed = [case for case in outputs if case.expected != f"{print_graph(case.graph(), locations=False)}\n"]
    assert len(changed) >= 2, f"the golden cases of {name} change nothing"
    reached: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            reached.add(frame.f_globals.get("__name__", ""))

    for case in changed:
        sys.setprofile(note)
        try:
            result_of(case)
        finally:
            sys.setprofile(None)
        if f"jitgraph.passes.{name}" in reached:
            return
    raise AssertionError(f"no case of {name} reaches its code")
