"""The allocator: blocks that serve again in the order of their stream, pieces, faults, threads, and what is left."""

from __future__ import annotations

import gc
import random
import threading

import numpy as np
import pytest

from jitgraph.errors import CudaError, OutOfMemoryError
from jitgraph.runtime.cuda import buffers, memory
from jitgraph.runtime.cuda.buffers import CudaBuffer
from jitgraph_testing.simulator.calls import codes
from tests.runtime.cuda.machines import N, axpy, down, machine, up

ONES = np.ones(N, np.float32)
MIB = 1 << 20


def test_memory_given_back_serves_again() -> None:
    with machine() as here:
        first = buffers.allocate(here.device, 1000)
        address = first.address
        del first
        again = buffers.allocate(here.device, 1000)
        assert again.address == address and here.calls("cuMemAlloc_v2") == 1


def test_sizes_and_segments() -> None:
    assert [memory.rounded(size) for size in (0, 1, 512, 513)] == [512, 512, 512, 1024]
    assert [memory.segment_size(size) // MIB for size in (512, MIB, MIB + 512, 10 * MIB, 11 * MIB)] == [
        2,
        2,
        20,
        10,
        12,
    ]


def test_small_blocks_share_a_segment_and_become_one_again() -> None:
    with machine() as here:
        held = [buffers.allocate(here.device, 512) for _ in range(2 * MIB // 512)]
        assert len({buffer.address for buffer in held}) == len(held) and here.calls("cuMemAlloc_v2") == 1
        random.Random(1).shuffle(held)
        held.clear()
        full = buffers.allocate(here.device, MIB)
        rest = buffers.allocate(here.device, MIB)
        assert abs(full.address - rest.address) == MIB and here.calls("cuMemAlloc_v2") == 1


def test_large_blocks_are_not_cut_into_crumbs() -> None:
    with machine() as here:
        large = buffers.allocate(here.device, 19 * MIB + 512 * 1024)
        assert here.device.memory.statistics().allocated == 20 * MIB
        del large


def test_statistics() -> None:
    with machine() as here:
        stay = buffers.allocate(here.device, 600)
        gone = buffers.allocate(here.device, 3 * MIB)
        del gone
        result = here.device.memory.statistics()
        assert (result.allocated, result.most_allocated) == (1024, 1024 + 3 * MIB)
        assert (result.reserved, result.blocks, result.segments, result.allocations) == (22 * MIB, 1, 2, 2)
        here.device.memory.reset_most()
        assert here.device.memory.statistics().most_allocated == 1024
        here.device.memory.empty_cache()
        result = here.device.memory.statistics()
        assert (result.reserved, result.most_reserved, result.segments) == (2 * MIB, 22 * MIB, 1)
        assert here.fake.live_bytes() == 2 * MIB
        text = memory.summary(here.device.context, result)
        assert "memory of cuda:0" in text and "1.00 KiB" in text and "2.00 MiB" in text
        del stay


def test_out_of_memory_gives_back_what_nobody_uses_and_tries_again() -> None:
    with machine(memory=30 * MIB) as here:
        buffers.allocate(here.device, 12 * MIB)
        kept = buffers.allocate(here.device, 14 * MIB)
        assert here.device.memory.statistics().retries == 0
        other = buffers.allocate(here.device, 16 * MIB)  # there is room once the first block is given back
        assert here.device.memory.statistics().retries == 1
        with pytest.raises(OutOfMemoryError) as actual:
            buffers.allocate(here.device, 40 * MIB)
        assert "cuda:0 has no 40.00 MiB left: of 30.00 MiB 0 bytes are free" in str(actual.value)
        assert "this process has 30.00 MiB in tensors" in str(actual.value)
        assert "jg.cuda.memory_summary()" in str(actual.value)
        del kept, other
        assert buffers.allocate(here.device, 28 * MIB).size == 28 * MIB


def test_a_planted_failure_to_allocate_is_survived() -> None:
    with machine() as here:
        here.fake.fail("cuMemAlloc_v2", code=codes.OUT_OF_MEMORY)
        buffer = buffers.allocate(here.device, 100)
        assert here.device.memory.statistics().retries == 1 and buffer.address
        here.fake.fail("cuMemAlloc_v2", code=codes.INVALID_VALUE)
        with pytest.raises(CudaError, match="INVALID_VALUE"):
            buffers.allocate(here.device, 50 * MIB)
        assert here.device.memory.statistics().allocated == 512


def test_a_block_that_another_stream_uses_waits_for_it() -> None:
    with machine() as here:
        context, x = here.device.context, up(ONES)
        buffer = up(2 * ONES)
        address, side = buffer.address, context.take_stream()
        target = buffers.allocate(here.device, N * 4)
        context.enter().copy_on_device(target.written_on(side), buffer.read_on(side), N * 4, side)
        del buffer
        other = up(7 * ONES)  # which would land in the block before the copy has read it
        assert other.address != address
        np.testing.assert_array_equal(down(target, ONES), 2 * ONES)
        del other
        again = [buffers.allocate(here.device, N * 4) for _ in range(2)]
        assert address in [actual.address for actual in again]
        del x


def test_a_block_of_one_stream_serves_no_other() -> None:
    with machine() as here:
        context = here.device.context
        address = buffers.allocate(here.device, 512).address
        context.stream = context.take_stream()
        other = buffers.allocate(here.device, 512).address
        assert not address <= other < address + 2 * MIB, "it lies in memory of the first stream"
        context.stream = 0
        assert buffers.allocate(here.device, 512).address == address


@pytest.mark.parametrize("seed", range(6))
def test_random_work_on_several_streams_is_in_order(seed: int) -> None:
    """Buffers come and go while copies and kernels are late; each holds what was written to it last."""
    draw = random.Random(seed)
    with machine(seed=seed) as here:
        context, like = here.device.context, np.empty(N, np.float32)
        streams = [0, *[context.take_stream() for _ in range(3)]]
        held: list[tuple[CudaBuffer, float]] = []
        for step in range(300):
            context.stream = stream = draw.choice(streams)
            kind = draw.random()
            if kind < 0.4 or len(held) < 2:
                held.append((up(np.full(N, step, np.float32)), step))
            elif kind < 0.7:
                source, number = draw.choice(held)
                target, before = held.pop(draw.randrange(len(held)))
                if target is not source:
                    axpy(here.device, source.read_on(stream), target.written_on(stream), 1.0)
                    before += number
                held.append((target, before))
            elif kind < 0.85:
                source, number = draw.choice(held)
                held.append((buffers.copied(source, here.device), number))
            else:
                buffer, number = held.pop(draw.randrange(len(held)))
                np.testing.assert_array_equal(down(buffer, like), np.float32(number))
        for buffer, number in held:
            np.testing.assert_array_equal(down(buffer, like), np.float32(number))
        held.clear()
        del source, target, buffer
        assert here.device.memory.statistics().allocated == 0


def test_ten_thousand_rounds_leave_nothing() -> None:
    with machine() as here:
        for size in range(10_000):
            buffers.allocate(here.device, 1 + size % 3000)
        assert here.calls("cuMemAlloc_v2") == 1
        result = here.device.memory.statistics()
        assert (result.allocated, result.allocations) == (0, 10_000)


def test_finalisers_may_run_anywhere() -> None:
    """A block that is given back inside of an allocation waits for the next one."""
    with machine() as here:
        device = here.device

        class Node:
            def __init__(self) -> None:
                self.buffer, self.me = buffers.allocate(device, 700), self

        threshold = gc.get_threshold()
        gc.set_threshold(1)
        try:
            for _ in range(300):
                Node()
        finally:
            gc.set_threshold(*threshold)
        gc.collect()
        assert device.memory.statistics().allocated == 0


def test_threads_share_the_allocator() -> None:
    with machine() as here:
        wrong: list[object] = []

        def work(number: int) -> None:
            draw, mine = random.Random(number), np.full(N, number, np.float32)
            here.device.context.stream = here.device.context.take_stream() if number % 2 else 0
            held = []
            try:
                for _ in range(60):
                    held.append(up(mine))
                    if draw.random() < 0.6:
                        result = down(held.pop(draw.randrange(len(held))), mine)
                        if (result != number).any():
                            wrong.append(result)
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert here.device.memory.statistics().allocated == 0


@pytest.mark.parametrize("seed", [None, 3])
def test_copies_in_pieces(seed: int | None) -> None:
    """More than both pieces of pinned memory hold; what was given may change as soon as the copy has returned."""
    with machine(seed=seed) as here:
        numbers = np.arange(3 * (4 << 20) // 4 + 77, dtype=np.int32)
        inputs = numbers.copy()
        buffer = up(inputs)
        inputs[:] = -1
        np.testing.assert_array_equal(down(buffer, numbers), numbers)
        there = buffers.copied(buffer, here.devices.device(1))
        del buffer
        np.testing.assert_array_equal(down(there, numbers), numbers)
        del there


def test_nothing_at_all_is_copied() -> None:
    with machine():
        empty = np.empty((0, 3), np.float32)
        assert down(buffers.copied(up(empty), up(empty).device), empty).shape == (0, 3)


def test_what_another_library_was_shown_waits_for_the_device() -> None:
    """It reads on streams of which nobody knows here, also after it has given the memory back."""
    with machine() as here:
        context = here.device.context
        source = up(3 * ONES)
        unknown, target = context.take_stream(), buffers.allocate(here.device, N * 4)  # its work is done last
        address = source.address
        source.shown_to(0)
        context.synchronize()
        context.enter().copy_on_device(target.address, address, N * 4, unknown)
        del source
        other = up(8 * ONES)
        assert other.address == address
        context.synchronize()
        np.testing.assert_array_equal(down(target, ONES), 3 * ONES)
