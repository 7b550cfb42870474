"""Values on GPUs to other libraries and from them: DLPack, and ``__cuda_array_interface__``."""

from __future__ import annotations

import math
import weakref
from functools import partial
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import bfloat16
from jitgraph.eager import placement
from jitgraph.eager.placement import DeviceValue, device_type
from jitgraph.errors import DeviceError, SharingError
from jitgraph.runtime import dlpack
from jitgraph.runtime.cuda import buffers
from jitgraph.runtime.cuda.devices import Device, devices
from jitgraph.runtime.loader.capsules import CUDA_MEMORY, in_rows

_LEGACY: Final = 1  # how both protocols call the default stream, whose handle is 0
_shown: Final[dict[int, tuple[Any, list[Any]]]] = {}  # by the handle's id, with the weak reference that removes it
"""What handles have shown by ``__cuda_array_interface__``, which keeps the handle alone, and that can be rebound."""


def device_of(value: DeviceValue) -> tuple[int, int]:
    """The device as ``__dlpack_device__`` says it."""
    return CUDA_MEMORY, value.buffer.device.ordinal


def exported(value: DeviceValue, stream: Any, max_version: Any, dl_device: Any, copy: bool | None) -> Any:
    """A capsule of the memory, read-only and ready for work of ``stream``; where ``dl_device`` asks, of a CPU copy.

    Before version 1 a capsule cannot say that memory is read-only, so a caller who asks for no more gets a copy;
    SharingError where that is not allowed, and for another device.
    """
    versioned = max_version is not None and max_version[0] >= 1
    target_device = device_of(value) if dl_device is None else tuple(map(int, dl_device))
    if target_device == dlpack.CPU_DEVICE:
        if copy is False:
            raise SharingError(f"copy=False: the tensor is on {value.device}, not on the CPU", hint="leave copy out")
        return dlpack.exported(value.fetched(), None, max_version, None, None)
    if target_device != device_of(value):
        raise SharingError(f"dl_device={dl_device!r} for a tensor on {value.device}", hint="x.to(device) first")
    if copy is False and not versioned:
        raise SharingError(
            "DLPack before version 1 cannot hand over memory that is read-only without a copy",
            hint="max_version=(1, 0), or leave copy out",
        )
    buffer = value.buffer
    if copy or not versioned:
        buffer = buffers.copied(buffer, buffer.device)
    else:
        value.access = "exported"
    if stream != -1:  # the caller waits by itself
        buffer.shown_to(_handle(stream))
    return buffers.capsule_of(buffer, value.dtype, value.shape, read_only=buffer is value.buffer)


def interface_of(handle: Any, value: DeviceValue) -> dict[str, Any]:
    """``__cuda_array_interface__`` of a handle; AttributeError for bfloat16, which it does not know."""
    if value.dtype == bfloat16:
        raise AttributeError("__cuda_array_interface__ has no bfloat16; x.__dlpack__() has")
    value.access = "exported"
    number = id(handle)
    if number not in _shown:
        _shown[number] = weakref.ref(handle, partial(_shown.pop, number)), []  # no Python code for a signal to cut
    _shown[number][1].append(value)
    stream = value.buffer.stream
    value.buffer.shown_to(stream)
    return {
        "shape": value.shape,
        "typestr": value.dtype.str,
        "data": (value.buffer.address, True),
        "strides": None,
        "version": 3,
        "stream": stream or _LEGACY,
    }


def imported(x: Any, copy: bool | None) -> DeviceValue:
    """The elements of another library's array on a GPU: a copy, or where ``copy`` is False its very memory.

    SharingError for what does not lie in row-major order; DTypeError for elements that have no dtype here.
    """
    value = _by_dlpack(x) if hasattr(type(x), "__dlpack__") else _by_interface(x)
    dtypes.canonical(value.dtype)
    return value if copy is False else placement.copied(value, value.device)


def _by_dlpack(x: Any) -> DeviceValue:
    device = devices().device(int(x.__dlpack_device__()[1]))
    stream = device.context.stream or _LEGACY
    try:
        capsule = x.__dlpack__(stream=stream, max_version=(1, 0))
    except TypeError:  # from before versions
        capsule = x.__dlpack__(stream=stream)
    buffer, dtype, shape = buffers.taken(capsule, device)
    return DeviceValue(buffer, device_type(dtype, shape), access="borrowed")


def _by_interface(x: Any) -> DeviceValue:
    interface = x.__cuda_array_interface__
    dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
    strides = interface.get("strides")
    if strides is not None and not in_rows(shape, strides, dtype.itemsize):
        raise SharingError("the array's elements do not lie in row-major order", hint="x.copy(), or DLPack")
    device = _device_at(interface["data"][0])
    buffer = buffers.borrowed(device, interface["data"][0], dtype.itemsize * math.prod(shape), x)
    given_stream = interface.get("stream")
    if given_stream is not None:
        buffer.stream = _handle(given_stream)
    return DeviceValue(buffer, device_type(dtype, shape), access="borrowed")


def _device_at(address: int) -> Device:
    """The device on which memory lies; DeviceError where it is no device's."""
    registry = devices()
    if not address:
        return registry.device()
    return registry.device(registry.device().context.enter().device_at(address))


def _handle(stream: Any) -> int:
    """The driver's handle of a stream as the protocols name it."""
    if stream is None or stream == _LEGACY:
        return 0
    if not isinstance(stream, int) or stream <= 0:
        raise DeviceError(f"stream={stream!r} names no stream of CUDA", hint="None, 1, 2 or a driver's handle")
    return stream
