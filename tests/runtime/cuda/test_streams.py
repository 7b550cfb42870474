"""Streams and events: the current stream of a thread, what waits for what, contexts in threads and in children."""

from __future__ import annotations

import multiprocessing
import os
import threading

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import CudaError, DeviceError
from jitgraph.runtime.cuda import buffers
from jitgraph_testing.simulator.calls import codes
from tests.runtime.cuda.machines import N, axpy, down, machine, up
from tests.runtime.test_forks import forked, status_of

ONES = np.ones(N, np.float32)
FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def test_work_is_late_and_a_missing_wait_shows() -> None:
    """What the machine does here: without a wait, another stream sees memory as it was."""
    with machine() as here:
        context = here.device.context
        driver, side = context.enter(), context.take_stream()
        source, target = up(5 * ONES), up(ONES)
        context.synchronize()
        axpy(here.device, source.address, source.address, 1.0)  # on the default stream, and late
        driver.copy_on_device(target.address, source.address, N * 4, side)
        driver.synchronize_stream(side)
        np.testing.assert_array_equal(down(target, ONES), 5 * ONES)
        axpy(here.device, source.address, source.address, 1.0)
        driver.copy_on_device(target.address, source.read_on(side), N * 4, side)
        driver.synchronize_stream(side)
        np.testing.assert_array_equal(down(target, ONES), 20 * ONES)


def test_the_current_stream_is_the_threads_own() -> None:
    with machine():
        side = jg.cuda.Stream()
        results = []
        with jg.cuda.stream(side):
            assert jg.cuda.current_stream() == side != jg.cuda.default_stream()
            thread = threading.Thread(target=lambda: results.append(jg.cuda.current_stream()))
            thread.start()
            thread.join()
            assert results == [jg.cuda.default_stream()]
            with jg.cuda.stream(None):
                assert jg.cuda.current_stream() == side
        assert jg.cuda.current_stream() == jg.cuda.default_stream() and hash(side) == hash(side)
        assert side.device == "cuda:0" and "cuda:0" in repr(side)


def test_a_stream_of_another_device_brings_its_device_along() -> None:
    with machine():
        with jg.cuda.stream(jg.cuda.Stream("cuda:1")):
            assert jg.cuda.current_device() == 1 and jg.zeros(2, device="cuda").device == "cuda:1"
        assert jg.cuda.current_device() == 0


def test_events_order_streams() -> None:
    with machine() as here:
        first, second = jg.cuda.Stream(), jg.cuda.Stream()
        x = up(ONES)
        with jg.cuda.stream(first):
            axpy(here.device, x.address, x.written_on(first.cuda_stream), 1.0)
            event = first.record_event()
        assert not event.query() and not first.query()
        second.wait_event(event)
        with jg.cuda.stream(second):
            axpy(here.device, x.address, x.address, 2.0)  # after the event by what was asked above
        first.wait_stream(second)
        first.synchronize()
        assert event.query() and first.query() and second.query()
        event.synchronize()
        np.testing.assert_array_equal(down(x, ONES), 6 * ONES)


def test_events_measure_times() -> None:
    with machine() as here:
        start, end = jg.cuda.Event(enable_timing=True), jg.cuda.Event(enable_timing=True, blocking=True)
        assert start.query() and "no device yet" in repr(start)
        with pytest.raises(DeviceError, match="never recorded"):
            start.elapsed_time(end)
        x = up(ONES)
        start.record()
        axpy(here.device, x.address, x.address, 1.0)
        end.record()
        end.synchronize()
        assert start.elapsed_time(end) > 0 and "cuda:0" in repr(start)
        with pytest.raises(DeviceError, match=r"enable_timing=True"):
            start.elapsed_time(jg.cuda.current_stream().record_event())
        with pytest.raises(DeviceError, match="an event of cuda:0 cannot be recorded on cuda:1"):
            jg.cuda.Stream(1).record_event(start)
        jg.cuda.Event().wait()  # nothing to wait for
        jg.cuda.Event().synchronize()


def test_events_that_nobody_holds_are_destroyed() -> None:
    with machine() as here:
        for _ in range(100):
            jg.cuda.current_stream().record_event()
        assert here.calls("cuEventCreate") == 100 and here.calls("cuEventDestroy_v2") == 99


def test_there_are_32_streams_of_a_device() -> None:
    with machine() as here:
        results = [jg.cuda.Stream() for _ in range(70)]
        assert len({stream.cuda_stream for stream in results}) == here.calls("cuStreamCreate") == 32


def test_the_context_is_made_current_once_a_thread() -> None:
    with machine() as here:
        for _ in range(3):
            up(ONES)
        assert here.calls("cuCtxSetCurrent") == 1
        thread = threading.Thread(target=lambda: [up(ONES) for _ in range(3)])
        thread.start()
        thread.join()
        assert here.calls("cuCtxSetCurrent") == 2


def test_copies_between_devices_are_ordered() -> None:
    with machine(seed=1) as here:
        first, second = here.devices.device(0), here.devices.device(1)
        x = up(ONES, first)
        for _ in range(3):
            axpy(first, x.address, x.address, 1.0)
            y = buffers.copied(x, second)
            axpy(first, x.address, x.address, 1.0)  # which must come after the copy
        np.testing.assert_array_equal(down(y, ONES), 32 * ONES)
        np.testing.assert_array_equal(down(x, ONES), 64 * ONES)


def test_what_fails_between_two_streams_loses_no_event() -> None:
    with machine() as here:
        context = here.device.context
        here.fake.fail("cuEventRecord", code=codes.INVALID_HANDLE)
        with pytest.raises(CudaError, match="recording an event"):
            context.wait_for(context.take_stream(), 0)


def test_closed_devices_say_so() -> None:
    with machine() as here:
        side, x, context = jg.cuda.Stream(), up(ONES), here.device.context
    with pytest.raises(DeviceError, match="cuda:0 was closed"):
        side.synchronize()
    with pytest.raises(DeviceError, match="cuda:0 was closed"):
        down(x, ONES)
    del x
    context.close()  # once more is fine


@FORKS
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_is_refused_and_gives_nothing_back() -> None:
    with machine() as here:
        x, tensor = up(ONES), jg.ones(3, device="cuda")
        event = jg.cuda.current_stream().record_event()
        held = [up(ONES), jg.ones(3, device="cuda"), jg.cuda.current_stream().record_event()]
        freed = here.calls("cuMemFree_v2")

        def child() -> None:
            calls = len(here.fake.calls)
            assert not jg.cuda.is_available() and jg.cuda.device_count() == 0
            for refused in (
                lambda: tensor.cpu(),
                lambda: down(x, ONES),
                lambda: jg.zeros(2, device="cuda"),
                jg.cuda.synchronize,
                jg.cuda.empty_cache,
                event.synchronize,
            ):
                with pytest.raises(DeviceError, match=r"before this process was forked[\s\S]*spawn"):
                    refused()
            held.clear()
            assert len(here.fake.calls) == calls, "the child has called the driver"
            assert jg.ones(3).sum().item() == 3  # the CPU serves

        assert status_of(forked(child)) == "exit 0"
        assert here.calls("cuMemFree_v2") == freed
        np.testing.assert_array_equal(down(x, ONES), ONES)
        np.testing.assert_array_equal(tensor.cpu().numpy(), np.ones(3))


@FORKS
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_may_begin_where_its_parent_had_not() -> None:
    with machine() as here:

        def child() -> None:
            assert jg.ones(3, device="cuda").tolist() == [1, 1, 1]

        assert status_of(forked(child)) == "exit 0"
        assert not here.fake.calls


@FORKS
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_other_threads_allocate_leaves_no_lock_held() -> None:
    with machine() as here:
        stop = threading.Event()
        device = here.device

        def allocate() -> None:
            while not stop.is_set():
                buffers.allocate(device, 1000)

        threads = [threading.Thread(target=allocate) for _ in range(2)]
        for thread in threads:
            thread.start()

        def child() -> None:
            with pytest.raises(DeviceError, match="forked"):
                buffers.allocate(device, 50 << 20)
            with pytest.raises(DeviceError, match="forked"):
                device.memory.empty_cache()

        try:
            for _ in range(5):
                assert status_of(forked(child)) == "exit 0"
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def test_spawned_processes_begin_anew() -> None:
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_used_in_a_spawned_process)
    with machine():
        up(ONES)
        process.start()
        process.join(60)
    assert process.exitcode == 0


def _used_in_a_spawned_process() -> None:
    with machine():
        np.testing.assert_array_equal(down(up(ONES), ONES), ONES)
