"""Devices and their contexts."""

from __future__ import annotations

import ctypes
from typing import Final

from jitgraph_testing.simulator.calls.codes import INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, TEXTS, DriverFault
from jitgraph_testing.simulator.calls.pointers import put_handle, put_int
from jitgraph_testing.simulator.calls.state import DriverState, FakeDevice

VERSION: Final = 13000

ATTRIBUTES: Final[dict[int, int]] = {  # of a made-up device of compute capability 9.0, by CUdevice_attribute
    1: 1024, 2: 1024, 3: 1024, 4: 64,  # threads of a block, and its extents
    5: 2**31 - 1, 6: 65535, 7: 65535,  # extents of a grid
    8: 48 << 10, 9: 64 << 10, 10: 32,  # shared memory of a block, constant memory, lanes of a warp
    12: 65536, 13: 1_500_000, 15: 0, 16: 4,  # registers, clock in kHz, integrated, multiprocessors
    18: 0, 19: 1, 20: 0, 31: 1, 32: 0, 33: 1, 34: 0, 35: 0,  # mapping, concurrency, ECC, PCI
    36: 2_000_000, 37: 5120, 38: 50 << 20, 39: 2048, 40: 2, 41: 1,  # memory clock and bus, L2, threads, copies, UVA
    75: 9, 76: 0, 78: 1, 81: 228 << 10, 82: 65536, 83: 1,  # compute capability, streams, shared memory of a processor
    95: 1, 97: 227 << 10, 106: 32, 111: 1 << 10, 115: 1,  # cooperative, shared memory opted in, blocks, reserved, pools
}  # fmt: skip

_texts: dict[str, ctypes.Array[ctypes.c_char]] = {}


def _put_text(address: int | None, text: str) -> None:
    buffer = _texts.setdefault(text, ctypes.create_string_buffer(text.encode()))
    put_handle(address, ctypes.addressof(buffer))


def _init(state: DriverState, flags: int) -> None:
    if flags:
        raise DriverFault(INVALID_VALUE, "cuInit takes the flags 0")
    state.initialized = True


def _version(state: DriverState, to: int) -> None:
    put_int(to, VERSION)


def _name(state: DriverState, code: int, to: int) -> None:
    if code not in TEXTS:
        put_handle(to, 0)
        raise DriverFault(INVALID_VALUE, f"no code {code}")
    _put_text(to, TEXTS[code][0])


def _text(state: DriverState, code: int, to: int) -> None:
    if code not in TEXTS:
        put_handle(to, 0)
        raise DriverFault(INVALID_VALUE, f"no code {code}")
    _put_text(to, TEXTS[code][1])


def _device(state: DriverState, ordinal: int) -> FakeDevice:
    if not 0 <= ordinal < len(state.devices):
        raise DriverFault(INVALID_DEVICE, f"no device {ordinal}")
    return state.devices[ordinal]


def _count(state: DriverState, to: int) -> None:
    put_int(to, len(state.devices))


def _get(state: DriverState, to: int, ordinal: int) -> None:
    put_int(to, _device(state, ordinal).ordinal)


def _device_name(state: DriverState, to: int, length: int, ordinal: int) -> None:
    name = f"Simulated GPU {_device(state, ordinal).ordinal}".encode()[: max(length - 1, 0)]
    if not to or length <= 0:
        raise DriverFault(INVALID_VALUE, "no room for a name")
    ctypes.memmove(to, name + b"\0", len(name) + 1)


def _attribute(state: DriverState, to: int, attribute: int, ordinal: int) -> None:
    _device(state, ordinal)
    if attribute not in ATTRIBUTES:
        raise DriverFault(INVALID_VALUE, f"the made-up device has no attribute {attribute}")
    put_int(to, ATTRIBUTES[attribute] + (ordinal if attribute == 33 else 0))


def _total(state: DriverState, to: int, ordinal: int) -> None:
    put_handle(to, _device(state, ordinal).total_bytes)


def _retain(state: DriverState, to: int, ordinal: int) -> None:
    device = _device(state, ordinal)
    if not device.context:
        device.context = state.new(device)
    device.retained += 1
    put_handle(to, device.context)


def _release(state: DriverState, ordinal: int) -> None:
    device = _device(state, ordinal)
    if not device.retained:
        raise DriverFault(INVALID_CONTEXT, "the primary context was not retained")
    device.retained -= 1
    if not device.retained:
        ours = [stream for stream in state.scheduler.streams.values() if stream.context == device.context]
        state.scheduler.drain(ours)
        state.drop(device.context, FakeDevice)
        device.context = 0


def _set_current(state: DriverState, context: int | None) -> None:
    if context:
        state.get(context, FakeDevice, INVALID_CONTEXT)
    state.current = context or 0


def _get_current(state: DriverState, to: int) -> None:
    put_handle(to, state.current)


def _synchronize(state: DriverState) -> None:
    state.device()
    state.refuse_in_capture()
    state.wait(state.streams())


CALLS: Final = {
    "cuInit": _init,
    "cuDriverGetVersion": _version,
    "cuGetErrorName": _name,
    "cuGetErrorString": _text,
    "cuDeviceGetCount": _count,
    "cuDeviceGet": _get,
    "cuDeviceGetName": _device_name,
    "cuDeviceGetAttribute": _attribute,
    "cuDeviceTotalMem_v2": _total,
    "cuDevicePrimaryCtxRetain": _retain,
    "cuDevicePrimaryCtxRelease_v2": _release,
    "cuCtxSetCurrent": _set_current,
    "cuCtxGetCurrent": _get_current,
    "cuCtxSynchronize": _synchronize,
}
"""The driver's functions by symbol."""

WITHOUT_INIT: Final = frozenset(("cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString"))
"""What may be called before cuInit."""
