"""Memory of a device that is used again, arrays that lie there, and those that other libraries have there."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, Final

import numpy as np

from jitgraph.runtime.loader.arguments import address_of
from jitgraph.runtime.loader.cuda import CudaDevice
from jitgraph.runtime.loader.dtypes import Array
from jitgraph.runtime.loader.errors import ArgumentError
from jitgraph.runtime.loader.specs import ValueSpec

DEVICE_ALIGNMENT: Final = 16  # of the addresses that kernels are given
_LEGACY_STREAM: Final = 1  # how the protocol calls the default stream, whose handle is 0
_STEP: Final = 512


class DevicePool:
    """Blocks of a device by their size; whoever gives one back has waited for all work on it."""

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self._free: dict[int, list[int]] = {}
        self._blocks: list[int] = []
        self._closed = False

    def take(self, size: int) -> DeviceBlock:
        """A block of at least so many bytes; its context is current."""
        size = max(_STEP, -(-size // _STEP) * _STEP)
        try:
            address = self._free.setdefault(size, []).pop()
        except IndexError:
            try:
                address = self.device.allocate(size)
            except MemoryError:
                self.trim()
                address = self.device.allocate(size)
            self._blocks.append(address)
        block = DeviceBlock(address, size)
        weakref.finalize(block, self._return, address, size, os.getpid()).atexit = False
        return block

    def _return(self, address: int, size: int, process: int) -> None:
        if not self._closed and process == os.getpid():
            self._free.setdefault(size, []).append(address)

    def trim(self) -> None:
        """Give back what nobody uses."""
        for free in self._free.values():
            while free:
                address = free.pop()
                self._blocks.remove(address)
                self.device.free(address)

    def close(self) -> None:
        """Give everything back."""
        self._closed = True
        self._free.clear()
        while self._blocks:
            self.device.free(self._blocks.pop())


class DeviceBlock:
    """Bytes of a device, which go back to their pool with the last reference."""

    __slots__ = ("__weakref__", "address", "size")

    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self.size = size


class DeviceArray:
    """A dense array on a device: a result, which other libraries take by ``__cuda_array_interface__``."""

    def __init__(
        self, device: CudaDevice, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: Any
    ) -> None:
        """``owner`` keeps the memory."""
        self.device = device
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self.owner = owner

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3; the work that computes the elements is done. AttributeError for bfloat16, which it lacks."""
        if self.dtype.kind == "V":
            raise AttributeError("__cuda_array_interface__ has no bfloat16; numpy() gives a copy on the CPU")
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.address, False), "strides": None,
            "version": 3, "stream": None,
        }  # fmt: skip

    def numpy(self) -> Array:
        """A copy in the host's memory."""
        made: Array = np.empty(self.shape, self.dtype)
        with self.device.current():
            self.device.download(address_of(made), self.address, made.nbytes)
            self.device.wait()
        return made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """As ``numpy()``; ValueError where no copy may be made."""
        if copy is False:
            raise ValueError(f"an array on {self.device.name} cannot be read without a copy")
        made = self.numpy()
        return made if dtype is None else made.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"<{self.dtype.name}{list(self.shape)} on {self.device.name}>"


def borrowed(value: Any, device: CudaDevice, spec: ValueSpec, dtype: np.dtype[Any], where: str) -> DeviceArray | None:
    """The very memory of another library's array on the device, ready for its stream; None for what lies elsewhere.

    ArgumentError for one of another dtype, of another device, or whose elements are not in row-major order.
    """
    try:
        found = value.__cuda_array_interface__
    except AttributeError:
        return None
    shape, address = tuple(found["shape"]), int(found["data"][0])
    given = np.dtype(found["typestr"])
    if given != dtype:
        raise ArgumentError(f"{where}: expected {spec}, got {given.name}{list(shape)} on {device.name}")
    strides: list[int] = []
    step = dtype.itemsize
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    if found.get("strides") is not None and 0 not in shape and tuple(found["strides"]) != tuple(strides):
        raise ArgumentError(f"{where}: its elements do not lie in row-major order; pass a copy that is contiguous")
    if step and (there := device.ordinal_at(address)) != device.ordinal:
        raise ArgumentError(f"{where}: it lies on cuda:{there}, and the model on {device.name}")
    stream = found.get("stream")
    if stream is not None:
        device.settle(0 if stream == _LEGACY_STREAM else stream)
    return DeviceArray(device, address, shape, dtype, value)


def host_copy(array: Array, pool: DevicePool) -> DeviceArray:
    """A copy of a dense array of the host's on the device, asked for on its stream; the array must stay until then."""
    block = pool.take(array.nbytes)
    pool.device.upload(block.address, address_of(array), array.nbytes)
    return DeviceArray(pool.device, block.address, array.shape, array.dtype, (block, array))


def c_addresses(addresses: list[int]) -> Any:
    """Addresses as native code takes them."""
    return (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
