"""Memory and references after many native calls, and what the collector and other threads may do meanwhile."""

from __future__ import annotations

import contextvars
import gc
import os
import sys
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph import torch
from jitgraph.eager.dispatch.table import NativeTable
from jitgraph.ir import context
from tests.eager.dispatch.chains import tables_of
from tests.graphs import needs_native

pytestmark = needs_native
ROUNDS = int(os.environ.get("DISPATCH_ROUNDS", "20000"))


@pytest.fixture(autouse=True)
def dispatching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_DISPATCH", "1")


class Counter:
    def __init__(self) -> None:
        self.total = jg.zeros(16)
        self.seen: list[Any] = []

    @jg.trace
    def add(self, x: Any) -> Any:
        self.total += x
        return self.total * 2

    @jg.trace
    def both(self, x: Any, scale: float = 2.0) -> Any:
        return {"sum": x + self.total, "scaled": x * scale}


def resident() -> int:
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def paths() -> dict[str, Any]:
    x, y, z = (jg.asarray(np.full(16, k, np.float32)) for k in range(3))
    arrays = [t.numpy().copy() for t in (x, y, z)]
    chain: Any = jg.trace(lambda x, y, z: x * y + z)
    large: Any = jg.trace(lambda x: x[:, None] * jg.ones((1, 5000)))
    parameter = jg.nn.Parameter(jg.ones(16))
    taped: Any = jg.trace(lambda x: (x * parameter).sum())
    counter = Counter()
    return {
        "tensors": lambda: chain(x, y, z),
        "arrays": lambda: chain(*arrays),
        "shown": lambda: chain(x, y, z).numpy(),
        "state in place": lambda: counter.add(x),
        "made by Python": lambda: counter.both(x, scale=3.0),
        "large results": lambda: large(x),
        "on the tape": lambda: taped(x).backward(),
    }


@pytest.mark.parametrize("name", list(paths()))
def test_references_and_memory_stay_level(name: str) -> None:
    run = paths()[name]
    function_hits = _hits()
    rounds = ROUNDS // 20 if name in ("on the tape", "large results") else ROUNDS
    for _ in range(1000):
        run()
    gc.collect()
    before = len(gc.get_objects()), sys.getrefcount(None), sys.getrefcount(jg.Tensor), resident()
    for _ in range(rounds):
        run()
    gc.collect()
    after = len(gc.get_objects()), sys.getrefcount(None), sys.getrefcount(jg.Tensor), resident()
    assert after[0] - before[0] < 100  # there may be fewer: what other tests left goes, too
    assert abs(after[1] - before[1]) < 100
    assert abs(after[2] - before[2]) < 100
    assert after[3] - before[3] < 16 << 20  # other threads and the heap's own order take some, whatever the rounds
    assert _hits() > function_hits + rounds  # and the dispatcher served them


def _hits() -> int:
    from jitgraph.eager.dispatch import start

    return 0 if start._START.runtime is None else int(start._START.runtime.clock)


def test_the_collector_may_run_in_the_middle() -> None:
    """A finaliser shows the state, gives it another value, and clears the cache, while a call makes its results."""
    counter, x = Counter(), jg.ones(16)
    shown: list[np.ndarray[Any, Any]] = []

    class Meddler:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            shown.append(counter.total.numpy())
            if len(shown) % 7 == 0:
                counter.total = jg.zeros(16)
            if len(shown) % 11 == 0:
                Counter.add.cache_clear()

    for _ in range(5):
        counter.add(x)
    threshold, undisturbed = gc.get_threshold(), 0
    gc.set_threshold(1)
    try:
        kept = []
        for number in range(300):
            Meddler()
            before = len(shown) // 7
            result = counter.add(x)
            kept.append(result)
            now = counter.total.numpy()
            if len(shown) // 7 == before:  # no finaliser gave the state another value in between
                undisturbed += 1
                assert (result.numpy() == now * 2).all()
            del now
            if number % 50 == 0:
                kept.clear()
    finally:
        gc.set_threshold(*threshold)
    assert undisturbed > 100 and len(shown) > 100
    for array in shown:
        assert len(set(array.tolist())) == 1  # no array that was shown changed in part


def test_weak_references_and_attributes_of_results() -> None:
    double: Any = jg.trace(lambda x: x * 2)
    x = jg.ones(3)
    for _ in range(5):
        double(x)
    gone = []
    for number in range(600):  # more than are kept to be used again
        result = double(x)
        result.number = number
        assert not hasattr(double(x), "number")
        gone.append(weakref.ref(result))
    del result
    assert all(reference() is None for reference in gone)
    actual = double(x)
    actual.itself = actual  # a cycle
    reference = weakref.ref(actual)
    del actual
    gc.collect()
    assert reference() is None


def test_a_long_chain_of_gradients_ends() -> None:
    double: Any = jg.trace(lambda x: x * 2)
    x = jg.ones(3)
    for _ in range(5):
        double(x)
    chain = double(x)
    first = weakref.ref(chain)
    for _ in range(200_000):
        link = double(x)
        link._grad = chain
        chain = link
    del link, chain
    assert first() is None


def test_handles_that_end_in_several_threads_at_once() -> None:
    """The depth at which handles end is right afterwards: else those further in would wait for ever."""
    double: Any = jg.trace(lambda x: x * 2)
    x = jg.ones(3)
    for _ in range(5):
        double(x)

    class Slow:
        def __init__(self) -> None:
            self.entered, self.left = threading.Event(), threading.Event()

        def __del__(self) -> None:
            self.entered.set()
            self.left.wait(10)

    def end(slow: list[Slow]) -> None:
        handle = double(x)
        handle.slow = slow.pop()

    events, threads = [], []
    for _ in range(2):
        slow = [Slow()]
        events.append((slow[0].entered, slow[0].left))
        threads.append(threading.Thread(target=end, args=(slow,)))
        threads[-1].start()
        assert events[-1][0].wait(10)
    for (_, left), thread in zip(events, threads, strict=True):  # the first to come is the first to go
        left.set()
        thread.join()
    test_a_long_chain_of_gradients_ends()


def test_threads_call_one_state_and_lose_nothing() -> None:
    counter, x = Counter(), jg.ones(16)
    for _ in range(5):
        counter.add(x)

    def work() -> None:
        for _ in range(2000):
            counter.add(x)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.total.numpy().tolist() == [8005.0] * 16


def test_modes_that_are_as_before_are_the_context_of_every_thread() -> None:
    """Calls past Python compare contexts as objects: those of other threads would go by Python, for good."""
    before = context.OUTERMOST[0]

    def changed() -> None:
        with jg.no_grad(), jg.enable_grad():
            assert context.current() is before
        torch.set_grad_enabled(False)
        assert context.current() is not before
        torch.set_grad_enabled(True)
        assert context.current() is before
        leaf = jg.ones(2, requires_grad=True)
        leaf.register_hook(lambda gradient: gradient)
        assert context.current() is context.OUTERMOST[0] is before
        torch.set_default_dtype(torch.float64)
        torch.set_default_dtype(torch.float32)
        assert context.current() is context.OUTERMOST[0] is before

    contextvars.copy_context().run(changed)


def test_no_call_goes_by_a_chain_of_tables_that_is_half_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain that is a circle for a moment would hold a thread that calls then, and the interpreter, for good."""
    double: Any = jg.trace(lambda x: x + x)
    follow, changes = NativeTable.follow_with, []

    def checked(table: NativeTable, following: NativeTable | None) -> None:
        follow(table, following)
        changes.append(table)
        tables_of(double)

    monkeypatch.setattr(NativeTable, "follow_with", checked)
    operands = [jg.ones((n, 3), dtype=dtype) for n in (2, 3) for dtype in (np.float32, np.float64, np.int32)]
    for number, x in enumerate(operands):
        for _ in range(20):
            assert np.array_equal(double(x).numpy(), x.numpy() * 2)
        for known in operands[:number]:  # so that the order of use is another one
            assert np.array_equal(double(known).numpy(), known.numpy() * 2)
    assert len(changes) > len(operands)
