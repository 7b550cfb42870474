"""DLPack of device memory: capsules that hand a buffer to another library, and buffers over what others hand over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph.errors import DTypeError, SharingError
from jitgraph.runtime import dlpack
from jitgraph.runtime.cuda import buffers
from jitgraph.runtime.cuda.buffers import CudaBuffer
from jitgraph.runtime.cuda.devices import Device
from jitgraph.runtime.loader import capsules
from jitgraph.runtime.loader.capsules import CUDA_MEMORY, TakenTable


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
    return buffers.borrowed(device, (tensor.data or 0) + tensor.byte_offset, size, owner), dtype, shape
