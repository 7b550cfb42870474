"""How passes are run: logged, verified, blamed; and the tool that runs them from a shell."""

from __future__ import annotations

import gc
import re
from dataclasses import replace
from pathlib import Path

import pytest

from jitgraph import compilation, opt
from jitgraph.errors import GraphError
from jitgraph.ir import parse
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.passes.pipeline import PASSES, PIPELINE, run
from jitgraph.runtime import shared
from tests import ROOT
from tests.graphs import TARGET

TEXT = """graph @f(%x: f32[n]) -> f32[n] {
  %0: f32[n] = neg(%x)  # model.py:3
  %1: f32[n] = neg(%0)
  %2: f32[n] = relu(%1)
  return %2
}"""


def drop_first(graph: Graph, target: Target) -> Graph:
    return Graph(graph.inputs, graph.nodes[1:], graph.outputs, graph.constraints, graph.name)


def test_a_pass_that_breaks_the_graph_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for how in ({"verify": True}, {}):
        monkeypatch.setenv("JITGRAPH_VERIFY", "0" if how else "1")
        with pytest.raises(GraphError) as caught:
            run(parse(TEXT), TARGET, (drop_first,), **how)
        message = str(caught.value)
        assert message.startswith("the pass drop_first broke the graph: operand 0 of neg is not defined here")
        assert message.index("--- before") < message.index("= neg(%x)") < message.index("--- after")
    monkeypatch.setenv("JITGRAPH_VERIFY", "0")
    run(parse(TEXT), TARGET, (drop_first,))


def test_log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("JITGRAPH_LOG", "passes")
    run(parse(TEXT), TARGET)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0].removeprefix("[passes] ") for line in lines] == list(PASSES)
    monkeypatch.setenv("JITGRAPH_LOG", "graph")
    run(parse(TEXT), TARGET, ())
    assert capsys.readouterr().err.startswith("[graph] before the passes\ngraph @f(%x: f32[n])")
    monkeypatch.setenv("JITGRAPH_LOG", "")
    run(parse(TEXT), TARGET)
    assert capsys.readouterr().err == ""


def test_target_keeps_composites() -> None:
    kept = run(parse(TEXT), TARGET.with_opaque_composites("relu"), (PASSES["decompose"],))
    assert [node.op.name for node in kept.nodes] == ["neg", "neg", "relu"]
    inlined = run(parse(TEXT), TARGET, (PASSES["decompose"],))
    assert "relu" not in [node.op.name for node in inlined.nodes]


def test_locations_survive() -> None:
    graph = parse(TEXT, file="a.jgir")
    after = run(graph, TARGET, (PASSES["decompose"],))
    lines = {node.location.line for node in after.nodes if node.location}
    assert lines == {3, 4}  # what relu consists of stands at its line; model.py:3 is the first neg's own
    assert str(after.nodes[0].location) == "model.py:3"


def test_fast_math_only_where_allowed() -> None:
    text = "graph(%x: f32[n]) -> f32[n] {%0: f32[n] = exp(%x) %1: f32[n] = log(%0) return %1}"
    assert len(list(run(parse(text), TARGET, (PASSES["simplify"],)).walk())) == 2
    assert len(run(parse(text), replace(TARGET, fastmath=True)).nodes) == 0


def test_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.jgir"
    file.write_text(TEXT)
    assert opt.main([str(file), "-p", "simplify,dce", "--target", "x86-64-v3"]) == 0
    assert capsys.readouterr().out == "graph @f(%x: f32[n]) -> f32[n] {\n  %0: f32[n] = relu(%x)\n  return %0\n}\n"
    assert opt.main([str(file), "--target", "x86-64-v3"]) == 0
    assert parse(capsys.readouterr().out) == parse(TEXT)
    assert opt.main([str(file), "-p", "all", "--target", "x86-64-v3"]) == 0
    assert "relu" not in capsys.readouterr().out


def test_tool_reports_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.jgir"
    file.write_text(TEXT.replace("neg(%0)", "neg(%x, %x)"))
    assert opt.main([str(file), "--target", "x86-64-v3"]) == 1
    assert "f.jgir:3" in capsys.readouterr().err
    file.write_text(TEXT)
    assert opt.main([str(file), "-p", "cse,polish"]) == 1
    assert "there is no pass called 'polish'" in capsys.readouterr().err
    assert opt.main([str(tmp_path / "absent")]) == 1
    assert "absent cannot be read: No such file" in capsys.readouterr().err
    file.write_bytes(b"\xff\xfe")
    assert opt.main([str(file)]) == 1
    assert "f.jgir is no text" in capsys.readouterr().err


def test_the_pipeline_names_each_pass_once() -> None:
    assert len(PASSES) == len(PIPELINE)


def test_the_page_shows_the_pipeline_in_order() -> None:
    diagram = (ROOT / "docs" / "architecture" / "passes.md").read_text().split("```")[1]
    lines = re.findall(r"^   [|v] (\w+(?:, \w+)*)", diagram, re.MULTILINE)
    shown = [name for names in lines for name in names.split(", ")]
    assert shown == list(PASSES), "docs/architecture/passes.md shows other passes than PIPELINE has"


def test_the_collector_waits_for_all_compilations_and_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(compilation, "_compiled", lambda *_: seen.append(gc.isenabled()))
    gc.enable()
    compilation.compiled(None, Target.named("x86-64-v3"), (), None)  # type: ignore[arg-type]
    assert (seen, gc.isenabled()) == ([False], True)
    with shared.PAUSED.inside():
        with shared.PAUSED.inside():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        compilation.compiled(None, Target.named("x86-64-v3"), (), None)  # type: ignore[arg-type]
        assert not gc.isenabled()
    finally:
        gc.enable()
