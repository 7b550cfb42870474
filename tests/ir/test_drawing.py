"""Graphs as networkx has them and as DOT text: each node, each operand, regions within."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import networkx
import pytest

import jitgraph as jg
from jitgraph.ir import drawing

TEXT = """graph @f(%x: f32[n], %c: bool[]) -> f32[n], f32[n] {
  %0: f32[n] = add(%x, %x)
  %y: f32[n] = cond(%c, %0) [
    graph @then(%0: f32[n]) -> f32[n] {
      return %0
    }
    graph @otherwise(%0: f32[n]) -> f32[n] {
      %1: f32[n] = neg(%0)
      return %1
    }
  ]
  %2: f32[n] = softmax(%y) {axis=0}
  return %2, %x
}"""


def test_networkx_has_a_node_for_each_op_and_an_edge_for_each_operand() -> None:
    graph = jg.ir.parse(TEXT)
    drawn = graph.to_networkx()
    assert isinstance(drawn, networkx.MultiDiGraph) and networkx.is_directed_acyclic_graph(drawn)
    assert list(drawn) == ["%x", "%c", "%0", "%y", "%1", "return"]
    assert [kind for _, kind in drawn.nodes(data="kind")] == ["input", "input", "op", "op", "op", "return"]
    assert [op for _, op in drawn.nodes(data="op")] == [None, None, "add", "cond", "softmax", None]
    assert drawn.number_of_edges("%x", "%0") == 2
    assert sorted((s, e, d["operand"], d["output"], d["type"]) for s, e, d in drawn.edges(data=True)) == [
        ("%0", "%y", 1, 0, "f32[n]"),
        ("%1", "return", 0, 0, "f32[n]"),
        ("%c", "%y", 0, 0, "bool[]"),
        ("%x", "%0", 0, 0, "f32[n]"),
        ("%x", "%0", 1, 0, "f32[n]"),
        ("%x", "return", 1, 0, "f32[n]"),
        ("%y", "%1", 0, 0, "f32[n]"),
    ]
    assert drawn.nodes["%1"]["attrs"] == {"axis": "0"} and drawn.nodes["%y"]["types"] == ["f32[n]"]
    then, otherwise = drawn.nodes["%y"]["regions"]
    assert (then.graph["name"], list(otherwise)) == ("then", ["%0", "%1", "return"])
    assert drawn.nodes["%1"]["regions"] == []  # what softmax is made of is known
    assert len(graph.to_networkx(full=True).nodes["%1"]["regions"]) == 1


def test_nodes_and_edges_are_those_of_any_graph() -> None:
    """Several outputs, and ops without any, included."""

    @jg.trace
    def f(x: jg.Tensor) -> jg.Tensor:
        values, indices = jg.topk(x, 2)
        jg.debug.print("{}", values)
        return values + indices

    graph = f.lower(jg.zeros(5)).graph
    drawn = graph.to_networkx()
    assert len(drawn) == len(graph.inputs) + len(graph.nodes) + 1
    assert drawn.number_of_edges() == sum(len(node.inputs) for node in graph.nodes) + len(graph.outputs)
    assert {d["output"] for _, _, d in drawn.edges(data=True)} >= {0, 1}
    assert all(drawn.nodes[key]["location"] for key, op in drawn.nodes(data="op") if op == "topk")


def test_dot_has_the_same_nodes_and_edges_and_a_frame_for_each_region() -> None:
    graph = jg.ir.parse(TEXT)
    text = graph.to_dot()
    assert text.count("subgraph") == 2 and text.count("{") == text.count("}")
    assert len(re.findall(r" -> .*label=", text)) == 7 + 1 + 2  # of the whole, and of the two branches
    assert text.count('"%x" -> "%0"') == 2
    assert graph.to_dot(full=True).count("subgraph") == 3


def test_names_cannot_leave_their_quotes() -> None:
    assert drawing._quoted('a"]; x -> y; \\') == '"a\\"]; x -> y; \\\\"'
    assert drawing._quoted("a\nb") == '"a\\nb"'


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is needed")
def test_graphviz_takes_the_text() -> None:
    subprocess.run(["dot", "-Tsvg"], input=jg.ir.parse(TEXT).to_dot(), text=True, check=True, capture_output=True)


def test_without_networkx_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ModuleNotFoundError, match="pip install networkx"):
        jg.ir.parse(TEXT).to_networkx()
