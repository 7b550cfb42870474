"""Memory of results and arenas: what is kept for later has a limit, the rest goes back, and nobody's is given twice."""

from __future__ import annotations

import gc
import os
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.runtime.loader.entry import MOST_ARENA
from jitgraph.runtime.loader.memory import Allocator
from tests.graphs import needs_native

MIB = 1 << 20


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def filled(allocator: Allocator, size: int) -> Any:
    array = allocator.empty((size,), np.dtype(np.uint8), size)
    array[:] = 1
    return array


def test_large_blocks_are_kept_up_to_the_limit() -> None:
    allocator = Allocator(limit=10 * MIB)
    held = [filled(allocator, 2 * MIB) for _ in range(9)]
    assert allocator.cached_bytes() == 0
    held.clear()
    assert allocator.cached_bytes() == 10 * MIB


def test_what_goes_back_is_no_longer_resident() -> None:
    allocator = Allocator(limit=0)
    before = resident()
    held = [filled(allocator, size * MIB) for size in (1, 3, 8, 20)]
    assert resident() - before > 31 * MIB
    held.clear()
    held.append(filled(allocator, MIB))
    del held
    assert allocator.cached_bytes() <= 2 * MIB and resident() - before < 4 * MIB


def test_sizes_asked_for_longest_ago_go_first() -> None:
    allocator = Allocator(limit=24 * MIB)
    addresses = {}
    for size in (4, 8, 10, 4):
        addresses[size] = filled(allocator, size * MIB).ctypes.data
    filled(allocator, 6 * MIB)  # 28 MiB: the block of 8 goes
    assert allocator.cached_bytes() == 20 * MIB
    assert [kind.size // MIB for kind in allocator._large if kind.free] == [4, 10, 6]
    assert filled(allocator, 4 * MIB).ctypes.data == addresses[4]


def test_the_last_size_keeps_two_blocks_whatever_the_limit() -> None:
    allocator = Allocator(limit=MIB)
    for _ in range(3):
        held = [filled(allocator, 16 * MIB) for _ in range(3)]
        held.clear()
        assert allocator.cached_bytes() == 32 * MIB


@pytest.mark.parametrize("size", [64, 4096, 65 * 1024, 900 * 1024])
def test_small_blocks_keep_a_mebibyte_of_each_size(size: int) -> None:
    allocator = Allocator()
    held = [filled(allocator, size) for _ in range(3 * MIB // size + 3)]
    held.clear()
    (kind,) = allocator._classes.values()
    assert kind.size >= size and 2 <= len(kind.free) <= max(2, MIB // kind.size)


def test_no_two_threads_get_the_same_memory() -> None:
    allocator = Allocator(limit=4 * MIB)
    wrong: list[int] = []

    def work(number: int) -> None:
        chance = random.Random(number)
        held: list[Any] = []
        for _ in range(300):
            size = chance.choice((64, 1000, MIB, 2 * MIB, 3 * MIB))
            array = allocator.empty((size,), np.dtype(np.uint8), size)
            array[::500] = number
            held = [*held[-4:], array]
            wrong.extend(number for array in held if not (array[::500] == number).all())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    filled(allocator, 2 * MIB)
    assert not wrong and allocator.cached_bytes() <= 4 * MIB


@needs_native
def test_memory_stays_level_over_calls_of_varying_sizes() -> None:
    sizes = {"x": {0: "n"}}
    rows = jg.trace(lambda x: jg.softmax(x * 2, axis=1).sum(axis=0), dynamic_shapes=sizes)
    both = jg.trace(lambda x: (x + 1, jg.sort(x, axis=0)), dynamic_shapes=sizes)
    base = np.ones((6000, 64), np.float32)
    chance = random.Random(0)

    def calls(count: int) -> None:
        for _ in range(count):
            part = base[: chance.randrange(1, len(base))]
            rows(part)
            both(part)
        gc.collect()

    calls(150)
    before = resident()
    calls(300)  # their results take 700 MiB
    assert resident() - before < 6 * MIB
    assert rows.cache_info().currsize == both.cache_info().currsize == 1


@needs_native
def test_large_arenas_serve_one_function_after_another() -> None:
    functions = [jg.trace(lambda x, n=n: jg.sort(jg.sort(x, axis=0) + n, axis=0)) for n in range(4)]
    x = jg.asarray(np.ones((2 * MIB,), np.float32))
    arenas = []
    for n, function in enumerate(functions):
        function(x, n)
        entry = function._specialisations[0].forward.entry
        arenas.append(entry.plan((x.shape,)).arena_bytes)
        assert entry._free and all(record.capacity <= MOST_ARENA for record in entry._free)
    assert min(arenas) > 2 * MOST_ARENA
    small = jg.trace(lambda x: jg.sort(x + 1, axis=0))
    small(jg.ones(1000))
    (record,) = small._specialisations[0].forward.entry._free
    assert 0 < record.capacity <= MOST_ARENA  # it waits for the next call
