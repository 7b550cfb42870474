"""Arrays on a device, which other libraries take without a copy, and what others have there, borrowed for a call."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from jitgraph.runtime.loader.capsules import (
    CUDA_MEMORY,
    TakenTable,
    device_capsule,
    dtype_of,
    extents,
    in_rows,
    is_table_dense,
    table_in,
)
from jitgraph.runtime.loader.cuda import CudaDevice, DeviceBlock, DevicePool
from jitgraph.runtime.loader.entry import address_of
from jitgraph.runtime.loader.errors import ArgumentError
from jitgraph.runtime.loader.specs import Array, ValueSpec

# ----------------------------------------------------------------------
# Arrays on a device, which other libraries take without a copy.

DEVICE_ALIGNMENT: Final = 16  # of the addresses that kernels are given
_HOST: Final = (1, 0)  # as __dlpack_device__ says the CPU


class DeviceArray:
    """A dense array on a device: a result, which others take by DLPack or ``__cuda_array_interface__``, not copied."""

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
            raise AttributeError("__cuda_array_interface__ has no bfloat16; __dlpack__() has")
        self._show()
        return {
            "shape": self.shape, "typestr": self.dtype.str, "data": (self.address, False), "strides": None,
            "version": 3, "stream": None,
        }  # fmt: skip

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA_MEMORY, self.device.ordinal

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """A capsule of the memory, or of a copy on the CPU where ``dl_device`` is (1, 0).

        The elements are computed, so any ``stream`` may use them at once, and others may write to them: no result is
        part of the model. The memory is kept until the taker's deleter has run. BufferError for what cannot be done.
        """
        if stream is not None and (type(stream) is not int or stream < -1 or stream == 0):
            raise BufferError(f"stream={stream!r} names no stream of CUDA; None, -1, 1, 2 or a driver's handle")
        target = self.__dlpack_device__() if dl_device is None else tuple(map(int, dl_device))
        if target == _HOST:
            if copy is False:
                raise BufferError(f"copy=False: the array is on {self.device.name}, not on the CPU; leave copy out")
            return self.numpy().__dlpack__()
        if target != self.__dlpack_device__():
            raise BufferError(f"dl_device={dl_device!r} for an array on {self.device.name}; numpy() is on the CPU")
        lent = self._copied() if copy else self
        lent._show()
        return device_capsule(lent, lent.address, self.dtype, self.shape, self.device.ordinal, read_only=False)

    def _show(self) -> None:
        if isinstance(self.owner, DeviceBlock):
            self.owner.pool.show(self.owner)

    def _copied(self) -> DeviceArray:
        with self.device.current():
            block: DeviceBlock = self.owner.pool.take(self.nbytes)
            if self.nbytes:
                self.device.copy(block.address, self.address, self.nbytes)
                self.device.wait()
        return DeviceArray(self.device, block.address, self.shape, self.dtype, block)

    def numpy(self) -> Array:
        """A copy in the host's memory."""
        array: Array = np.empty(self.shape, self.dtype)
        with self.device.current():
            self.device.download(address_of(array), self.address, array.nbytes)
            self.device.wait()
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """As ``numpy()``; ValueError where no copy may be made."""
        if copy is False:
            raise ValueError(f"an array on {self.device.name} cannot be read without a copy")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"<{self.dtype.name}{list(self.shape)} on {self.device.name}>"


def host_copy(array: Array, pool: DevicePool) -> DeviceArray:
    """A copy of a dense array of the host's on the device, asked for on its stream; the array must stay until then."""
    block = pool.take(array.nbytes)
    pool.device.upload(block.address, address_of(array), array.nbytes)
    return DeviceArray(pool.device, block.address, array.shape, array.dtype, (block, array))


def c_addresses(addresses: list[int]) -> Any:
    """Addresses as native code takes them."""
    return (ctypes.c_void_p * max(1, len(addresses)))(*addresses)


# ----------------------------------------------------------------------
# What other libraries have on a device, borrowed for a call: by DLPack, or by ``__cuda_array_interface__``.

_LEGACY_STREAM: Final = 1  # how the protocol calls the default stream, whose handle is 0


def borrowed(value: Any, device: CudaDevice, spec: ValueSpec, dtype: np.dtype[Any], where: str) -> DeviceArray | None:
    """The very memory of another library's array on the device, ready for its stream; None for what lies elsewhere.

    ArgumentError for one of another dtype, of another device, or whose elements are not in row-major order.
    """
    kind = type(value)
    if hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__"):
        device_type, ordinal = map(int, value.__dlpack_device__())
        if device_type != CUDA_MEMORY:
            return None
        _require_here(ordinal, device, where)
        array = _by_dlpack(value, device, spec, where)
    else:
        try:
            interface = value.__cuda_array_interface__
        except AttributeError:
            return None
        array = _by_interface(value, interface, device, where)
    if array.dtype != dtype:
        got = f"{array.dtype.name}{list(array.shape)}"
        raise ArgumentError(f"{where}: expected {spec}, got {got} on {device.name}")
    if array.nbytes:
        _require_here(device.ordinal_at(array.address), device, where)
    return array


def _require_here(ordinal: int, device: CudaDevice, where: str) -> None:
    if ordinal != device.ordinal:
        raise ArgumentError(f"{where}: it lies on cuda:{ordinal}, and the model on {device.name}")


def _require_rows(is_dense: bool, where: str) -> None:
    if not is_dense:
        raise ArgumentError(f"{where}: its elements do not lie in row-major order; pass a copy that is contiguous")


def _by_dlpack(value: Any, device: CudaDevice, spec: ValueSpec, where: str) -> DeviceArray:
    """By a capsule: its library lets the model's stream wait for its work; the deleter is called after the call."""
    try:
        try:
            capsule = value.__dlpack__(stream=device.stream, max_version=(1, 0))
        except TypeError:  # from before versions
            capsule = value.__dlpack__(stream=device.stream)
    except Exception as error:  # whatever the library raises where it does not hand the memory over
        what = f"expected {spec}, got {type(value).__name__}, which does not hand over its elements"
        raise ArgumentError(f"{where}: {what}: {error}") from error
    table = table_in(capsule, takes=True)
    if table is None:
        raise ArgumentError(f"{where}: what its __dlpack__ gives is no capsule of DLPack 1 or before")
    owner, tensor = TakenTable(table), table.tensor
    dtype = dtype_of(tensor)
    if dtype is None:
        kind = (tensor.code, tensor.bits, tensor.lanes)
        raise ArgumentError(f"{where}: expected {spec}, got elements of DLPack's type {kind}")
    _require_rows(is_table_dense(tensor), where)
    return DeviceArray(device, (tensor.data or 0) + tensor.byte_offset, extents(tensor), dtype, owner)


def _by_interface(value: Any, interface: Any, device: CudaDevice, where: str) -> DeviceArray:
    """By ``__cuda_array_interface__``, whose stream is waited for."""
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    strides = interface.get("strides")
    _require_rows(strides is None or in_rows(shape, strides, dtype.itemsize), where)
    stream = interface.get("stream")
    if stream is not None:
        device.settle(0 if stream == _LEGACY_STREAM else stream)
    return DeviceArray(device, int(interface["data"][0]), shape, dtype, value)
