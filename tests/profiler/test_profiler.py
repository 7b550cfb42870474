"""Profiles: what ran is counted with its lines, results keep their bits, and nothing stays switched on."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import JitgraphError, TraceError
from jitgraph.ir import context
from tests import scripted

X = np.random.default_rng(0).standard_normal((37, 19)).astype(np.float32)


def rows_of(profile: Any, kind: str) -> list[Any]:
    return [row for row in profile.rows() if row.kind == kind]


def line_of(function: Callable[..., Any], offset: int = 0) -> int:
    wrapped = getattr(function, "__wrapped__", function)
    return int(wrapped.__code__.co_firstlineno) + offset


@jg.trace
def chain(x: Any) -> Any:
    y = jg.tanh(x * 2)
    return y.sum(axis=0)


def test_kernels_are_counted_with_their_lines() -> None:
    expected = chain(X)
    with jg.profiler.profile() as p:
        for _ in range(3):
            np.testing.assert_array_equal(chain(X).numpy(), expected.numpy())
    kernels = rows_of(p, "kernel")
    assert kernels and all(row.runs == 3 for row in kernels)
    lines = {(Path(position.file).name, position.line) for row in kernels for position in row.lines}
    assert lines == {(Path(__file__).name, line_of(chain, offset)) for offset in (2, 3)}
    (call,) = rows_of(p, "call")
    assert call.name == "chain" and call.runs == 3
    assert sum(row.seconds for row in kernels) > 0 and p.seconds > sum(row.seconds for row in kernels)
    assert sum(row.bytes for row in kernels) == 3 * (X.nbytes + 19 * 4)
    assert all(row.limit is not None and row.limit > 0 for row in kernels)


def test_products_have_their_arithmetic_counted() -> None:
    product = jg.trace(lambda a, b: a @ b)
    a, b = np.ones((40, 50), np.float32), np.ones((50, 60), np.float32)
    product(a, b)
    with jg.profiler.profile() as p:
        product(a, b)
    assert sum(row.flops for row in rows_of(p, "kernel")) == 2 * 40 * 50 * 60


def test_a_row_of_a_table_is_not_the_whole_table() -> None:
    pick = jg.trace(lambda table, i: table[i])
    table, i = np.ones((100_000, 8), np.float32), np.array([3, 5])
    pick(table, i)
    with jg.profiler.profile() as p:
        pick(table, i)
    assert sum(row.bytes for row in rows_of(p, "kernel")) < 10_000


def _training() -> tuple[Any, list[Any]]:
    rng = np.random.default_rng(1)
    weights = [jg.asarray(rng.standard_normal(size).astype(np.float32)) for size in ((19, 8), (8, 3))]
    for w in weights:
        w.requires_grad_()
    optimizer = jg.optim.Adam(weights, lr=0.1)
    labels = jg.asarray(rng.integers(0, 3, 37))

    @jg.trace
    def step(x: Any) -> Any:
        hidden = jg.nn.functional.relu(x @ weights[0])
        loss = jg.nn.functional.cross_entropy(hidden @ weights[1], labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, weights


def test_a_training_step_has_the_bits_that_it_has_without() -> None:
    (step, weights), (other, others) = _training(), _training()
    losses = [step(X).item() for _ in range(6)]
    results = [other(X).item() for _ in range(2)]
    with jg.profiler.profile() as p:
        results += [other(X).item() for _ in range(2)]
    results += [other(X).item() for _ in range(2)]
    assert results == losses
    for mine, due in zip(others, weights, strict=True):
        assert mine.detach().numpy().tobytes() == due.detach().numpy().tobytes()
    assert other.cache_info().misses == 1, "a profile is no reason to record a function again"
    assert all(row.lines for row in rows_of(p, "kernel"))


collatz = jg.script(scripted.collatz)


def test_kernels_of_a_loop_count_each_turn() -> None:
    expected = collatz(jg.asarray(27)).item()
    with jg.profiler.profile() as p:
        assert collatz(jg.asarray(27)).item() == expected == 111
    assert max(row.runs for row in rows_of(p, "kernel")) >= 111


def test_named_sizes_and_gradients_on_the_tape() -> None:
    f = jg.trace(dynamic_shapes={"x": {0: "n"}})(lambda x: jg.exp(-x * x).sum())
    for rows in (3, 300):
        plain, timed = (jg.asarray(np.linspace(-1, 1, rows)).requires_grad_() for _ in range(2))
        f(plain).backward()
        with jg.profiler.profile() as p:
            f(timed).backward()
        assert plain.grad.numpy().tobytes() == timed.grad.numpy().tobytes()
        assert len(rows_of(p, "call")) == 2, "forward and backward"
        assert sum(row.bytes for row in rows_of(p, "kernel")) >= rows * 8


def test_python_called_by_compiled_code_is_timed() -> None:
    f = jg.trace(lambda x: jg.linalg.eigh(x + x.mT)[0] * 2)
    inputs = np.random.default_rng(2).standard_normal((12, 12))
    expected = f(inputs)
    with jg.profiler.profile() as p:
        np.testing.assert_array_equal(f(inputs).numpy(), expected.numpy())
    assert [row.name for row in rows_of(p, "kernel") if "(Python)" in row.name] == ["eigh (Python)"]


def test_eager_ops_are_counted_without_those_inside() -> None:
    x = jg.asarray(X)
    plain = [(x * 2 + 1), jg.tanh(x), x.sum(), x[3:5], x @ x.mT, jg.nn.functional.softmax(x, -1), x.mean(axis=1)]
    with jg.profiler.profile() as p:
        timed = [(x * 2 + 1), jg.tanh(x), x.sum(), x[3:5], x @ x.mT, jg.nn.functional.softmax(x, -1), x.mean(axis=1)]
    for mine, due in zip(timed, plain, strict=True):
        assert mine.numpy().tobytes() == due.numpy().tobytes()
    ops = {row.name: row for row in rows_of(p, "op")}
    assert {"mul", "add", "tanh", "reduce_sum", "softmax"} <= ops.keys() and {"dot", "matmul"} & ops.keys()
    assert all([Path(position.file) for position in row.lines] == [Path(__file__)] for row in ops.values())
    assert ops["tanh"].bytes == 2 * X.nbytes
    assert sum(row.seconds for row in ops.values()) < p.seconds


def test_recording_and_compiling_are_rows_of_their_own() -> None:
    f = jg.trace(lambda x: jg.cos(x) - 3.25)
    with jg.profiler.profile() as p:
        f(X)
    for kind in ("trace", "compile", "profiler"):
        assert sum(row.runs for row in rows_of(p, kind)) >= 1, kind
    with jg.profiler.profile() as p:
        f(X)
    assert not rows_of(p, "trace") and not rows_of(p, "compile")


def test_compiling_an_op_is_no_part_of_it() -> None:
    x = jg.asarray(np.linspace(0.0, 1.0, 7, dtype=np.float32)).requires_grad_()
    with jg.profiler.profile() as p:
        y = jg.special.erfinv(x * 0.5)
        y.sum().backward()
    compiled = {row.name: row.seconds for row in rows_of(p, "compile")}
    applied = {row.name: row.seconds for row in rows_of(p, "op")}
    assert "erfinv" in applied
    for name in compiled.keys() & applied.keys():
        assert applied[name] < compiled[name] + 1e-3, name


def test_nothing_stays_switched_on() -> None:
    before = context.current()
    f = jg.trace(lambda x: x + 1)
    with pytest.raises(ValueError, match="in the block"), jg.profiler.profile() as p:
        f(X)
        raise ValueError("in the block")
    assert context.current() is before and p.seconds > 0 and rows_of(p, "call")
    runs = sum(row.runs for row in p.rows())
    f(X), jg.tanh(jg.asarray(X))
    assert sum(row.runs for row in p.rows()) == runs
    (specialisation,) = f._specialisations
    assert specialisation.ambient is before, "what is recorded in a profile serves calls outside of it"


def test_modes_inside_and_around() -> None:
    x = jg.asarray(X).requires_grad_()
    with jg.no_grad(), jg.profiler.profile():
        assert not chain(x).requires_grad
    with jg.profiler.profile():
        with jg.no_grad():
            assert not chain(x).requires_grad
        assert chain(x).requires_grad
        batched = jg.vmap(lambda row: jg.tanh(row).sum())(jg.asarray(X))
    np.testing.assert_allclose(batched.numpy(), np.tanh(X).sum(axis=1), rtol=1e-5)


def test_an_error_in_compiled_code_is_told_and_the_call_counts() -> None:
    f = jg.trace(lambda x, i: x[i] + 1)
    f(X, np.array([3]))
    with jg.profiler.profile() as p, pytest.raises(IndexError, match="40"):
        f(X, np.array([40]))
    assert [row.runs for row in rows_of(p, "call")] == [1]


def test_what_is_refused() -> None:
    p = jg.profiler.profile()
    with p, pytest.raises(JitgraphError, match="running already"), jg.profiler.profile():
        pass
    with pytest.raises(JitgraphError, match="of one block"), p:
        pass
    with pytest.raises(JitgraphError, match="max_events=-1"):
        jg.profiler.profile(max_events=-1)
    with pytest.raises(JitgraphError, match="sorted by"):
        p.rows(sort_by="name")  # type: ignore[arg-type]

    @jg.trace
    def inside(x: Any) -> Any:
        with jg.profiler.profile():
            return x + 1

    with pytest.raises(TraceError, match="inside of a traced function"):
        inside(X)


def test_other_threads_have_no_part_in_it() -> None:
    results: list[Any] = []
    with jg.profiler.profile() as p:
        thread = threading.Thread(target=lambda: results.append(chain(X)))
        thread.start()
        thread.join()
    assert results and not rows_of(p, "call")


def test_threads_have_profiles_of_their_own() -> None:
    chain(X)
    counts: list[int] = []

    def work(calls: int) -> None:
        with jg.profiler.profile() as p:
            for _ in range(calls):
                chain(X)
        counts.append(rows_of(p, "call")[0].runs)

    threads = [threading.Thread(target=work, args=(calls,)) for calls in (10, 20, 30, 40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == [10, 20, 30, 40]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 warns of forks beside threads
def test_a_child_process_goes_on() -> None:
    chain(X)
    with jg.profiler.profile():
        expected = chain(X).numpy().tobytes()
        child = os.fork()
        if child == 0:
            os._exit(0 if chain(X).numpy().tobytes() == expected else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_without_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")
    f = jg.trace(lambda x: (x * x).sum())
    x = jg.asarray(X).requires_grad_()
    with jg.profiler.profile() as p:
        f(x).backward()
    assert {row.name for row in rows_of(p, "call")} >= {"gradient"} and len(rows_of(p, "call")) == 2


def test_a_trace_for_the_browser(tmp_path: Path) -> None:
    step, _ = _training()
    step(X)
    with jg.profiler.profile() as p:
        step(X), jg.tanh(jg.asarray(X)), collatz(jg.asarray(7))
        jg.trace(lambda x: x * 0.8125 - 0.4375)(X)  # which no other test compiles, so timed code is made for it
    p.export_chrome_trace(tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    events = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert {"call", "kernel", "op", "profiler"} <= {event["cat"] for event in events}
    assert all(event["dur"] >= 0 and event["ts"] >= 0 for event in events)
    for event in events:
        assert event["ts"] + event["dur"] <= 1e3 * document["otherData"]["milliseconds of the block"] + 1
    (call,) = (event for event in events if event["cat"] == "call" and event["name"] == "step")
    inside = [e for e in events if e["cat"] == "kernel" and "test_profiler" in e["args"].get("lines", "")]
    of_step = [e for e in inside if call["ts"] <= e["ts"] and e["ts"] + e["dur"] <= call["ts"] + call["dur"] + 0.1]
    assert len(of_step) > 3
    with pytest.raises(FileNotFoundError):
        p.export_chrome_trace(tmp_path / "nowhere" / "trace.json")


def test_events_are_limited_and_totals_are_not(tmp_path: Path) -> None:
    chain(X)
    with jg.profiler.profile(max_events=5) as p:
        for _ in range(20):
            chain(X)
    assert rows_of(p, "call")[0].runs == 20
    p.export_chrome_trace(tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    assert sum(event["ph"] == "X" for event in document["traceEvents"]) == 5
    assert document["otherData"]["events left out"] >= 15


def test_the_table() -> None:
    chain(X)
    with jg.profiler.profile() as p:
        chain(X)
        jg.tanh(jg.asarray(X))
    text = p.table()
    assert "of limit" in text.splitlines()[0] and "of limit" in str(p)
    assert "ms in all" in text and "limits of this machine" in text
    short = p.table(limit=1)
    assert "more rows" in short and len(short.splitlines()) < len(text.splitlines()) + 1
    with jg.profiler.profile() as empty:
        pass
    assert "Python and other" in empty.table()
