"""``jg.set_num_threads``: another pool from the next call on, while calls of other threads go on."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
import jitgraph.torch as torch
from jitgraph.runtime import loader


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = jg.get_num_threads()
    yield
    jg.set_num_threads(before)


def _function() -> tuple[Any, Any]:
    x = jg.asarray(np.random.default_rng(0).standard_normal((512, 2048), np.float32))
    return jg.trace(lambda x: (jg.tanh(x) * 2 + x).sum(1)), x


def _waiting() -> int:
    """Threads of the process's pool."""
    pool = loader.process_runtime._pool
    return 0 if pool is None else sum(thread.is_alive() for thread in pool._threads)


def test_each_number_of_threads_gives_the_same_bits() -> None:
    function, x = _function()
    expected = function(x).numpy().tobytes()
    for count in (1, 3, 2, 1, 5):
        jg.set_num_threads(count)
        assert jg.get_num_threads() == torch.get_num_threads() == count
        assert function(x).numpy().tobytes() == expected
        assert _waiting() == count - 1


def test_calls_of_other_threads_go_on() -> None:
    function, x = _function()
    expected = function(x).numpy().tobytes()
    stop, wrong = threading.Event(), []

    def call() -> None:
        while not stop.is_set():
            if function(x).numpy().tobytes() != expected:
                wrong.append(1)

    callers = [threading.Thread(target=call) for _ in range(2)]
    for caller in callers:
        caller.start()
    for count in [1, 2, 4] * 5:
        jg.set_num_threads(count)
        function(x)
    stop.set()
    for caller in callers:
        caller.join()
    assert not wrong


def test_the_threads_of_an_old_pool_end() -> None:
    function, x = _function()
    jg.set_num_threads(4)
    function(x)
    pool = loader.process_runtime._pool
    assert pool is not None
    jg.set_num_threads(1)
    for thread in pool._threads:
        thread.join(timeout=10)
        assert not thread.is_alive()


def test_a_forked_child_keeps_the_number() -> None:
    function, x = _function()
    jg.set_num_threads(2)
    expected = function(x).numpy().tobytes()
    child = os.fork()
    if not child:
        same = jg.get_num_threads() == 2 and function(x).numpy().tobytes() == expected
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("count", [0, -1, 4097, 1.5, "2", True, None])
def test_what_is_no_number_of_threads(count: Any) -> None:
    with pytest.raises(jg.ArgumentError, match="not a number of threads"):
        jg.set_num_threads(count)
    assert jg.get_num_threads() >= 1
