"""The page of a compiled call stands alone, is well formed and shows what the plan says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import jitgraph as jg
from tests.browser import CHROMIUM, run_in_page


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


def long_line_step() -> Any:
    """A training step with more state than a line can show, and a line that is longer than a narrow window."""
    model = jg.nn.Sequential(*[jg.nn.Linear(8, 8) for _ in range(8)])
    optimizer = jg.optim.Adam(model.parameters())

    def step(x: Any) -> Any:
        loss = (
            jg.square(model(x) * 2.0 + 1.0).sum() + jg.square(model(x) * 3.0 + 1.0).sum()
        )  # as long as it can be here
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return jg.explain(jg.trace(step), jg.ones((4, 8)))


def test_kernels_stand_under_their_lines_with_names_for_what_they_use() -> None:
    page = long_line_step().html()
    check(page)
    kernels = page[page.index("<h2>Kernels") : page.index("<h2>Memory")]
    assert "<code>optimizer.step()</code>" in kernels, "the line itself, not its number alone"
    assert "input model_0_weight" in kernels and "new model.0.weight" in kernels and "result 0" in kernels
    assert "<i>inputs</i>" in page and "<i>results</i>" in page
    assert re.search(
        r"<title>t\d+: \d+ bytes at \d+, steps \d+ to \d+; \w+, [^<]*test_explain_html.py:\d+</title>", page
    )


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
def test_a_browser_shows_the_page_folded_and_open_in_a_narrow_window(tmp_path: Path) -> None:
    told, console = run_in_page(
        long_line_step().html(),
        """(() => {
            const page = document.querySelector('.jitgraph');
            const [open, close] = document.querySelectorAll('button');
            const count = () => document.querySelectorAll('details[open]').length;
            const seen = [count()];
            document.body.style.width = '400px';
            open.click();
            seen.push(count() == document.querySelectorAll('details').length, page.scrollWidth, page.clientWidth);
            close.click();
            return [...seen, count(), getComputedStyle(page).backgroundColor];
        })()""",
        tmp_path,
    )
    assert console == []
    assert told == "0,true,400,400,0,rgb(255, 255, 255)"


def test_a_loop_stands_in_the_fold_of_its_line() -> None:
    graph = jg.trace(lambda x: jg.scan(lambda c, v: (c + v, c), x[0] * 0, x)).lower(jg.ones(5)).graph
    page = graph._repr_html_()
    check(page)
    folds = re.findall(r"<details>.*?</details>", page, re.DOTALL)
    assert "graph @" in "".join(folds)


class Tower(jg.nn.Module):
    """Modules as attributes, in a list, called twice, and one that is made in the call."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = jg.nn.ModuleList([jg.nn.Sequential(jg.nn.Linear(4, 4), jg.nn.ReLU()) for _ in range(2)])
        self.head = jg.nn.Linear(4, 1)
        self.head.register_forward_pre_hook(lambda module, given: (given[0] * 2,))

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x) + 1
        return jg.nn.Tanh()(self.head(self.blocks[0](x)))


def paths(graph: Any) -> dict[tuple[str, ...], set[str]]:
    """The ops of each module."""
    results: dict[tuple[str, ...], set[str]] = {}
    for node in graph.nodes:
        results.setdefault(node.location.modules if node.location else (), set()).add(node.op.name)
    return results


def check_paths(graph: Any) -> None:
    result = paths(graph)
    assert {"linear"} <= result["Tower", "blocks.0", "0"] and {"linear"} <= result["Tower", "blocks.1", "0"]
    assert {"relu"} <= result["Tower", "blocks.1", "1"] and {"add"} <= result["Tower",]
    assert {"mul", "linear"} <= result["Tower", "head"] and {"tanh"} <= result["Tower", "Tanh"]
    assert "square" in result[()]


def test_ops_know_the_modules_that_they_are_of() -> None:
    tower = Tower()
    x = jg.ones((2, 4))
    traced = jg.trace(lambda x: jg.square(tower(x)))
    check_paths(traced.lower(x).graph)
    page = jg.explain(traced, x).html()
    check(page)
    assert page.index("<b>Tower</b>") < page.index("<b>blocks.0</b>") < page.index("<b>blocks.1</b>")
    assert "<b>head</b>" in page and page.count("<b>Tower</b>") == 3, "in both graphs, and of the kernels"
    plain = jg.explain(jg.trace(network), x, jg.ones((4, 4))).html()
    assert "<b>" not in plain


def test_kernels_of_gradients_stand_in_their_modules() -> None:
    tower, x = Tower(), jg.ones((2, 4))

    def step(x: Any) -> Any:
        tower(x).sum().backward()
        return tower.head.weight.grad

    stages = jg.trace(step).lower(x).stages
    modules = {launch.location.modules for launch in stages.schedule.steps if launch.location is not None}
    assert {("Tower", "head"), ("Tower", "blocks.1", "0")} <= modules


def test_a_kept_trace_knows_the_modules(tmp_path: Path) -> None:
    program = """
import jitgraph as jg

class Tower(jg.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = jg.nn.ModuleList([jg.nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x):
        return self.blocks[1](self.blocks[0](x)) * 2

tower = Tower()
traced = jg.trace(tower)
traced(jg.ones((2, 4)))
print(sorted({node.location.modules for node in traced.plans[0].graph.nodes}), traced.cache_info().traces)
"""
    environment = {**os.environ, "JITGRAPH_CACHE_DIR": str(tmp_path)}
    (tmp_path / "program.py").write_text(program)
    runs = [
        subprocess.run(
            [sys.executable, str(tmp_path / "program.py")], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert runs == [f"[('Tower',), ('Tower', 'blocks.0'), ('Tower', 'blocks.1')] {kept}\n" for kept in (0, 1)]


def test_names_are_found_without_code_of_the_users() -> None:
    class Guarded(jg.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = jg.nn.Linear(4, 4)
            self.is_made = True

        def __getattribute__(self, name: str) -> Any:
            result = super().__getattribute__(name)
            assert name != "__dict__" or not result.get("is_made")
            return result

        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = None  # type: ignore[assignment]

        def forward(self, x: Any) -> Any:
            return self.inner(x) * 2

    module = Guarded()
    graph = jg.trace(lambda x: module(x)).lower(jg.ones(4)).graph
    assert {("Guarded",), ("Guarded", "inner")} <= set(paths(graph))
