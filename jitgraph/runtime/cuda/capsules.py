"""DLPack of device memory: capsules that hand a buffer to another library, and buffers over what others hand over.

NumPy makes the capsules, as it does for the CPU's memory: of an array at the buffer's address, which nobody reads. Its
deleter is native code, which may run in any thread and while an exception is on its way; the device and the type are
put right in the capsule's descriptor.

Source: DLPack 1.0, https://dmlc.github.io/dlpack/latest/
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph.dtypes import bfloat16
from jitgraph.errors import DTypeError, SharingError
from jitgraph.runtime import dlpack
from jitgraph.runtime.cuda import buffers
from jitgraph.runtime.cuda.buffers import CudaBuffer
from jitgraph.runtime.cuda.devices import Device
from jitgraph.runtime.dlpack import BFLOAT16, Descriptor, descriptor

CUDA: Final = 2
_CODES: Final = {"i": 0, "u": 1, "f": 2, "b": 6}
_Deleter: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def capsule_of(buffer: CudaBuffer, dtype: np.dtype[Any], shape: Sequence[int], *, read_only: bool) -> Any:
    """A capsule for dense memory, of version 1 where it is ``read_only``, which earlier ones cannot say."""
    array = np.asarray(_Memory(buffer, dtype.itemsize, shape, read_only))
    capsule = array.__dlpack__(max_version=(1, 0) if read_only else None)
    found = descriptor(capsule)
    found.device[:] = [CUDA, buffer.device.ordinal]
    found.code, found.bits, found.lanes = type_of(dtype)
    return capsule


class _Memory:
    """What keeps a buffer under the array of a capsule."""

    def __init__(self, buffer: CudaBuffer, itemsize: int, shape: Sequence[int], read_only: bool) -> None:
        self._buffer = buffer
        self.__array_interface__ = {
            "shape": tuple(shape),
            "typestr": f"|u{itemsize}" if itemsize == 1 else np.dtype(f"u{itemsize}").str,
            "data": (buffer.address, read_only),
            "version": 3,
        }


def taken(capsule: Any, device: Device) -> tuple[CudaBuffer, np.dtype[Any], tuple[int, ...]]:
    """The memory in a capsule, which is used up by this, with the dtype and shape of what lies there.

    SharingError for what is no dense memory of the device, DTypeError for elements that have no dtype here.
    """
    return _buffer_of(dlpack.take(capsule), device)


def type_of(dtype: np.dtype[Any]) -> tuple[int, int, int]:
    """DLPack's type of elements."""
    return BFLOAT16 if dtype == bfloat16 else (_CODES[dtype.kind], 8 * dtype.itemsize, 1)


class _Taken:
    """A table of another library's, which is told when nobody needs its memory any more."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __del__(self) -> None:
        if self._table.deleter:
            _Deleter(self._table.deleter)(ctypes.addressof(self._table))


def _buffer_of(table: Any, device: Device) -> tuple[CudaBuffer, np.dtype[Any], tuple[int, ...]]:
    owner, found = _Taken(table), table.tensor
    shape = tuple((ctypes.c_int64 * found.ndim).from_address(found.shape)) if found.ndim else ()
    dtype = _dtype_of(found)
    if found.strides and 0 not in shape:
        steps = tuple((ctypes.c_int64 * found.ndim).from_address(found.strides))
        dense = _dense_steps(shape)
        if any(step != known for step, known, size in zip(steps, dense, shape, strict=True) if size > 1):
            raise SharingError("the array's elements do not lie in row-major order", hint="x.contiguous(), or a copy")
    if tuple(found.device) != (CUDA, device.ordinal):
        raise SharingError(f"the array's memory is on DLPack's device {tuple(found.device)}, not on {device.name}")
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    return buffers.borrowed(device, (found.data or 0) + found.byte_offset, size, owner), dtype, shape


def _dtype_of(found: Descriptor) -> np.dtype[Any]:
    kind = (found.code, found.bits, found.lanes)
    if kind == BFLOAT16:
        return np.dtype(bfloat16)
    letter = {code: letter for letter, code in _CODES.items()}.get(found.code)
    if letter is None or found.lanes != 1 or found.bits % 8:
        raise DTypeError(f"elements of DLPack's type {kind} have no dtype here", hint="a cast in their own library")
    return np.dtype(f"{letter}{found.bits // 8}")


def _dense_steps(shape: Sequence[int]) -> tuple[int, ...]:
    steps, step = [], 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))
