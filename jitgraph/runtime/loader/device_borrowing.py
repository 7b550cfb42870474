"""What other libraries have on a device, borrowed for a call: by DLPack, or by ``__cuda_array_interface__``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph.runtime.loader.capsules import (
    CUDA_MEMORY,
    TakenTable,
    dtype_of,
    extents,
    in_rows,
    is_table_dense,
    table_in,
)
from jitgraph.runtime.loader.cuda import CudaDevice
from jitgraph.runtime.loader.device_arrays import DeviceArray
from jitgraph.runtime.loader.errors import ArgumentError
from jitgraph.runtime.loader.specs import ValueSpec

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
