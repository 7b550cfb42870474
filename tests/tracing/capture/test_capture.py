"""What capture sees of a function: accesses in bytecode, reads, writes, and sources of values that never repeat."""

from __future__ import annotations

import collections
import datetime
import gc
import heapq
import os
import random
import sys
import threading
import time
import types
import uuid
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import shared
from jitgraph.tracing.capture import events
from jitgraph.tracing.capture.capture import Capture
from jitgraph.tracing.capture.events import OWN
from jitgraph.tracing.capture.kinds import is_followed
from tests.processes import in_child


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_INTERPRET", "1")


BOX = types.SimpleNamespace(a=types.SimpleNamespace(b=3), items=[1, 2], table={"k": 1})
GENERATOR = np.random.default_rng(0)
ITERATOR = iter([1.0, 2.0, 3.0])


def test_long_jumps_and_many_names() -> None:
    """Instructions with EXTENDED_ARG are found at the offset where a tracer stops."""
    names = [f"name_{i}" for i in range(300)]
    source = "def f(x):\n" + "".join(f"    x = x + BOX.{name}\n" for name in names) + "    return x\n"
    namespace: dict[str, Any] = {"BOX": types.SimpleNamespace(**dict.fromkeys(names, 1))}
    exec(compile(source, __file__, "exec"), namespace)
    capture = Capture([namespace["f"]])
    assert capture.call(namespace["f"], 0) == 300
    assert {read.slot.text for read in capture.reads} == {
        *("BOX", "f.__code__"),
        *(f"BOX.{name}" for name in names),
    }


def test_reads_and_writes_of_a_call() -> None:
    box = types.SimpleNamespace(n=1, table={"k": 1})

    def f() -> int:
        box.n += 1
        box.new = 5
        box.table["k"] = 7
        return box.n

    capture = Capture([f])
    assert capture.call(f) == 2
    assert {read.slot.text: read.value for read in capture.reads}["box.n"] == 1
    effects = {write.text: (write.before, after) for write, after in capture.effects.assigned()}
    assert effects["box.n"] == (1, 2) and effects["box.table['k']"] == (1, 7) and effects["box.new"][1] == 5
    capture.effects.undo()
    assert vars(box) == {"n": 1, "table": {"k": 1}}


def test_an_exception_puts_the_tracer_back() -> None:
    before = sys.gettrace()
    with pytest.raises(ZeroDivisionError):
        Capture([]).call(lambda: 1 / 0)
    assert sys.gettrace() is before


class _Interrupted:
    """A module of which one function does what it does, and then a signal handler raises."""

    def __init__(self, module: types.ModuleType, name: str) -> None:
        self.module, self.name = module, name

    def __getattr__(self, name: str) -> Any:
        def interrupted(*args: Any) -> Any:
            getattr(self.module, name)(*args)
            raise KeyboardInterrupt

        return interrupted if name == self.name else getattr(self.module, name)


@pytest.mark.parametrize("name", ["isenabled", "disable", "enable", "gettrace", "settrace"])
def test_an_interrupt_at_the_edge_of_a_recording_leaves_nothing_behind(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector runs, and nothing listens to what the thread does next."""
    user, module = (shared, gc) if hasattr(gc, name) else (events, sys)
    before = sys.gettrace()
    monkeypatch.setattr(user, module.__name__, _Interrupted(module, name))
    try:
        with pytest.raises(KeyboardInterrupt):
            Capture([]).call(lambda: None)
        traced = sys.gettrace()
    finally:
        sys.settrace(before)
        monkeypatch.undo()
        enabled = gc.isenabled()
        gc.enable()
    assert traced is before and OWN.watched is None
    assert enabled and not shared.PAUSED._inside


LIMIT = 20.0  # seconds that one thread waits for another, on a busy machine


def test_another_thread_in_the_same_code_takes_no_read_away() -> None:
    """Python 3.13 ends the ``f_trace_opcodes`` of a frame whose code a thread without a trace function runs, too."""
    reached, leave = threading.Event(), threading.Event()

    def helper(first: bool) -> int:
        actual = BOX.a.b
        if first:
            reached.set()
            assert leave.wait(LIMIT)
        return int(actual + BOX.items[0])

    def other() -> None:
        assert reached.wait(LIMIT)
        helper(False)
        leave.set()

    capture = Capture([helper])
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(other)
        capture.call(helper, True)
        done.result()
    assert {"BOX.a.b", "BOX.items[0]"} <= {read.slot.text for read in capture.reads}


def test_a_generator_of_a_recording_goes_on_while_another_thread_records() -> None:
    """CPython 3.12.1 crashes where its frame still has ``f_trace_opcodes`` and its thread has no trace function."""
    reached, leave = threading.Event(), threading.Event()

    def numbers() -> Any:
        yield 1
        yield BOX.a.b

    def first() -> Any:
        result = numbers()
        assert next(result) == 1
        return result

    def waiting() -> None:
        reached.set()
        assert leave.wait(LIMIT)

    result = Capture([first]).call(first)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(Capture([waiting]).call, waiting)
        assert reached.wait(LIMIT)
        assert next(result) == BOX.a.b
        leave.set()
        done.result()


@pytest.mark.filterwarnings("ignore:each call of outer is recorded anew")  # it waits for a lock
def test_a_recording_waits_for_the_recording_of_another_thread() -> None:
    """No lock is held while the user's code runs, but that of the function itself."""
    inputs, done = jg.ones(2), threading.Event()
    inner = jg.trace(lambda x: x * BOX.a.b)

    def other() -> None:
        np.testing.assert_array_equal(inner(inputs).numpy(), [3, 3])
        done.set()

    @jg.trace
    def outer(x: Any) -> Any:
        threading.Thread(target=other).start()
        assert done.wait(LIMIT)
        return x + 1

    np.testing.assert_array_equal(outer(inputs).numpy(), [2, 2])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.11 has no sys.monitoring")
def test_a_recording_without_a_number_of_monitoring_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_numbers", [])
    monkeypatch.setattr(sys.monitoring, "get_tool", lambda number: "profiler")  # type: ignore[attr-defined, unused-ignore]
    with pytest.raises(jg.TraceError, match="no number left"):
        jg.trace(lambda x: x * 2)(jg.ones(2))


def test_libraries_are_not_followed() -> None:
    import jitgraph.nn.module
    import jitgraph.tensor.lifting

    assert is_followed(__file__) and is_followed(jitgraph.nn.module.__file__)
    assert (
        not is_followed(os.__file__)
        and not is_followed(np.__file__)
        and not is_followed(jitgraph.tensor.lifting.__file__)
    )


def test_functions_of_nn_are_not_followed_but_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    import jitgraph.nn.functional as F

    assert not is_followed(F.__file__)
    sizes, options, layer = [2], {"kernel_size": 2}, jg.nn.ReLU()
    x, image = jg.asarray([[[-1.0, 2.0], [3.0, -5.0]]]), jg.ones((1, 1, 8, 8))
    normed = jg.trace(lambda x: F.layer_norm(x, sizes))
    pooled = jg.trace(lambda x: F.avg_pool2d(x, **options))
    direct, inside = jg.trace(lambda x: F.relu(x)), jg.trace(lambda x: layer(x))
    for traced, argument in ((normed, x), (pooled, image), (direct, x), (inside, x)):
        traced(argument)
    sizes.insert(0, 2)
    options["kernel_size"] = 4
    monkeypatch.setattr(F, "relu", lambda x: x * 100)
    np.testing.assert_allclose(np.asarray(normed(x)), np.asarray(F.layer_norm(x, [2, 2])), rtol=1e-5)
    assert pooled(image).shape == (1, 1, 2, 2)
    np.testing.assert_array_equal(np.asarray(direct(x)), 100 * np.asarray(x))
    np.testing.assert_array_equal(np.asarray(inside(x)), np.asarray(layer(x)))


@pytest.mark.parametrize(
    ("use", "way"),
    [
        (lambda x: x * time.time(), "outside"),
        (lambda x: x * perf_counter(), "outside"),
        (lambda x: x * datetime.datetime.now().second, "outside"),
        (lambda x: x * random.random(), "jg.random"),
        (lambda x: x * np.random.rand(), "jg.random"),
        (lambda x: x * GENERATOR.normal(), "jg.random"),
        (lambda x: x * len(os.environ["HOME"]), "argument"),
        (lambda x: x * int(os.getenv("N", "1")), "argument"),
        (lambda x: x * float(input()), "argument"),
        (lambda x: x * (uuid.uuid4().int % 7), "argument"),
        (lambda x: x * next(ITERATOR), "argument"),
        (lambda x, numbers=ITERATOR: x * next(numbers), "argument"),
    ],
)
def test_values_that_never_repeat_are_refused(use: Any, way: str) -> None:
    with pytest.raises(jg.TraceError, match=way) as error:
        jg.trace(use)(jg.ones(2))
    assert "test_capture.py" in str(error.value)


def test_iterators_of_the_call_itself_are_free() -> None:
    @jg.trace
    def f(x: Any) -> Any:
        factors = iter([2.0, 3.0])

        def scaled() -> Any:
            return x * next(factors)

        return scaled() + scaled()

    assert [f(jg.ones(())).item() for _ in range(2)] == [5.0, 5.0]


def test_a_list_changed_by_a_function_that_is_not_followed_is_changed_at_each_call() -> None:
    mine, due = [3, 1, 2], [3, 1, 2]

    def heaped(x: Any, numbers: list[int]) -> Any:
        heapq.heapify(numbers)
        return x * numbers[0]

    traced = jg.trace(lambda x: heaped(x, mine))
    for start in ([3, 1, 2], [5, 4, 6], [3, 1, 2]):
        mine[:], due[:] = start, start
        assert traced(jg.ones(2)).tolist() == heaped(jg.ones(2), due).tolist()
        assert mine == due


def test_an_object_stored_anew_is_refused() -> None:
    box = types.SimpleNamespace(value=None)

    def f(x: Any) -> Any:
        box.value = types.SimpleNamespace(x=1)
        return x

    with pytest.raises(jg.TraceError, match="cannot make again"):
        jg.trace(f)(jg.ones(2))
    assert box.value is None


def test_what_cannot_be_guarded_is_listed_and_refused_when_strict() -> None:
    class Part:
        k = 2

    kept = Part()
    reference = weakref.ref(kept)

    def f(x: Any) -> Any:
        part: Any = reference()
        return x * part.k

    traced = jg.trace(f)
    with pytest.warns(RuntimeWarning, match=r"recorded anew[\s\S]*test_capture.py") as warned:
        assert traced(jg.ones(2))[0].item() == 2
        Part.k = 3
        assert traced(jg.ones(2))[0].item() == 3
    assert len(warned) == 1 and traced.cache_info() == (0, 2, 0)
    assert "not guarded" in jg.explain(f, jg.ones(2))
    with pytest.raises(jg.TraceError, match=r"cannot be guarded[\s\S]*test_capture.py"):
        jg.trace(f, strict=True)(jg.ones(2))


def world(tmp_path: Any) -> dict[str, Callable[[Any], Any]]:
    file = tmp_path / "number.txt"
    file.write_text("2")
    proxy, view = types.MappingProxyType({"k": 2}), memoryview(b"ab")

    def read(x: Any) -> Any:
        with open(file) as opened:
            return x * int(opened.read())

    return {
        "open": read,
        "Path": lambda x: x * int(Path(file).read_text()),
        "path": lambda x: x * int(file.read_text()),
        "exists": lambda x: x * os.path.exists(file),
        "cwd": lambda x: x * len(os.getcwd()),
        "listdir": lambda x: x * len(os.listdir(tmp_path)),
        "loadtxt": lambda x: x * float(np.loadtxt(file)),
        "id": lambda x: x * (id(x) % 7),
        "hash": lambda x: x * (hash(x) % 7),
        "proxy": lambda x: x * proxy["k"],
        "view": lambda x: x * view[0],
    }


WORLD = [
    "open",
    "Path",
    "path",
    "exists",
    "cwd",
    "listdir",
    "loadtxt",
    "id",
    "hash",
    "proxy",
    "view",
]


@pytest.mark.parametrize("name", WORLD)
def test_what_the_world_outside_says_is_asked_at_each_call(name: str, tmp_path: Any) -> None:
    f = world(tmp_path)[name]
    if name not in ("id", "hash"):
        traced = jg.trace(f)
        with pytest.warns(RuntimeWarning, match="recorded anew"):
            np.testing.assert_array_equal(traced(jg.ones(2)).numpy(), f(jg.ones(2)).numpy())
        (tmp_path / "number.txt").write_text("5")
        (tmp_path / "another").touch()
        np.testing.assert_array_equal(traced(jg.ones(2)).numpy(), f(jg.ones(2)).numpy())
    assert "not guarded" in jg.explain(f, jg.ones(2))
    with pytest.raises(jg.TraceError, match="cannot be guarded"):
        jg.trace(f, strict=True)(jg.ones(2))


def test_large_containers_are_guarded_by_their_length() -> None:
    many = list(range(100))

    def f(x: Any) -> Any:
        return x * sum(many)

    traced = jg.trace(f)
    traced(jg.ones(2))
    many.append(7)
    assert traced(jg.ones(2))[0].item() == sum(many)
    assert "101 elements" in jg.explain(f, jg.ones(2))


def test_a_module_may_load_inside_a_trace() -> None:
    code = (
        "import numpy as np, jitgraph as jg\n"
        "f = jg.trace(lambda x: jg.nn.functional.relu(x))\n"
        "assert f(np.array([-1.0, 2.0], 'f4')).tolist() == [0.0, 2.0]"
    )
    in_child(code)


def test_a_collection_is_no_part_of_a_traced_function() -> None:
    """Callbacks of the collector, such as profilers and test libraries install, read the clock."""
    collections: list[bool] = []

    def note(phase: str, info: dict[str, int]) -> None:
        collections.append(sys.gettrace() is not before)
        time.perf_counter()

    def f(x: jg.Tensor) -> jg.Tensor:
        for _ in range(10_000):
            cycle: list[Any] = []
            cycle.append(cycle)
        return x + 1

    before = sys.gettrace()
    gc.callbacks.append(note)
    try:
        assert jg.trace(f)(jg.ones(2)).tolist() == [2.0, 2.0]
        assert not any(collections)
        collections.clear()
        f(jg.ones(2))
        assert collections, "the function makes the collector run, or the test shows nothing"
    finally:
        gc.callbacks.remove(note)
    assert gc.isenabled()


def test_the_truth_of_a_library_object_is_guarded() -> None:
    box = types.SimpleNamespace(kept=collections.UserList([2, 3]))
    traced = jg.trace(lambda x: x * (1 if box.kept else 2))
    assert traced(jg.asarray([1.0])).tolist() == [1.0]
    box.kept.clear()
    assert traced(jg.asarray([1.0])).tolist() == [2.0]
