"""Memory of devices, pinned memory of the host, copies between them."""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np

from jitgraph_testing.simulator.calls.codes import INVALID_VALUE, OUT_OF_MEMORY, DriverFault
from jitgraph_testing.simulator.calls.pointers import put_handle, put_int
from jitgraph_testing.simulator.calls.state import DriverState, FakeDevice
from jitgraph_testing.simulator.calls.works import FakeStream
from jitgraph_testing.simulator.device_memory import DeviceMemory
from jitgraph_testing.simulator.faults import SimulationError

_CONTEXT, _MEMORY_TYPE, _DEVICE_POINTER, _HOST_POINTER, _ORDINAL, _RANGE_START, _RANGE_SIZE = 1, 2, 3, 4, 9, 11, 12
_HOST, _DEVICE = 1, 2  # of CUmemorytype


def _info(state: DriverState, free: int, total: int) -> None:
    device = state.device()
    put_handle(free, device.total_bytes - device.memory.used)
    put_handle(total, device.total_bytes)


def _allocate(state: DriverState, to: int, size: int) -> None:
    device = state.device()
    state.refuse_in_capture()
    if not size:
        raise DriverFault(INVALID_VALUE, "0 bytes were asked for")
    if device.memory.used + size > device.total_bytes:
        left = device.total_bytes - device.memory.used
        raise DriverFault(OUT_OF_MEMORY, f"{size} bytes were asked for, {left} of {device.total_bytes} are left")
    put_handle(to, device.memory.allocate(size))


def _free(state: DriverState, address: int) -> None:
    state.device()
    state.refuse_in_capture()
    if not address:
        return
    owner = _owner(state, address)
    if owner is None or owner.memory.holding(address) is None:
        raise DriverFault(INVALID_VALUE, f"no buffer begins at {address:#x}")
    state.wait(state.streams())  # what it is used for ends before it is given back, as CUDA does
    try:
        owner.memory.free(address)
    except SimulationError as error:
        state.failures.append(error)
        raise DriverFault(INVALID_VALUE, error.message) from None


def _allocate_async(state: DriverState, to: int, size: int, handle: int | None) -> None:
    """Memory for the work of a stream from here on. Taken at once: only what is given back waits for the stream."""
    if state.stream(handle).capture:
        raise DriverFault(INVALID_VALUE, "memory of graphs is not simulated")
    _allocate(state, to, size)


def _free_async(state: DriverState, address: int, handle: int | None) -> None:
    owner = _owner(state, address)
    if owner is None or owner.memory.holding(address) is None:
        raise DriverFault(INVALID_VALUE, f"no buffer begins at {address:#x}")
    memory = owner.memory
    state.submit(state.stream(handle), f"the end of the memory at {address:#x}", lambda: memory.free(address))


def _host_allocate(state: DriverState, to: int, size: int, flags: int) -> None:
    state.device()
    if not size or flags & ~7:
        raise DriverFault(INVALID_VALUE, f"{size} bytes of pinned memory with the flags {flags}")
    buffer = ctypes.create_string_buffer(size + 256)
    address = -(-ctypes.addressof(buffer) // 256) * 256
    ctypes.memset(address, 0xFF, size)
    state.pinned[address] = buffer
    for device in state.devices:
        device.memory.admit(address, size)
    put_handle(to, address)


def _host_free(state: DriverState, address: int) -> None:
    state.device()
    if address not in state.pinned:
        raise DriverFault(INVALID_VALUE, f"no pinned memory begins at {address or 0:#x}")
    state.wait(state.streams())
    del state.pinned[address]
    for device in state.devices:
        device.memory.withdraw(address)


def _owner(state: DriverState, address: int) -> FakeDevice | None:
    return next((each for each in state.devices if each.memory.holding(address)), None)


def _at(state: DriverState, address: int, size: int) -> DeviceMemory:
    """The memory of the device that has these bytes; DriverFault where none has."""
    owner = _owner(state, address)
    if owner is None or owner.memory.holding(address, size) is None:
        near = (owner or state.device()).memory.describe(address)
        raise DriverFault(INVALID_VALUE, f"{size} bytes from {address:#x} on are no device memory: {near}")
    return owner.memory


def _is_pinned(state: DriverState, address: int, size: int) -> bool:
    return any(begin <= address and address + size <= begin + len(buffer) for begin, buffer in state.pinned.items())


def _to_device(state: DriverState, stream: FakeStream, to: int, source: int, size: int) -> None:
    if not size:
        return
    _at(state, to, size)
    staged = None if _is_pinned(state, source, size) else ctypes.string_at(source, size)  # pageable: staged at once

    def copy() -> None:
        data = ctypes.string_at(source, size) if staged is None else staged
        _at_run(state, to, size)[:] = np.frombuffer(data, np.uint8)

    state.submit(stream, f"copy of {size} bytes to the device", copy)


def _from_device(state: DriverState, stream: FakeStream, to: int, source: int, size: int) -> None:
    if not size:
        return
    _at(state, source, size)

    def copy() -> None:
        ctypes.memmove(to, _at_run(state, source, size).tobytes(), size)

    state.submit(stream, f"copy of {size} bytes from the device", copy)


def _at_run(state: DriverState, address: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """The bytes when the copy runs; SimulationError where they were freed since."""
    owner = _owner(state, address)
    return (owner or state.devices[0]).memory.bytes_at(address, size)


def _copy_in(state: DriverState, to: int, source: int, size: int) -> None:
    state.refuse_in_capture()
    stream = state.stream(None)
    _to_device(state, stream, to, source, size)
    state.wait([stream])


def _copy_out(state: DriverState, to: int, source: int, size: int) -> None:
    state.refuse_in_capture()
    stream = state.stream(None)
    _from_device(state, stream, to, source, size)
    state.wait([stream])


def _copy_in_async(state: DriverState, to: int, source: int, size: int, handle: int | None) -> None:
    _to_device(state, state.stream(handle), to, source, size)


def _copy_out_async(state: DriverState, to: int, source: int, size: int, handle: int | None) -> None:
    stream = state.stream(handle)
    _from_device(state, stream, to, source, size)
    if not stream.capture and not _is_pinned(state, to, size):  # pageable: it has ended when the call returns
        state.wait([stream])


def _copy_between(state: DriverState, to: int, source: int, size: int, handle: int | None) -> None:
    stream = state.stream(handle)
    if not size:
        return
    _at(state, to, size)
    _at(state, source, size)

    def copy() -> None:
        _at_run(state, to, size)[:] = _at_run(state, source, size).copy()

    state.submit(stream, f"copy of {size} bytes on the device", copy)


def _fill(state: DriverState, to: int, pattern: bytes, count: int, handle: int | None) -> None:
    stream = state.stream(handle)
    if to % len(pattern):
        raise DriverFault(INVALID_VALUE, f"{to:#x} is not aligned to {len(pattern)} bytes")
    if not count:
        return
    size = count * len(pattern)
    _at(state, to, size)

    def fill() -> None:
        _at_run(state, to, size)[:] = np.frombuffer(pattern * count, np.uint8)

    state.submit(stream, f"fill of {size} bytes", fill)


def _fill_bytes(state: DriverState, to: int, value: int, count: int, handle: int | None) -> None:
    _fill(state, to, bytes([value & 0xFF]), count, handle)


def _fill_words(state: DriverState, to: int, value: int, count: int, handle: int | None) -> None:
    _fill(state, to, value.to_bytes(4, "little"), count, handle)


def _attribute(state: DriverState, to: int, attribute: int, address: int) -> None:
    owner = _owner(state, address)
    pinned = next((b for b, block in state.pinned.items() if b <= address < b + len(block)), None)
    if owner is None and pinned is None:
        raise DriverFault(INVALID_VALUE, f"{address:#x} is not memory of CUDA")
    buffer = owner.memory.holding(address) if owner else None
    if attribute == _MEMORY_TYPE:
        put_int(to, _DEVICE if owner else _HOST)
    elif attribute == _ORDINAL:
        put_int(to, owner.ordinal if owner else 0)
    elif attribute == _CONTEXT:
        put_handle(to, owner.context if owner else state.current)
    elif (attribute == _DEVICE_POINTER and owner) or (attribute == _HOST_POINTER and not owner):
        put_handle(to, address)
    elif attribute == _RANGE_START:
        put_handle(to, buffer.address if buffer else pinned or 0)
    elif attribute == _RANGE_SIZE:
        put_handle(to, buffer.size if buffer else len(state.pinned[pinned or 0]) - 256)
    else:
        raise DriverFault(INVALID_VALUE, f"{address:#x} has no attribute {attribute}")


CALLS: Final = {
    "cuMemGetInfo_v2": _info,
    "cuMemAlloc_v2": _allocate,
    "cuMemFree_v2": _free,
    "cuMemAllocAsync": _allocate_async,
    "cuMemFreeAsync": _free_async,
    "cuMemHostAlloc": _host_allocate,
    "cuMemFreeHost": _host_free,
    "cuMemcpyHtoD_v2": _copy_in,
    "cuMemcpyDtoH_v2": _copy_out,
    "cuMemcpyHtoDAsync_v2": _copy_in_async,
    "cuMemcpyDtoHAsync_v2": _copy_out_async,
    "cuMemcpyDtoDAsync_v2": _copy_between,
    "cuMemsetD8Async": _fill_bytes,
    "cuMemsetD32Async": _fill_words,
    "cuPointerGetAttribute": _attribute,
}
"""The driver's functions by symbol."""
