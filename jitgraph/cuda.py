"""NVIDIA GPUs: the available devices, the current one, streams and events, and memory. Names mean what PyTorch's do.

A device is named by its number or as "cuda:1"; where none is given, the current device of the thread is meant. Work on
a device runs after the call that asks for it has returned; reading a tensor waits for it, and so does ``synchronize``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from jitgraph.records import dataclass
from jitgraph.runtime.cuda import memory
from jitgraph.runtime.cuda.devices import devices
from jitgraph.runtime.cuda.streams import (
    Event,
    Stream,
    current_stream,
    default_stream,
    device_named,
    ordinal_of,
    stream,
)

__all__ = [
    "DeviceProperties",
    "Event",
    "Stream",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_summary",
    "reset_peak_memory_stats",
    "set_device",
    "stream",
    "synchronize",
]

DeviceName: TypeAlias = "str | int | None"


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """The properties of a device; sizes in bytes."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int
    max_threads_per_block: int
    max_threads_per_multi_processor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    regs_per_multiprocessor: int
    L2_cache_size: int


_ATTRIBUTES = {  # of CUdevice_attribute
    "multi_processor_count": 16,
    "warp_size": 10,
    "max_threads_per_block": 1,
    "max_threads_per_multi_processor": 39,
    "shared_memory_per_block": 8,
    "shared_memory_per_block_optin": 97,
    "shared_memory_per_multiprocessor": 81,
    "regs_per_multiprocessor": 82,
    "L2_cache_size": 38,
}


def is_available() -> bool:
    """Whether there is a device that this process can use; never an error."""
    return devices().count > 0


def device_count() -> int:
    """The number of devices; 0 without a driver."""
    return devices().count


def current_device() -> int:
    """The number of this thread's current device, 0 at first; DeviceError where there is none."""
    return device_named(None).ordinal


def set_device(device: DeviceName) -> None:
    """Make a device this thread's current one; DeviceError where there is none of that name."""
    number = ordinal_of(device)
    if number is not None:
        devices().current = number


@contextmanager
def device(device: DeviceName) -> Iterator[None]:
    """A block in which a device is this thread's current one."""
    registry = devices()
    before = registry.current
    set_device(device)
    try:
        yield
    finally:
        registry.current = before


def get_device_name(device: DeviceName = None) -> str:
    """The name of a device, such as "NVIDIA H100 80GB HBM3"."""
    return get_device_properties(device).name


def get_device_capability(device: DeviceName = None) -> tuple[int, int]:
    """The compute capability of a device, such as (9, 0)."""
    return devices().driver.capability(device_named(device).ordinal)


def get_device_properties(device: DeviceName = None) -> DeviceProperties:
    """The properties of a device: name, compute capability, memory sizes and processors."""
    number, driver = device_named(device).ordinal, devices().driver
    attrs = {name: driver.attribute(number, attribute) for name, attribute in _ATTRIBUTES.items()}
    major, minor = driver.capability(number)
    return DeviceProperties(driver.device_name(number), major, minor, total_memory=driver.total_memory(number), **attrs)


def synchronize(device: DeviceName = None) -> None:
    """Wait for all work of a device; CudaError if some of it failed, or the error of a failed check, as IndexError."""
    device_named(device).synchronize()


def memory_allocated(device: DeviceName = None) -> int:
    """Bytes of a device in tensors of this process."""
    return device_named(device).memory.statistics().allocated


def max_memory_allocated(device: DeviceName = None) -> int:
    """The peak of the bytes in tensors since ``reset_peak_memory_stats``."""
    return device_named(device).memory.statistics().most_allocated


def memory_reserved(device: DeviceName = None) -> int:
    """Bytes of a device that this process holds, its cache included."""
    return device_named(device).memory.statistics().reserved


def max_memory_reserved(device: DeviceName = None) -> int:
    """The peak of the bytes that this process held of a device since ``reset_peak_memory_stats``."""
    return device_named(device).memory.statistics().most_reserved


def reset_peak_memory_stats(device: DeviceName = None) -> None:
    """Reset the peaks to the current values."""
    device_named(device).memory.reset_most()


def empty_cache() -> None:
    """Return unused memory to every device that this process has used, for other processes."""
    for device in devices().used():
        device.memory.empty_cache()


def memory_summary(device: DeviceName = None) -> str:
    """The memory of a device as a table: in tensors, cached, and free."""
    target_device = device_named(device)
    return memory.summary(target_device.context, target_device.memory.statistics())
