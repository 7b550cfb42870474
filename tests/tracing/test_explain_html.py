"""The page of a compiled call stands alone, is well formed and shows what the plan says."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import jitgraph as jg


class Nesting(HTMLParser):
    """Collects what is open, and fails where an end tag closes something else."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check(page: str) -> None:
    parser = Nesting()
    parser.feed(page)
    parser.close()
    assert not parser.open
    assert not re.search(r"(?:src|href)=|@import|url\(|<script", page)


def network(x: Any, w: Any) -> Any:
    hidden = jg.tanh(x @ w)  # < & "
    return jg.softmax(hidden @ w, axis=-1).sum(axis=0)


def test_the_page_has_graph_kernels_and_memory() -> None:
    report = jg.explain(jg.trace(network), jg.ones((4, 8)), jg.ones((8, 8)))
    page = report.html()
    check(page)
    assert page.startswith("<!DOCTYPE html>")
    assert "hidden = jg.tanh(x @ w)  # &lt; &amp; &quot;" in page
    schedule = report.lowered.stages.schedule
    boxes = re.findall(r"<title>(\w+): (\d+) bytes at (\d+), steps", page)
    assert {(name, int(at)) for name, _, at in boxes} == set(schedule.plan.offsets.items())
    assert len(boxes) >= 1
    assert page.count("<summary>") > len(boxes)
    check(report._repr_html_())


def test_named_sizes_and_no_temporaries() -> None:
    double = jg.trace(lambda x: x * 2)
    assert "There are no temporaries." in jg.explain(double, jg.ones(3)).html()
    named = jg.trace(network, dynamic_shapes={"x": {0: "rows"}})
    page = jg.explain(named, jg.ones((4, 8)), jg.ones((8, 8))).html()
    check(page)
    assert "for rows = 4" in page


def test_functions_and_graphs_show_themselves() -> None:
    function = jg.trace(network)
    assert "misses=0" in function._repr_html_()
    function(jg.ones((2, 8)), jg.ones((8, 8)))
    for shown in (function._repr_html_(), function.lower(jg.ones((2, 8)), jg.ones((8, 8))).graph._repr_html_()):
        check(shown)
        assert shown.count("<details>") == 2  # two lines of the function


def test_a_loop_stands_in_the_fold_of_its_line() -> None:
    graph = jg.trace(lambda x: jg.scan(lambda c, v: (c + v, c), x[0] * 0, x)).lower(jg.ones(5)).graph
    page = graph._repr_html_()
    check(page)
    folds = re.findall(r"<details>.*?</details>", page, re.DOTALL)
    assert "graph @" in "".join(folds)
