"""``with jg.explain() as run:`` tells what compiled in the block, at which call and why, and what to change."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import disk_cache, loader
from jitgraph.runtime.compile_events import WATCHERS
from jitgraph.tracing.report import run as run_module
from jitgraph.tracing.report.run import RunReport
from tests.tracing.test_explain_html import check

needs_native = pytest.mark.skipif(not loader.cpu_levels(), reason="no native code here")


@pytest.fixture
def own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache on disk."""
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    yield


def events_of(run: RunReport, kind: str = "call") -> list[Any]:
    return [event for event in run.events if event.kind == kind]


def test_each_compilation_says_when_at_which_call_and_why() -> None:
    @jg.trace
    def step(x: Any, n: int) -> Any:
        return (x * n).sum()

    step(jg.ones((4, 8)), 2)  # before the block: not counted
    with jg.explain() as run:
        for _ in range(10):
            step(jg.ones((4, 8)), 2)
        step(jg.ones((4, 8)), 3)
        run.mark("sizes now")
        for _ in range(5):
            step(jg.ones((4, 8)), 4)
        step(jg.ones((6, 8)), 4)
        step(jg.ones((7, 8)), 5)
    first, second = events_of(run)
    assert (first.call, first.calls_between) == (11, 10)
    assert (second.call, second.calls_between) == (17, 5)
    assert first.cause.source == "n" and first.cause.text == "n is 3, not 2"
    assert second.cause.source == "x" and "size 6 on axis 0, not 4" in second.cause.text
    assert first.promoted == ("n",) and second.promoted == ("x.shape[0]",)
    assert first.line.file == __file__ and first.function == "step"
    assert 0 <= first.second < run.marks[0].second < second.second < run.seconds
    (summary,) = run.functions
    assert (summary.name, summary.calls, summary.compilations) == ("step", 18, 2)
    assert summary.defined_at is not None and summary.defined_at.file == __file__
    shown = str(run)
    assert "18 calls of 1 traced function; 2 compilations" in shown
    assert "from now on x.shape[0] may vary" in shown and "-- sizes now" in shown


@needs_native
def test_stages_and_the_origin_of_code(own_cache: None) -> None:
    def program(x: Any) -> Any:
        return jg.tanh(x * 3 + 1).sum(axis=0)

    with jg.explain() as run:
        jg.trace(program)(jg.ones((3, 5)))
        jg.trace(program)(jg.ones((3, 5)))
        jg.trace(lambda x: jg.tanh(x * 3 + 1).sum(axis=0))(jg.ones((3, 5)))
    compiled, stored, other = events_of(run)
    assert compiled.origin == "compiled"
    assert {"recording", "passes", "lowering", "LLVM", "other"} == set(compiled.stages)
    assert sum(compiled.stages.values()) == pytest.approx(1e3 * compiled.seconds)
    assert stored.origin == "trace on disk" and "LLVM" not in stored.stages
    assert other.origin in ("compiled", "compiled before", "code on disk")
    assert disk_cache.current() is not None and not any("turned off" in line for line in run.advice)


@needs_native
def test_gradients_eager_ops_and_failures_are_compilations_too() -> None:
    weights = jg.ones((3,)).requires_grad_()

    @jg.trace
    def forward(x: Any) -> Any:
        return (jg.sin(weights) * x).sum()

    @jg.trace
    def fails(x: Any) -> Any:
        return x.item()

    @jg.trace
    def watched(x: Any) -> Any:
        return x + 1

    with jg.explain() as run:
        forward(jg.ones((3,))).backward()
        with pytest.raises(jg.TraceError):
            fails(jg.ones(()))
        with jg.detect_anomaly():
            watched(jg.ones(2))
    (gradient,) = events_of(run, "gradient")
    assert gradient.function == "forward" and gradient.seconds > 0
    (failure,) = events_of(run, "failure")
    assert failure.function == "fails" and "item()" in failure.cause.text
    by_name = {each.name: each for each in run.functions}
    assert by_name["forward"].gradients == 1
    assert by_name["fails"].failures == 1 and by_name["fails"].compilations == 0
    assert by_name["watched"].eager_calls == 1
    advice = " ".join(run.advice)
    assert "fails: 1 call could not be compiled" in advice and "watched: 1 call ran as plain Python" in advice


def test_calls_past_python_are_counted() -> None:
    @jg.trace
    def double(x: Any) -> Any:
        return x * 2

    x = jg.ones(3)
    for _ in range(100):
        double(x)
    with jg.explain() as run:
        for _ in range(100):
            double(x)
    (summary,) = run.functions
    assert summary.calls == 100 and summary.compilations == 0
    assert not run.events and "nothing compiled" in str(run)


# --- advice -----------------------------------------------------------------------------------------------------------


def pinned() -> None:
    f = jg.trace(lambda x, n: x * float(np.arange(n).sum()))
    for n in range(2, 6):
        f(jg.ones(3), n)


def strings() -> None:
    f = jg.trace(lambda x, mode: x * 2 if mode == "a" else x)
    for mode in "abcde":
        f(jg.ones(3), mode)


def structures() -> None:
    f = jg.trace(lambda xs: sum(xs))
    for count in range(1, 6):
        f([jg.ones(3)] * count)


def objects() -> None:
    f = jg.trace(lambda x, settings: x * settings.rate)
    for _ in range(5):
        f(jg.ones(3), type("Settings", (SimpleNamespace,), {})(rate=2))


def definitions() -> None:
    for _ in range(4):
        jg.trace(lambda x: x * 2 - 1)(jg.ones(3))


def single_use() -> None:
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
    f = jg.trace(lambda x: (numbers.put(1), x * 2)[1])
    with pytest.warns(RuntimeWarning, match="recorded anew"):
        for _ in range(3):
            f(jg.ones(3))


def dropped() -> None:
    f = jg.trace(lambda x, mode: x * len(mode))
    with pytest.warns(RuntimeWarning, match="more than 8 kinds"):
        for mode in "abcdefghij":
            f(jg.ones(3), mode)


def ranks() -> None:
    f = jg.trace(lambda x: x.sum())
    for rank in range(1, 5):
        f(jg.ones((2,) * rank))


@pytest.mark.parametrize(
    ("program", "advice"),
    [
        (pinned, "needs the value itself: pass it as a tensor"),
        (strings, "took 5 values ('b', 'c', 'd', 'e'), each of which is compiled by itself"),
        (structures, "another structure each time"),
        (objects, "settings"),
        (definitions, "call jg.trace once, outside of the loop"),
        (single_use, "3 recordings served one call each"),
        (dropped, "the code of 2 was dropped"),
        (ranks, "x differed each time (3 compilations"),
    ],
)
def test_advice_names_what_varies_and_the_way_out(program: Callable[[], None], advice: str) -> None:
    with jg.explain() as run:
        program()
    assert any(advice in line for line in run.advice), run.advice
    check(run.html())


def test_sizes_that_got_a_name_are_advised_as_an_option_that_works() -> None:
    def program(x: Any, y: Any) -> Any:
        return (x * 2).sum() + y.sum()

    plain = jg.trace(program)
    with jg.explain() as run:
        for size in (3, 4, 5):
            plain(jg.ones((size, 2)), jg.ones((2, size)))
    (line,) = [line for line in run.advice if "dynamic_shapes" in line]
    named = jg.trace(program, dynamic_shapes=eval(line.rpartition("dynamic_shapes=")[2]))
    with jg.explain() as again:
        for size in (3, 4, 5):
            named(jg.ones((size, 2)), jg.ones((2, size)))
    assert len(events_of(again)) == 1 and not again.advice


def test_a_run_that_compiles_little_has_no_advice() -> None:
    f = jg.trace(lambda x: x * 2)
    with jg.explain() as run:
        f(jg.ones(3))
    assert run.advice == []


# --- the report -------------------------------------------------------------------------------------------------------


def test_the_page_and_the_data_tell_all() -> None:
    @jg.trace
    def f(x: Any, mode: str) -> Any:
        return x * 2 if mode == "<&>" else x

    with jg.explain() as run:
        f(jg.ones(3), "<&>")
        run.mark("<epoch> & 'more'")
        f(jg.ones(3), "b")
    page = run.html()
    check(page)
    check(run._repr_html_())
    assert page.startswith("<!DOCTYPE html>") and "&lt;epoch&gt;" in page and "<epoch>" not in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<g><title>") == 2
    data = json.loads(run.json())
    assert [event["reason"] for event in data["compilations"]] == ["the first call", "mode is 'b', not '<&>'"]
    assert data["functions"][0]["calls"] == 2 and data["marks"][0]["name"] == "<epoch> & 'more'"
    assert data["samples"][0]["resident"] > 0 and data["samples"][-1]["calls"] == 2
    assert max(map(len, str(run).splitlines())) <= 100


def test_a_report_can_be_read_while_the_block_runs() -> None:
    f = jg.trace(lambda x: x + 2)
    with jg.explain() as run:
        f(jg.ones(3))
        assert "1 call of 1 traced function" in str(run)
        f(jg.ones(3))
        assert json.loads(run.json())["functions"][0]["calls"] == 2
        check(run.html())


def test_many_compilations_and_samples_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "_MOST_LISTED", 3)
    monkeypatch.setattr(run_module, "_MOST_SAMPLES", 5)
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
    f = jg.trace(lambda x: (numbers.put(1), x * 2)[1])
    with jg.explain() as run, pytest.warns(RuntimeWarning, match="recorded anew"):
        for call in range(10):
            f(jg.ones(3))
            run.mark(str(call))
    assert [event.call for event in run.events] == [1, 2, 3, 8, 9, 10]
    assert run.omitted == 4 and run.functions[0].compilations == 10
    assert len(run.samples) <= 6 and run.samples[0].second < 0.1
    assert "4 more are counted" in run.html()


def test_all_threads_are_watched() -> None:
    f = jg.trace(lambda x: x * 5)
    with jg.explain() as run:
        threads = [threading.Thread(target=lambda n=n: f(jg.ones(n + 1))) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert run.functions[0].calls == 3 and len(events_of(run)) in (2, 3)


def test_runs_may_be_nested_and_end_with_the_block() -> None:
    f = jg.trace(lambda x: x * 7)
    with jg.explain() as outer:
        with pytest.raises(ZeroDivisionError), jg.explain() as inner:
            f(jg.ones(3))
            1 / 0  # noqa: B018
        f(jg.ones((3, 3)))
    assert not WATCHERS and not any(t.name == "jitgraph-explain" for t in threading.enumerate())
    assert (len(events_of(inner)), len(events_of(outer))) == (1, 2)
    assert inner.error == "ZeroDivisionError: division by zero" and "ended by ZeroDivisionError" in str(inner)
    f(jg.ones((3, 3, 3)))
    assert len(events_of(outer)) == 2


def test_a_report_that_watched_nothing_is_empty() -> None:
    f = jg.trace(lambda x: x * 9)
    f(jg.ones(3))
    run = jg.explain()
    assert run.functions == [] and run.advice == [] and str(run).startswith("0 us, 0 calls")
    with run:
        pass
    assert run.functions == [] and "%" not in str(run)
    check(run.html())


def test_what_is_no_block_is_refused() -> None:
    with jg.explain() as run:
        pass
    with pytest.raises(jg.JitgraphError, match="a report is of one block"):
        run.__enter__()

    @jg.trace
    def inside(x: Any) -> Any:
        with jg.explain():
            return x * 2

    with pytest.raises(jg.TraceError, match="watched from inside of a traced function"):
        inside(jg.ones(3))
    with pytest.raises(jg.JitgraphError, match="a function before its arguments"):
        jg.explain(None, jg.ones(3))  # type: ignore[call-overload]
