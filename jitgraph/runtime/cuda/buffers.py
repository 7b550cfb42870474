"""CudaBuffer: memory of a device that holds one value, the order of the work on it, and DLPack of it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph.errors import DTypeError, SharingError
from jitgraph.runtime import dlpack
from jitgraph.runtime.buffer import Array
from jitgraph.runtime.cuda.deferred_errors import DeferredError, require
from jitgraph.runtime.cuda.devices import Device
from jitgraph.runtime.cuda.memory import MemoryBlock
from jitgraph.runtime.loader import capsules
from jitgraph.runtime.loader.capsules import CUDA_MEMORY, TakenTable

# ----------------------------------------------------------------------
# CudaBuffer: memory of a device that holds one value, and the order of the work that writes and reads it.

_APART: Final = 16  # bytes, to which kernels are promised that addresses are aligned


class CudaBuffer:
    """``size`` bytes at ``address`` of a device, given back when the buffer is no longer held.

    What lies there was written by work of ``stream``. Work of another stream that reads it has to come after that:
    ``read_on`` sees to it, and to it that the memory serves nobody else before that work is done. What writes there has
    to come after all that reads, too: ``written_on``.
    """

    __slots__ = ("__weakref__", "_block", "_owner", "_readers", "address", "deferred_error", "device", "size", "stream")

    def __init__(
        self, device: Device, address: int, size: int, stream: int, block: MemoryBlock | None, owner: Any
    ) -> None:
        """``owner`` keeps memory alive that is not the allocator's, which has no ``block``."""
        self.device = device
        self.address = address
        self.size = size
        self.stream = stream
        self._block = block
        self._owner = owner
        self._readers: set[int] | None = None  # other streams that have read what was written last
        self.deferred_error: DeferredError | None = None
        """Whether what lies here was computed, where that is not known yet."""

    def __del__(self) -> None:
        if self._block is not None:
            self.device.memory.give_back(self._block)

    def read_on(self, stream: int) -> int:
        """The address, for work of ``stream`` that reads what was written here; DeviceError for what never was."""
        if self.deferred_error is not None:
            require(self.deferred_error, self, self.device.name)
        if stream != self.stream:
            self._used_on(stream)
        return self.address

    def _used_on(self, stream: int) -> None:
        """Let work of another stream come after what writes here, and before the memory is used again."""
        self.device.context.wait_for(stream, self.stream)
        self._readers = {stream, *(self._readers or ())}
        if self._block is not None:
            self.device.memory.note_use(self._block, stream)
        elif isinstance(self._owner, CudaBuffer):
            self._owner._used_on(stream)

    def written_on(self, stream: int) -> int:
        """The address, for work of ``stream`` that writes here; who reads it later comes after that work."""
        address = self.read_on(stream)
        if self._readers is not None:
            for reader in self._readers - {stream}:
                self.device.context.wait_for(stream, reader)
            self._readers = None
        self.stream = stream
        return address

    def shown_to(self, stream: int) -> None:
        """Another library reads the memory from now on, first by work of ``stream``, and later in unknown ways."""
        self.read_on(stream)
        if self._block is not None:
            self._block.is_shown = True

    def to_host(self, address: int) -> None:
        """Copy all bytes to the host's memory at ``address``, once the work that writes them is done.

        Raises what a check in that work has found, and DeviceError where that was told before.
        """
        if self.size:
            self.device.staging.to_host(address, self.address, self.size, self.stream)
            self.device.look()
        elif self.deferred_error is not None:  # there is nothing to copy, but something that may have failed
            self.device.context.enter().synchronize_stream(self.stream)
            self.device.look()
        if self.deferred_error is not None:
            require(self.deferred_error, self, self.device.name)


def allocate(device: Device, size: int) -> CudaBuffer:
    """Fresh memory for work of this thread's current stream; OutOfMemoryError."""
    block = device.memory.allocate(size)
    return CudaBuffer(device, block.address, size, block.stream, block, None)


def borrowed(device: Device, address: int, size: int, owner: Any) -> CudaBuffer:
    """Memory of another owner, which ``owner`` keeps alive; it was written by work of this thread's current stream."""
    return CudaBuffer(device, address, size, device.context.stream, None, owner)


def of_host(device: Device, address: int, size: int) -> CudaBuffer:
    """A copy of ``size`` bytes of the host's memory, which may change as soon as this returns."""
    buffer = allocate(device, size)
    if size:
        device.staging.to_device(buffer.address, address, size, buffer.stream)
    return buffer


def of_host_together(device: Device, arrays: Sequence[Array]) -> list[CudaBuffer]:
    """Copies of dense arrays of the host's memory, which lie in one piece and travel together."""
    offsets, size = [], 0
    for array in arrays:
        offsets.append(size)
        size += -(-array.nbytes // _APART) * _APART
    packed = bytearray(size)
    for offset, array in zip(offsets, arrays, strict=True):
        packed[offset : offset + array.nbytes] = array.tobytes()
    base = of_host(device, ctypes.addressof(ctypes.c_char.from_buffer(packed)), size)
    return [
        CudaBuffer(device, base.address + offset, array.nbytes, base.stream, None, base)
        for offset, array in zip(offsets, arrays, strict=True)
    ]


def copied(source: CudaBuffer, device: Device) -> CudaBuffer:
    """A copy on a device, the same or another, for work of this thread's current stream there."""
    copy = allocate(device, source.size)
    copy.deferred_error = source.deferred_error
    if source.size:
        if device is source.device:
            device.context.enter().copy_on_device(copy.address, source.read_on(copy.stream), source.size, copy.stream)
        else:
            _between(source, copy)
    return copy


def _between(source: CudaBuffer, target: CudaBuffer) -> None:
    """Copy from one device to another, in the order of the source's stream; the target's waits for it.

    An event is recorded on a stream of its own device, and any stream may wait for it.
    """
    there, here = source.device.context, target.device.context
    ready = here.take_event()
    here.enter().record_event(ready, target.stream)  # the memory may still be in use by that stream
    there.enter().wait_event(source.stream, ready)
    there.driver.copy_on_device(target.address, source.address, source.size, source.stream)
    done = there.take_event()
    there.driver.record_event(done, source.stream)
    here.enter().wait_event(target.stream, done)
    here.give_event(ready)
    there.give_event(done)


def zeros(device: Device, size: int) -> CudaBuffer:
    """Fresh memory of zero bytes."""
    buffer = allocate(device, size)
    if size:
        device.context.enter().fill_bytes(buffer.address, 0, size, buffer.stream)
    return buffer


# ----------------------------------------------------------------------
# DLPack of device memory: capsules that hand a buffer to another library, and buffers over what others hand over.


def capsule_of(buffer: CudaBuffer, dtype: np.dtype[Any], shape: Sequence[int], *, read_only: bool) -> Any:
    """A capsule for dense memory, of version 1 where it is ``read_only``, which earlier ones cannot say."""
    return capsules.device_capsule(buffer, buffer.address, dtype, shape, buffer.device.ordinal, read_only=read_only)


def taken(capsule: Any, device: Device) -> tuple[CudaBuffer, np.dtype[Any], tuple[int, ...]]:
    """The memory in a capsule, which is used up by this, with the dtype and shape of what lies there.

    SharingError for what is no dense memory of the device, DTypeError for elements that have no dtype here.
    """
    table = dlpack.take(capsule)
    owner, tensor = TakenTable(table), table.tensor
    shape, dtype = capsules.extents(tensor), capsules.dtype_of(tensor)
    if dtype is None:
        kind = (tensor.code, tensor.bits, tensor.lanes)
        raise DTypeError(f"elements of DLPack's type {kind} have no dtype here", hint="a cast in their own library")
    if not capsules.is_table_dense(tensor):
        raise SharingError("the array's elements do not lie in row-major order", hint="x.contiguous(), or a copy")
    if tuple(tensor.device) != (CUDA_MEMORY, device.ordinal):
        raise SharingError(f"the array's memory is on DLPack's device {tuple(tensor.device)}, not on {device.name}")
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    return borrowed(device, (tensor.data or 0) + tensor.byte_offset, size, owner), dtype, shape
