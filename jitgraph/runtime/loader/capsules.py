"""DLPack's capsules: tables by which libraries lend each other memory without a copy.

NumPy makes the capsules of device memory, as it does those of the host's: of an array at the memory's address, which
nobody reads. Its deleter is native code, which may run in any thread and while an exception is on its way; the device
and the type are put right in the capsule's table, which belongs to whoever holds the capsule.

Source: DLPack 1.0, https://dmlc.github.io/dlpack/latest/
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph.runtime.loader.specs import dtype_named

CUDA_MEMORY: Final = 2  # DLDeviceType
BFLOAT16: Final = (4, 16, 1)
_CODES: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # DLDataTypeCode by NumPy's kind
_MAJOR_VERSION: Final = 1


class Descriptor(ctypes.Structure):
    """``DLTensor``."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]
    device: ctypes.Array[ctypes.c_int32]
    code: int
    bits: int
    lanes: int


class Managed(ctypes.Structure):
    """``DLManagedTensor``, before version 1."""

    _fields_ = [("tensor", Descriptor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]
    tensor: Descriptor


class Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned``, of version 1."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Descriptor),
    ]
    version: ctypes.Array[ctypes.c_uint32]
    tensor: Descriptor


_LAYOUTS: Final = ((b"dltensor_versioned", Versioned), (b"dltensor", Managed))
_IsValid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_GetPointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_SetName = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_Deleter: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def table_in(capsule: Any, *, takes: bool = False) -> Any:
    """The table in a capsule that has not been taken yet; None for what is none, or of a version that is not known.

    ``takes``: the capsule is used up by this, and whoever has the table calls its deleter.
    """
    is_valid = _IsValid(("PyCapsule_IsValid", ctypes.pythonapi))
    pointer = _GetPointer(("PyCapsule_GetPointer", ctypes.pythonapi))
    for name, layout in _LAYOUTS:
        if is_valid(capsule, name):
            table: Any = layout.from_address(pointer(capsule, name) or 0)
            if layout is Versioned and table.version[0] != _MAJOR_VERSION:
                return None
            if takes:
                _SetName(("PyCapsule_SetName", ctypes.pythonapi))(capsule, _USED[name])
            return table
    return None


_USED: Final = {name: b"used_" + name for name, _ in _LAYOUTS}  # kept: a capsule holds no copy of its name


class TakenTable:
    """A table of another library's, whose deleter is called when its memory is no longer needed."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __del__(self) -> None:
        if self._table.deleter:
            _Deleter(self._table.deleter)(ctypes.addressof(self._table))


def elements_of(dtype: np.dtype[Any]) -> tuple[int, int, int]:
    """DLPack's type of elements."""
    return BFLOAT16 if dtype.name == "bfloat16" else (_CODES[dtype.kind], 8 * dtype.itemsize, 1)


def dtype_of(table: Descriptor) -> np.dtype[Any] | None:
    """The dtype of a table's elements; None for those that have none here."""
    kind = (table.code, table.bits, table.lanes)
    if kind == BFLOAT16:
        return dtype_named("bfloat16")
    letter = {code: letter for letter, code in _CODES.items()}.get(table.code)
    if letter is None or table.lanes != 1 or table.bits % 8:
        return None
    try:
        return np.dtype(f"{letter}{table.bits // 8}")
    except TypeError:
        return None


def extents(table: Descriptor) -> tuple[int, ...]:
    """The shape of what a table describes."""
    return tuple((ctypes.c_int64 * table.ndim).from_address(table.shape)) if table.ndim and table.shape else ()


def is_table_dense(table: Descriptor) -> bool:
    """Whether the elements lie in row-major order, without gaps."""
    if not table.strides or not table.ndim:
        return True
    return in_rows(extents(table), tuple((ctypes.c_int64 * table.ndim).from_address(table.strides)), 1)


def in_rows(shape: Sequence[int], strides: Sequence[int], step: int) -> bool:
    """Whether these are the strides of row-major order, in which ``step`` is the innermost one."""
    if 0 in shape:
        return True
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def device_capsule(
    owner: Any, address: int, dtype: np.dtype[Any], shape: Sequence[int], ordinal: int, *, read_only: bool
) -> Any:
    """A capsule for dense memory of a device, which keeps ``owner`` until its taker's deleter has run.

    It is of version 1 where the memory is ``read_only``, which earlier ones cannot say.
    """
    array = np.asarray(_LentMemory(owner, address, dtype.itemsize, shape, read_only))
    capsule: Any = array.__dlpack__(max_version=(1, 0)) if read_only else array.__dlpack__()
    tensor = table_in(capsule).tensor
    tensor.device[:] = [CUDA_MEMORY, ordinal]
    tensor.code, tensor.bits, tensor.lanes = elements_of(dtype)
    return capsule


class _LentMemory:
    """What keeps an owner under the array of a capsule."""

    def __init__(self, owner: Any, address: int, itemsize: int, shape: Sequence[int], read_only: bool) -> None:
        self._owner = owner
        self.__array_interface__ = {
            "shape": tuple(shape),
            "typestr": "<c16" if itemsize == 16 else f"|u{itemsize}" if itemsize == 1 else f"<u{itemsize}",
            "data": (address, read_only),
            "version": 3,
        }
