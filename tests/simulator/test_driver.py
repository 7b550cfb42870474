"""The driver's stand-in: codes, handles, late work, events, captured graphs, planted errors."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

from jitgraph.runtime.cuda.driver import FUNCTIONS
from jitgraph_testing.simulator.calls import codes
from jitgraph_testing.simulator.driver import FakeDriver
from jitgraph_testing.simulator.faults import BoundsError
from tests.simulator.drivers import Caller
from tests.simulator.test_pointwise import AXPY

N = 256
ONES = np.ones(N, np.float32)
LAZY, SOME = None, 5


@pytest.fixture
def caller() -> Caller:
    return Caller(FakeDriver())


def axpy(caller: Caller, function: int, x: int, y: int, by: float, stream: int = 0, count: int = N) -> None:
    arguments = ctypes.c_uint64(x), ctypes.c_uint64(y), ctypes.c_float(by), ctypes.c_int(count)
    caller.launch(function, 2, 128, *arguments, stream=stream)


def test_every_function_is_there() -> None:
    driver = FakeDriver()
    assert list(driver.addresses) == list(FUNCTIONS) and all(driver.addresses.values())
    assert len(driver.table) == len(FUNCTIONS)


@pytest.mark.parametrize("seed", [LAZY, SOME])
def test_copies_and_launches(seed: int | None) -> None:
    caller = Caller(FakeDriver(seed=seed))
    function = caller.kernel(AXPY, "axpy")
    x, y = caller.put(np.arange(N, dtype=np.float32)), caller.put(ONES)
    axpy(caller, function, x, y, 2.0)
    np.testing.assert_array_equal(caller.get(y, ONES), 2 * np.arange(N) + 1)


def test_before_cuinit_and_without_a_context() -> None:
    caller = Caller(FakeDriver(), ready=False)
    location = ctypes.c_uint64()
    assert caller.code("cuDeviceGetCount", ctypes.addressof(location)) == codes.NOT_INITIALIZED
    caller.call("cuInit", 0)
    assert caller.code("cuMemAlloc_v2", ctypes.addressof(location), 16) == codes.INVALID_CONTEXT
    assert caller.code("cuDeviceGet", ctypes.addressof(location), 1) == codes.INVALID_DEVICE


def test_a_context_is_current_in_its_thread_alone(caller: Caller) -> None:
    results = []
    thread = threading.Thread(target=lambda: results.append(caller.code("cuStreamSynchronize", None)))
    thread.start()
    thread.join()
    assert results == [codes.INVALID_CONTEXT]


def test_names_of_codes(caller: Caller) -> None:
    for code, (name, text) in codes.TEXTS.items():
        assert ctypes.string_at(caller_text(caller, "cuGetErrorName", code)).decode() == name
        assert ctypes.string_at(caller_text(caller, "cuGetErrorString", code)).decode() == text
    assert caller.code("cuGetErrorName", 12345, ctypes.addressof(ctypes.c_uint64())) == codes.INVALID_VALUE


def caller_text(caller: Caller, symbol: str, code: int) -> int:
    location = ctypes.c_uint64()
    caller.call(symbol, code, ctypes.addressof(location))
    return location.value


def test_devices() -> None:
    caller = Caller(FakeDriver(2, memory_bytes=1 << 20))
    position, name = ctypes.c_int(), ctypes.create_string_buffer(64)
    caller.call("cuDeviceGetCount", ctypes.addressof(position))
    assert position.value == 2
    caller.call("cuDeviceGetAttribute", ctypes.addressof(position), 75, 1)
    assert position.value == 9
    caller.call("cuDeviceGetName", name, 64, 1)
    assert name.value == b"Simulated GPU 1"
    assert caller.made("cuDeviceTotalMem_v2", 0) == 1 << 20
    first, second = (caller.made("cuDevicePrimaryCtxRetain", i) for i in (0, 1))
    on_first = caller.put(ONES)
    caller.call("cuCtxSetCurrent", second)
    assert caller.made("cuCtxGetCurrent") == second != first
    on_second = caller.put(2 * ONES)
    caller.call("cuMemcpyDtoDAsync_v2", on_first, on_second, ONES.nbytes, None)
    caller.call("cuCtxSynchronize")
    np.testing.assert_array_equal(caller.get(on_first, ONES), 2 * ONES)
    caller.call("cuPointerGetAttribute", ctypes.addressof(position), 9, on_second)
    assert position.value == 1


def test_memory_ends_at_the_cap() -> None:
    caller = Caller(FakeDriver(memory_bytes=4096))
    location = ctypes.c_uint64()
    first = caller.made("cuMemAlloc_v2", 4000)
    assert caller.code("cuMemAlloc_v2", ctypes.addressof(location), 97) == codes.OUT_OF_MEMORY
    caller.call("cuMemFree_v2", first)
    assert caller.code("cuMemFree_v2", first) == codes.INVALID_VALUE
    caller.made("cuMemAlloc_v2", 4096)
    assert caller.driver.live_bytes() == 4096


def test_ptx_nobody_registered(caller: Caller) -> None:
    position, log = ctypes.c_uint64(), ctypes.create_string_buffer(200)
    options, values = (ctypes.c_int * 2)(5, 6), (ctypes.c_uint64 * 2)(ctypes.addressof(log), 200)
    code = caller.code(
        "cuModuleLoadDataEx", ctypes.addressof(position), ctypes.c_char_p(b"nothing"), 2, options, values
    )
    assert code == codes.INVALID_PTX and b"was not told the LLVM IR" in log.value
    assert caller.driver.calls[-1].symbol == "cuModuleLoadDataEx" and "LLVM IR" in caller.driver.calls[-1].note


def test_handles_are_of_their_kind(caller: Caller) -> None:
    event = caller.made("cuEventCreate", 0)
    assert caller.code("cuStreamSynchronize", event) == codes.INVALID_HANDLE
    caller.call("cuEventDestroy_v2", event)
    assert caller.code("cuEventQuery", event) == codes.INVALID_HANDLE
    function = caller.kernel(AXPY, "axpy")
    assert caller.code("cuModuleGetFunction", ctypes.addressof(ctypes.c_uint64()), function, b"axpy") != 0


def test_planted_errors_come_once(caller: Caller) -> None:
    caller.driver.fail("cuMemAlloc_v2", after=1, code=codes.OUT_OF_MEMORY)
    location = ctypes.addressof(ctypes.c_uint64())
    results = [caller.code("cuMemAlloc_v2", location, 16) for _ in range(3)]
    assert results == [0, codes.OUT_OF_MEMORY, 0]


def test_a_fault_of_a_kernel_stays(caller: Caller) -> None:
    function = caller.kernel(AXPY, "axpy")
    x, y = caller.put(ONES[:10]), caller.put(ONES)
    axpy(caller, function, x, y, 2.0)
    assert caller.code("cuCtxSynchronize") == codes.ILLEGAL_ADDRESS
    assert caller.code("cuMemAlloc_v2", ctypes.addressof(ctypes.c_uint64()), 16) == codes.ILLEGAL_ADDRESS
    (failure,) = caller.driver.failures
    assert isinstance(failure, BoundsError) and "thread (10, 0, 0)" in str(failure)


def test_work_of_a_stream_waits_for_nobody_else(caller: Caller) -> None:
    """A second stream that does not wait for the first sees memory as it was; with an event it sees what is there."""
    function = caller.kernel(AXPY, "axpy")
    first, second = caller.made("cuStreamCreate", 1), caller.made("cuStreamCreate", 1)
    for waits in (False, True):
        x, y, z = caller.put(ONES), caller.put(ONES), caller.put(0 * ONES)
        axpy(caller, function, x, y, 1.0, first)
        if waits:
            event = caller.made("cuEventCreate", 2)
            caller.call("cuEventRecord", event, first)
            caller.call("cuStreamWaitEvent", second, event, 0)
        axpy(caller, function, y, z, 1.0, second)
        caller.call("cuStreamSynchronize", second)
        caller.call("cuStreamSynchronize", first)
        np.testing.assert_array_equal(caller.get(z, ONES), (2 if waits else 1) * ONES)


def test_the_legacy_stream_waits_for_blocking_ones(caller: Caller) -> None:
    function = caller.kernel(AXPY, "axpy")
    x, y = caller.put(ONES), caller.put(ONES)
    for flags, seen in ((0, 2), (1, 2)):
        stream = caller.made("cuStreamCreate", flags)
        axpy(caller, function, x, y, 1.0, stream)
        np.testing.assert_array_equal(caller.get(y, ONES), seen * ONES)
        caller.call("cuStreamSynchronize", stream)
        y = caller.put(2 * ONES)
    assert caller.code("cuStreamQuery", stream) == 0


def test_pinned_memory_is_read_when_the_copy_runs(caller: Caller) -> None:
    """A host that writes to it before the copy has run spoils it; pageable memory is staged at once."""
    stream = caller.made("cuStreamCreate", 1)
    pinned = caller.made("cuMemHostAlloc", ONES.nbytes, 0)
    host = np.ctypeslib.as_array((ctypes.c_float * N).from_address(pinned))
    pageable, at = ONES.copy(), caller.put(0 * ONES)
    for source, expected in ((host, 7), (pageable, 1)):
        source[:] = 1
        caller.call("cuMemcpyHtoDAsync_v2", at, source.ctypes.data, ONES.nbytes, stream)
        source[:] = 7
        caller.call("cuStreamSynchronize", stream)
        np.testing.assert_array_equal(caller.get(at, ONES), expected * ONES)


def test_kernels_see_pinned_memory(caller: Caller) -> None:
    function, at = caller.kernel(AXPY, "axpy"), caller.put(ONES)
    pinned = caller.made("cuMemHostAlloc", ONES.nbytes, 0)
    host = np.ctypeslib.as_array((ctypes.c_float * N).from_address(pinned))
    host[:] = 5
    axpy(caller, function, at, pinned, 2.0)
    caller.call("cuCtxSynchronize")
    np.testing.assert_array_equal(host, 7 * ONES)
    caller.call("cuMemFreeHost", pinned)
    axpy(caller, function, at, pinned, 2.0)
    assert caller.code("cuCtxSynchronize") == codes.ILLEGAL_ADDRESS


def test_a_graph_without_an_edge_is_seen() -> None:
    """Branches of a graph run in orders that are drawn; one that should have waited gives another result."""
    actual = set()
    for seed in range(8):
        caller = Caller(FakeDriver(seed=seed))
        function = caller.kernel(AXPY, "axpy")
        first, second, graph = caller.made("cuStreamCreate", 1), caller.made("cuStreamCreate", 1), ctypes.c_uint64()
        fork, join = caller.made("cuEventCreate", 2), caller.made("cuEventCreate", 2)
        x, y, z = caller.put(ONES), caller.put(ONES), caller.put(ONES)
        caller.call("cuStreamBeginCapture_v2", first, 1)
        caller.call("cuEventRecord", fork, first)
        caller.call("cuStreamWaitEvent", second, fork, 0)
        axpy(caller, function, x, y, 1.0, first)
        axpy(caller, function, y, z, 1.0, second)  # reads what the other branch writes
        caller.call("cuEventRecord", join, second)
        caller.call("cuStreamWaitEvent", first, join, 0)
        caller.call("cuStreamEndCapture", first, ctypes.addressof(graph))
        caller.call("cuGraphLaunch", caller.made("cuGraphInstantiateWithFlags", graph.value, 0), first)
        caller.call("cuStreamSynchronize", first)
        actual.add(float(caller.get(z, ONES)[0]))
    assert actual == {2.0, 3.0}


def test_query_says_not_ready_until_it_is(caller: Caller) -> None:
    stream, at = caller.made("cuStreamCreate", 1), caller.put(ONES)
    caller.call("cuMemsetD32Async", at, 5, N, stream)
    assert caller.code("cuStreamQuery", stream) == codes.NOT_READY
    assert caller.code("cuStreamQuery", stream) == 0
    np.testing.assert_array_equal(caller.get(at, ONES).view(np.int32), 5)


def test_events_take_time(caller: Caller) -> None:
    begin, end, plain = (caller.made("cuEventCreate", flags) for flags in (0, 0, 2))
    location = ctypes.c_float()
    assert caller.code("cuEventElapsedTime", ctypes.addressof(location), begin, end) == codes.INVALID_HANDLE
    at = caller.put(ONES)
    caller.call("cuEventRecord", begin, None)
    caller.call("cuMemsetD8Async", at, 0, 16, None)
    caller.call("cuEventRecord", end, None)
    assert caller.code("cuEventElapsedTime", ctypes.addressof(location), begin, end) == codes.NOT_READY
    caller.call("cuEventSynchronize", end)
    caller.call("cuEventElapsedTime", ctypes.addressof(location), begin, end)
    assert location.value > 0
    assert caller.code("cuEventElapsedTime", ctypes.addressof(location), begin, plain) == codes.INVALID_HANDLE


def test_a_graph_has_the_arguments_of_its_capture(caller: Caller) -> None:
    function, stream = caller.kernel(AXPY, "axpy"), caller.made("cuStreamCreate", 1)
    x, y = caller.put(ONES), caller.put(ONES)
    caller.call("cuStreamBeginCapture_v2", stream, 1)
    assert caller_status(caller, stream) == 1
    axpy(caller, function, x, y, 3.0, stream)
    graph = ctypes.c_uint64()
    caller.call("cuStreamEndCapture", stream, ctypes.addressof(graph))
    np.testing.assert_array_equal(caller.get(y, ONES), ONES)
    executable = caller.made("cuGraphInstantiateWithFlags", graph.value, 0)
    caller.call("cuGraphDestroy", graph.value)
    for times in (1, 2):
        caller.call("cuGraphLaunch", executable, stream)
        caller.call("cuStreamSynchronize", stream)
        np.testing.assert_array_equal(caller.get(y, ONES), 1 + 3 * times * ONES)
    caller.call("cuGraphExecDestroy", executable)
    assert caller.code("cuGraphLaunch", executable, stream) == codes.INVALID_VALUE


def caller_status(caller: Caller, stream: int) -> int:
    status = ctypes.c_int()
    caller.call("cuStreamIsCapturing", stream, ctypes.addressof(status))
    return status.value


def test_what_a_capture_forbids(caller: Caller) -> None:
    stream, graph = caller.made("cuStreamCreate", 1), ctypes.c_uint64()
    assert caller.code("cuStreamBeginCapture_v2", None, 0) == codes.CAPTURE_UNSUPPORTED
    assert caller.code("cuStreamEndCapture", stream, ctypes.addressof(graph)) == codes.ILLEGAL_STATE
    caller.call("cuStreamBeginCapture_v2", stream, 0)
    assert caller.code("cuMemAlloc_v2", ctypes.addressof(graph), 16) == codes.CAPTURE_UNSUPPORTED
    assert caller_status(caller, stream) == 2
    assert caller.code("cuStreamEndCapture", stream, ctypes.addressof(graph)) == codes.CAPTURE_INVALIDATED


def test_forks_of_a_capture_must_join(caller: Caller) -> None:
    first, second = caller.made("cuStreamCreate", 1), caller.made("cuStreamCreate", 1)
    fork, join, graph = caller.made("cuEventCreate", 2), caller.made("cuEventCreate", 2), ctypes.c_uint64()
    at = caller.put(ONES)
    for joins in (False, True):
        caller.call("cuStreamBeginCapture_v2", first, 1)
        caller.call("cuEventRecord", fork, first)
        caller.call("cuStreamWaitEvent", second, fork, 0)
        caller.call("cuMemsetD32Async", at, 3, N, second)
        if joins:
            caller.call("cuEventRecord", join, second)
            caller.call("cuStreamWaitEvent", first, join, 0)
        code = caller.code("cuStreamEndCapture", first, ctypes.addressof(graph))
        assert code == (0 if joins else codes.CAPTURE_UNJOINED)
        assert caller_status(caller, second) == 0


def test_launches_are_held_to_what_the_device_has(caller: Caller) -> None:
    function = caller.kernel(AXPY.replace(") {", ') "nvvm.maxntid"="128" {', 1).replace("(i32 %n) {", ""), "axpy")
    none = ctypes.c_void_p * 4
    for block, shared in ((256, 0), (0, 0), (128, 50_000)):
        code = caller.code("cuLaunchKernel", function, 1, 1, 1, block, 1, 1, shared, None, none(), None)
        assert code == codes.INVALID_VALUE
    caller.call("cuFuncSetAttribute", function, 8, 100_000)
    assert caller.code("cuFuncSetAttribute", function, 8, 300_000) == codes.INVALID_VALUE
    location = ctypes.c_int()
    caller.call("cuFuncGetAttribute", ctypes.addressof(location), 8, function)
    assert location.value == 100_000
