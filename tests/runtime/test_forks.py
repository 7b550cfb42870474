"""A child forked at any moment of what other threads trace, compile and run works, and nothing in it is half made."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime import forks
from jitgraph.tracing.call import invocation

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
LIMIT = 40.0  # seconds for one child, on a busy machine


def forked(action: Callable[[], None]) -> int:
    """The process of a child that runs ``action``; its exit status says whether that succeeded."""
    child = os.fork()
    if child:
        return child
    try:
        action()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def status_of(child: int) -> str:
    """How a child ended."""
    assert child > 0, "a signal to -1 would end every process"
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return f"exit {os.waitstatus_to_exitcode(status)}"
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "hangs"


def distinct(number: int) -> Any:
    """A traced function that no other shares code with."""

    def polynomial(x: Any) -> Any:
        for power in range(1 + number % 3):
            x = x * (number + power + 0.5) + jg.tanh(x)
        return (x * x).sum() + x.mean()

    return jg.trace(polynomial)


def works(number: int) -> None:
    """Trace, compile and run, with gradients, in this thread and in others."""
    x = jg.asarray(np.linspace(0, 1, 8, dtype=np.float32))

    def once(which: int) -> None:
        f = distinct(which)
        expected = f.__wrapped__(x)
        np.testing.assert_allclose(f(x).numpy(), expected.numpy(), rtol=1e-4)

    once(number)
    y = jg.asarray(np.linspace(0, 1, 8, dtype=np.float32), requires_grad=True)
    distinct(number + 1)(y).backward()
    assert y.grad is not None
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(once, (number + 2, number)))


@pytest.fixture
def busy() -> Iterator[threading.Event]:
    """A thread that traces, compiles and runs one distinct function after another."""
    stop = threading.Event()
    failures = []

    def work() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                x = jg.asarray(np.ones(16, np.float32), requires_grad=True)
                distinct(number)(x).backward()
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield stop
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_child_forked_at_any_moment_of_another_threads_compilation(busy: threading.Event) -> None:
    ends = []
    for number in range(24):
        time.sleep(0.003 + 0.0007 * (number % 11))
        ends.append(status_of(forked(lambda number=number: works(1000 + 10 * number))))  # type: ignore[misc]
        assert ends[-1] == "exit 0", ends


def test_children_of_multiprocessing(busy: threading.Event) -> None:
    context = multiprocessing.get_context("fork")
    for number in range(4):
        time.sleep(0.005)
        child = context.Process(target=works, args=(5000 + 10 * number,))
        child.start()
        child.join(LIMIT)
        assert child.exitcode == 0


class _State:
    turns = 0


@pytest.mark.filterwarnings("ignore:each call of counted is recorded anew")
def test_a_child_forked_while_another_thread_records() -> None:
    """The same function, its lock held by a thread that is gone, with state that the recording had changed."""
    state, weight = _State(), jg.asarray(np.ones(3, np.float32))
    reached, leave = threading.Lock(), threading.Lock()  # plain ones, which keep no lists that a trace would see change
    reached.acquire()
    leave.acquire()
    parent = os.getpid()

    def counted(x: Any) -> Any:
        state.turns += 1
        weight.requires_grad = True
        if os.getpid() == parent and threading.current_thread() is not threading.main_thread():
            reached.release()
            leave.acquire(timeout=LIMIT)
        return x * weight * 2

    traced = jg.trace(counted)
    x = jg.asarray(np.ones(3, np.float32))
    recording = threading.Thread(target=traced, args=(x,))

    def child() -> None:
        assert state.turns == 0
        assert not weight.requires_grad
        assert gc.isenabled()
        step = jg.trace(lambda x: x * weight * 2)
        traced.cache_clear()  # takes the lock
        np.testing.assert_array_equal(step(x).numpy(), [2, 2, 2])

    recording.start()
    try:
        assert reached.acquire(timeout=LIMIT)
        assert status_of(forked(child)) == "exit 0"
    finally:
        leave.release()
        recording.join()
    assert gc.isenabled()


@pytest.mark.filterwarnings("ignore:each call of forking is recorded anew:RuntimeWarning")
def test_a_child_forked_by_the_thread_that_records() -> None:
    """It goes on with the recording: what it holds stays held, in both processes."""

    children = []

    def forking(x: Any) -> Any:
        children.append(os.fork())
        return x + 1

    parent = os.getpid()
    try:
        jg.trace(forking)(jg.ones(3))
    except BaseException:
        if os.getpid() == parent:
            raise
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    if os.getpid() != parent:
        os._exit(0 if gc.isenabled() else 1)
    assert status_of(children[0]) == "exit 0"
    assert gc.isenabled()


def test_a_tensor_that_another_thread_updates_is_whole_or_refused_in_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fork waits for the update; where that takes too long, reading the tensor raises, and nothing hangs."""
    monkeypatch.setattr(forks, "PATIENCE", 0.2)
    state = jg.asarray(np.zeros(1 << 20, np.float32))
    start, leave = threading.Event(), threading.Event()

    call = invocation.InPlaceCall(1)

    def update() -> None:
        with call.lock:
            call.begin([state], [state._value], [0])
            start.set()
            leave.wait(LIMIT)
            call.end([state])

    def child() -> None:
        with pytest.raises(jg.JitgraphError, match="when the process forked"):
            state.numpy()
        np.testing.assert_array_equal(jg.trace(lambda x: x + 1)(jg.zeros(2)).numpy(), [1, 1])

    thread = threading.Thread(target=update)
    thread.start()
    try:
        assert start.wait(LIMIT)
        assert status_of(forked(child)) == "exit 0"
    finally:
        leave.set()
        thread.join()
    assert status_of(forked(lambda: np.testing.assert_array_equal(state.numpy(), np.zeros(1 << 20)))) == "exit 0"


@contextmanager
def taken_by_another_thread(lock: Any) -> Iterator[None]:
    taken, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            over.wait(2 * LIMIT)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        yield
    finally:
        over.set()
        thread.join()


def shares_memory() -> None:
    memory = SharedMemory(create=True, size=8)
    memory.close()
    memory.unlink()


@pytest.mark.parametrize("of", ["shared memory", "numpy.random"])
def test_locks_of_libraries_that_workers_use_are_free_in_a_child(of: str) -> None:
    shares_memory()  # starts the process that notes blocks
    assert jg.data.DataLoader is not None
    lock: Any = resource_tracker._resource_tracker._lock  # type: ignore[attr-defined]
    action: Callable[[], None] = shares_memory
    if of == "numpy.random":
        lock, action = np.random.get_bit_generator().lock, lambda: np.random.seed(1)
    with taken_by_another_thread(lock):
        assert status_of(forked(action)) == "exit 0"


def imported_in_a_thread(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> threading.Thread:
    """A thread that is in the middle of importing a new module."""
    (folder / f"{name}.py").write_text(f"import sys; sys.{name}.set()\n{text}")
    monkeypatch.syspath_prepend(folder)
    begun = threading.Event()
    monkeypatch.setattr(sys, name, begun, raising=False)
    thread = threading.Thread(target=importlib.import_module, args=(name,))
    thread.start()
    assert begun.wait(LIMIT)
    return thread


def test_no_fork_finds_a_module_half_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "imported_slowly"
    thread = imported_in_a_thread(name, "import time; time.sleep(0.3)\nresult = 7\n", tmp_path, monkeypatch)

    def imports() -> None:
        assert importlib.import_module(name).result == 7

    assert status_of(forked(imports)) == "exit 0"
    thread.join()


def test_an_import_that_does_not_end_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that runs as the import of its module forks from other threads, too."""
    over = threading.Event()
    monkeypatch.setattr(sys, "over", over, raising=False)
    thread = imported_in_a_thread("imported_for_ever", f"sys.over.wait({LIMIT})\n", tmp_path, monkeypatch)
    try:
        times = []
        for _ in range(2):
            begun = time.monotonic()
            assert status_of(forked(lambda: None)) == "exit 0"
            times.append(time.monotonic() - begun)
        assert times[1] < times[0] and times[0] >= forks.PATIENCE_FOR_IMPORTS > times[1]
    finally:
        over.set()
        thread.join()
