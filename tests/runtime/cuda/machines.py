"""Machines with GPUs for tests: simulated ones, and this one's own where it has any."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from jitgraph.runtime.cuda import buffers
from jitgraph.runtime.cuda.buffers import CudaBuffer
from jitgraph.runtime.cuda.devices import Device, Devices, devices, replaced
from jitgraph.runtime.cuda.driver import FUNCTIONS, LIBRARY, Driver
from jitgraph_testing.simulator.driver import FakeDriver
from jitgraph_testing.simulator.simulated_driver import SimulatedDriver
from tests.simulator.test_pointwise import AXPY

PTX = b".version 8.0 // axpy"
N = 256


HIDDEN = 0x7FFA << 48  # as the bits of a float64 a NaN, which no kernel is given for the number of a size
"""Added to addresses of device memory that is hidden: whoever but a kernel reads there ends the process."""

_TAKE_ADDRESSES = {  # which parameters of a function are addresses of device memory
    "cuMemFree_v2": (0,),
    "cuMemFreeAsync": (0,),
    "cuMemcpyHtoD_v2": (0,),
    "cuMemcpyDtoH_v2": (1,),
    "cuMemcpyHtoDAsync_v2": (0,),
    "cuMemcpyDtoHAsync_v2": (1,),
    "cuMemcpyDtoDAsync_v2": (0, 1),
    "cuMemsetD8Async": (0,),
    "cuMemsetD32Async": (0,),
    "cuPointerGetAttribute": (2,),
}
_TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int, "u": ctypes.c_uint, "z": ctypes.c_size_t, "s": ctypes.c_char_p}


class HidingDriver(SimulatedDriver):
    """The driver of a simulator whose device memory seems to lie where no process has any."""

    def __init__(self, fake: FakeDriver) -> None:
        self.kept: list[Any] = []
        super().__init__(fake)
        Driver.__init__(self, {**fake.addresses, **dict(self._wrapped(fake))}, "the simulator")

    def _wrapped(self, fake: FakeDriver) -> Iterator[tuple[str, int]]:
        for symbol in ("cuMemAlloc_v2", "cuMemAllocAsync", *_TAKE_ADDRESSES):
            kind = ctypes.CFUNCTYPE(ctypes.c_int, *[_TYPES[letter] for letter in FUNCTIONS[symbol]])
            result = kind(self._hiding(symbol, kind(fake.addresses[symbol])))
            self.kept.append(result)
            yield symbol, ctypes.cast(result, ctypes.c_void_p).value or 0

        kind = ctypes.CFUNCTYPE(ctypes.c_int, *[_TYPES[letter] for letter in FUNCTIONS["cuLaunchKernel"]])
        result = kind(self._launching(fake, kind(fake.addresses["cuLaunchKernel"])))
        self.kept.append(result)
        yield "cuLaunchKernel", ctypes.cast(result, ctypes.c_void_p).value or 0

    def _launching(self, fake: FakeDriver, function: Any) -> Any:
        """Launches whose arguments are addresses where they seem to lie."""

        def launch(handle: int, *rest: Any) -> int:
            actual: Any = fake._state._objects[handle]
            sizes = actual.module.simulated.argument_bytes(actual.name)
            inputs = (ctypes.c_void_p * len(sizes)).from_address(rest[8])
            values = (ctypes.c_uint64 * len(sizes))()
            for number, (size, address) in enumerate(zip(sizes, inputs, strict=True)):
                ctypes.memmove(ctypes.addressof(values) + 8 * number, address, size)
                if size == 8 and HIDDEN <= values[number] < HIDDEN + (1 << 48):
                    values[number] -= HIDDEN
            start = ctypes.addressof(values)
            device_names = (ctypes.c_void_p * len(sizes))(*[start + 8 * number for number in range(len(sizes))])
            code: int = function(handle, *rest[:8], ctypes.addressof(device_names), *rest[9:])
            return code

        return launch

    def _hiding(self, symbol: str, function: Any) -> Any:
        device_names = _TAKE_ADDRESSES.get(symbol)

        def allocate(device_name: int, *rest: int) -> int:
            code: int = function(device_name, *rest)
            if not code:
                ctypes.c_uint64.from_address(device_name).value += HIDDEN
            return code

        def use(*argument: int) -> int:
            assert device_names is not None
            real = [x - HIDDEN if i in device_names and x >= HIDDEN else x for i, x in enumerate(argument)]
            code: int = function(*real)
            return code

        return allocate if device_names is None else use


def has_gpu() -> bool:
    """Whether this machine has a GPU."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return devices().count > 0


class Machine:
    """Simulated devices: ``fake`` plants faults and tells what is held, ``devices`` are those in force."""

    def __init__(self, fake: FakeDriver, actual: Devices) -> None:
        self.fake = fake
        self.devices = actual

    @property
    def device(self) -> Device:
        return self.devices.device()

    def calls(self, symbol: str) -> int:
        """How often a function of the driver was called."""
        return sum(call.symbol == symbol for call in self.fake.calls)


def leaks(fake: FakeDriver) -> dict[str, Any]:
    """What was not given back to a driver: device memory, pinned memory, contexts, and other handles."""
    state = fake._state
    return {
        name: actual
        for name, actual in {
            "bytes": sum(fake.live_bytes(number) for number in range(len(state.devices))),
            "pinned": len(state.pinned),
            "retained": sum(device.retained for device in state.devices),
            "handles": [
                type(held).__name__ for held in state._objects.values() if type(held).__name__ != "FakeFunction"
            ],
        }.items()
        if actual
    }


@contextmanager
def machine(
    devices: int = 2,
    *,
    memory: int = 1 << 30,
    seed: int | None = None,
    must_end_clean: bool = True,
    hides: bool = False,
) -> Iterator[Machine]:
    """Simulated devices in place of this machine's; at the end nothing of them may be left, unless told otherwise."""
    fake = FakeDriver(devices, memory_bytes=memory, seed=seed)
    fake.register(PTX, AXPY)
    with replaced(HidingDriver(fake) if hides else SimulatedDriver(fake)) as actual:
        yield Machine(fake, actual)
    if must_end_clean:
        assert leaks(fake) == {}
        assert not fake.failures


def up(array: Any, device: Device | None = None) -> CudaBuffer:
    """A copy of an array on a device."""
    return buffers.of_host(device or devices().device(), array.ctypes.data, array.nbytes)


def down(buffer: CudaBuffer, like: Any) -> Any:
    """What lies in a buffer, as an array like another one."""
    result = np.empty_like(like)
    buffer.to_host(result.ctypes.data)
    return result


def axpy(device: Device, x: int, y: int, a: float, count: int = N) -> None:
    """Add ``a`` times the floats at ``x`` to those at ``y``, by a kernel on the current stream."""
    arguments = [ctypes.c_uint64(x), ctypes.c_uint64(y), ctypes.c_float(a), ctypes.c_int32(count)]
    device.modules.load(PTX).function("axpy").launch((-(-count // 128), 1, 1), (128, 1, 1), arguments)
