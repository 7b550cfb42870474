"""How many threads take part in a job, which are woken for it, and how long they stay awake after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest

from jitgraph.runtime.loader import pool
from tests.codegen.cpu.launches import Launches, memories
from tests.processes import in_child

LONG = 2_000_000  # turns of a chunk: about a millisecond
PAUSE = 0.02  # seconds between calls: many times longer than the pool's patience


@pytest.fixture
def made() -> Iterator[list[Launches]]:
    """Launches whose threads go home after the test."""
    all_made: list[Launches] = []
    yield all_made
    for launches in all_made:
        launches.runtime.close()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread has a processor of its own, as far as the pool knows."""
    monkeypatch.setattr(pool, "processor_time", lambda: 64.0)


def start(result: list[Launches], threads: int) -> Launches:
    """A pool whose threads are up and asleep."""
    launches = Launches(threads)
    result.append(launches)
    launches(1, 2, 0, 0)
    until(lambda: launches.state.sleepers == threads - 1)
    return launches


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.001)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_more_threads_take_part_than_the_call_allows(made: list[Launches], limit: int) -> None:
    all_awake = start(made, 6)
    limited = Launches(6, limit, all_awake.runtime)
    for turns, launches in ((0, 20), (1000, 20), (LONG // 20, 2), (LONG // 4, 1)):
        for _ in range(10):
            all_awake(10, 64, 1000, 0)
            for notes in limited(launches, 64, turns, 0):
                assert len(memories(notes[None])) <= limit


def test_a_launch_wakes_all_that_it_needs_though_it_wakes_but_two(made: list[Launches]) -> None:
    launches = start(made, 9)
    # Where others want the processor, a thread's turn may come only after the end of a short job.
    chunks = chain((100, 200, 400, 800), repeat(1600))
    until(lambda: len(memories(launches(1, next(chunks), LONG // 4, 0))) == 9)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("chunks", [2, 3, 16])
def test_a_small_job_after_a_pause_wakes_nobody(made: list[Launches], chunks: int) -> None:
    launches = start(made, 2)

    def alone() -> bool:
        time.sleep(PAUSE)
        until(lambda: launches.state.sleepers == 1)
        launches.state.wake_cost = 1 << 17  # less than what is noted of a wake that took long
        launches(1, chunks, 0, 0)
        return launches.state.wake_cost == 1 << 17  # a wake changes it

    until(alone, 5.0)  # not at once: a thread that loses its processor in the first chunk finds it long


@pytest.mark.usefixtures("patient")
def test_a_job_whose_first_chunk_is_long_wakes_others(made: list[Launches]) -> None:
    """Its estimate is small, as nothing is known of what a chunk costs."""
    launches = start(made, 2)

    def shared() -> bool:
        time.sleep(PAUSE)
        launches.state.wake_cost = 1 << 18
        return len(memories(launches(1, 5, LONG, 0))) == 2

    until(shared)


@pytest.mark.usefixtures("patient")
def test_workers_stay_awake_while_work_follows_work(made: list[Launches]) -> None:
    launches = start(made, 2)
    launches(50, 4, 1000, 20_000)  # one or two of these gaps may be long, where others want the processor
    assert launches.state.soon > 1
    assert 10_000 < launches.state.spin <= pool.PATIENCE
    until(lambda: launches.state.sleepers == 1)
    for _ in range(5):
        time.sleep(PAUSE)
        launches(1, 4, 1000, 0)
    assert launches.state.soon == launches.state.spin == 0


@pytest.mark.usefixtures("patient")
def test_a_small_job_that_others_are_likely_to_follow_wakes_workers(made: list[Launches]) -> None:
    launches = start(made, 2)

    def shared() -> bool:
        launches.state.wake_cost = 1 << 18
        return len(memories(launches(200, 3, 20_000, 1000))) == 2

    until(shared)


def test_threads_that_share_processors_sleep_at_once(made: list[Launches], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "processor_time", lambda: 1.5)
    launches = start(made, 2)
    launches(50, 4, 1000, 0)
    assert launches.state.patience == launches.state.soon == launches.state.spin == 0


@pytest.mark.usefixtures("patient")
def test_an_idle_process_uses_no_processor_time(made: list[Launches]) -> None:
    launches = start(made, 5)
    launches(300, 8, 10_000, 1000)
    until(lambda: launches.state.sleepers == 4)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.1


def test_each_chunk_runs_once_however_chunks_are_claimed(made: list[Launches]) -> None:
    launches = start(made, 4)
    for chunks in (2, 3, 5, 17, 1001):  # what an earlier launch noted is earlier than this one
        for row in launches(30, chunks, 50, 0):
            assert (row[2::3] >= row[0]).all() and (row[3::3] <= row[1]).all()


ONE_POOL = """
import threading
import numpy as np
import jitgraph as jg
x = np.ones((600, 600), np.float32)
for threads in (None, 1, 2, 3, 4, 2):
    f = jg.trace(lambda x: jg.tanh(x) @ x, threads=threads)
    assert np.array_equal(f(x).numpy(), f(x).numpy())
print(sum(thread.name.startswith("jitgraph-") for thread in threading.enumerate()))
"""


def test_one_pool_whatever_calls_are_limited_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_NUM_THREADS", "4")
    assert in_child(ONE_POOL, "-W", "error") == "3\n"
