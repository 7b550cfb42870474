"""The driver by a table of addresses: errors in place of results, and what is said where there is no driver."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.errors import CudaError, DeviceError
from jitgraph.runtime.cuda import driver as libcuda
from jitgraph.runtime.cuda import driver as results
from jitgraph.runtime.cuda.driver import FUNCTIONS, SLOTS, Driver
from jitgraph_testing.simulator.calls import codes
from jitgraph_testing.simulator.driver import FakeDriver
from tests.runtime.cuda.machines import N, axpy, down, has_gpu, machine, up

ONES = np.ones(N, np.float32)


def test_the_table_is_native_and_in_the_order_of_the_slots() -> None:
    fake = FakeDriver()
    driver = Driver(fake.addresses, "the simulator")
    table = (ctypes.c_uint64 * len(SLOTS)).from_address(driver.table_address)
    assert [table[SLOTS[symbol]] for symbol in FUNCTIONS] == [fake.addresses[symbol] for symbol in FUNCTIONS]
    count = ctypes.c_int()
    initialise = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(table[SLOTS["cuInit"]])
    ask = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(table[SLOTS["cuDeviceGetCount"]])
    assert (initialise(0), ask(ctypes.addressof(count)), count.value) == (0, 0, 1)


def test_a_result_becomes_an_error_with_cudas_name_and_text() -> None:
    with machine() as here:
        here.fake.fail("cuStreamCreate", code=codes.INVALID_HANDLE)
        with pytest.raises(CudaError) as actual:
            here.device.context.take_stream()
        assert actual.value.code == codes.INVALID_HANDLE
        assert "a stream: CUDA_ERROR_INVALID_HANDLE (invalid resource handle)" in str(actual.value)
        assert "hint: " in str(actual.value) and "test_driver.py" in str(actual.value)


@pytest.mark.parametrize("code", [code for code in codes.TEXTS if code != codes.SUCCESS and code != codes.NOT_READY])
def test_every_code_says_what_to_do(code: int) -> None:
    name, text = codes.TEXTS[code]
    error = results.error(code, name, text, "a test")
    assert str(error).startswith(f"a test: {name} ({text})") and "hint: " in str(error)
    assert isinstance(error, MemoryError) == (code == codes.OUT_OF_MEMORY)


def test_a_code_that_cuda_does_not_name() -> None:
    with machine(must_end_clean=False) as here:
        assert "CUresult 12345" in str(here.device.context.driver.error(12345, "a test"))


@pytest.mark.skipif(has_gpu(), reason="this machine has a driver")
def test_no_driver_says_what_was_looked_for() -> None:
    with pytest.raises(DeviceError, match=r"not available[\s\S]*libcuda\.so\.1 was looked for[\s\S]*hint: "):
        libcuda.load()
    assert not jg.cuda.is_available() and jg.cuda.device_count() == 0
    for requested in (jg.cuda.current_device, jg.cuda.synchronize, jg.cuda.Stream, jg.cuda.memory_allocated):
        with pytest.raises(DeviceError, match="not available"):
            requested()


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_a_library_that_lacks_a_function_is_too_old(tmp_path: Path) -> None:
    source, library = tmp_path / "old.c", tmp_path / "old.so"
    source.write_text("int cuInit(unsigned flags) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    with pytest.raises(DeviceError, match="has no cuDriverGetVersion: the CUDA driver is too old"):
        libcuda.of_library(ctypes.CDLL(str(library)), "old.so")


def test_a_device_that_is_not_there() -> None:
    with machine(2) as here, pytest.raises(DeviceError, match=r"no cuda:2; the devices of .* are: cuda:0, cuda:1"):
        here.devices.device(2)


def test_cuinit_that_fails_is_tried_again() -> None:
    with machine() as here:
        here.fake.fail("cuInit", code=codes.NOT_INITIALIZED)
        with pytest.raises(CudaError, match="the start of the CUDA driver"):
            here.devices.device()
        assert here.devices.count == 2


def test_ptx_is_loaded_once_and_launched() -> None:
    with machine() as here:
        x, y = up(np.arange(N, dtype=np.float32)), up(ONES)
        for _ in range(3):
            axpy(here.device, x.address, y.address, 2.0)
        np.testing.assert_array_equal(down(y, ONES), 1 + 6 * np.arange(N, dtype=np.float32))
        assert here.calls("cuModuleLoadDataEx") == here.calls("cuModuleGetFunction") == 1
        function = here.device.modules.load(b".version 8.0 // axpy").function("axpy")
        assert function.registers == 32 and function.shared_bytes == 0 and function.handle
        function.allow_shared(100_000)
        with pytest.raises(CudaError, match="300000 bytes of shared memory for the kernel axpy"):
            function.allow_shared(300_000)


def test_ptx_that_does_not_load_and_kernels_that_are_not_there() -> None:
    with machine() as here:
        with pytest.raises(CudaError, match=r"loading PTX: CUDA_ERROR_INVALID_PTX .*\n.*was not told the LLVM IR"):
            here.device.modules.load(b"something else")
        with pytest.raises(CudaError, match=r"the kernel nothing: CUDA_ERROR_NOT_FOUND"):
            here.device.modules.load(b".version 8.0 // axpy").function("nothing")


def test_a_launch_that_is_refused_names_the_kernel() -> None:
    with machine() as here:
        x = up(ONES)
        function = here.device.modules.load(b".version 8.0 // axpy").function("axpy")
        arguments = [ctypes.c_uint64(x.address), ctypes.c_uint64(x.address), ctypes.c_float(1), ctypes.c_int32(N)]
        with pytest.raises(CudaError, match=r"the launch of the kernel axpy with a grid of \(1, 1, 1\) and blocks of"):
            function.launch((1, 1, 1), (2048, 1, 1), arguments)


def test_a_kernel_that_fails_is_seen_when_it_is_waited_for() -> None:
    with machine(must_end_clean=False) as here:
        x, y = up(ONES), up(ONES)
        axpy(here.device, x.address, y.address, 1.0, count=1 << 22)  # the block is 2 MiB
        with pytest.raises(CudaError, match=r"ILLEGAL_ADDRESS[\s\S]*a kernel read or wrote outside of its memory"):
            here.device.context.synchronize()
        with pytest.raises(CudaError, match=r"ILLEGAL_ADDRESS"):  # and by every later call
            down(y, ONES)


@pytest.mark.skipif(not has_gpu(), reason="no GPU here")
def test_the_driver_of_this_machine() -> None:
    driver = libcuda.load()
    assert driver.version() >= (12, 0) and driver.device_name(0) and driver.attribute(0, 75) >= 7
