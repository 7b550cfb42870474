"""What a caller passes, as dense arrays that native code can read."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph.runtime.loader.dtypes import Array
from jitgraph.runtime.loader.errors import ArgumentError
from jitgraph.runtime.loader.specs import ValueSpec

_SCALAR_KINDS: Final = {"b": "b", "u": "iub", "i": "iub", "f": "fiub", "V": "fiub"}


def as_array(value: Any, spec: ValueSpec, dtype: np.dtype[Any], where: str) -> Array:
    """``value`` as a dense, aligned array of ``dtype``: borrowed where it is one already, else copied."""
    if not isinstance(value, np.ndarray):
        value = _converted(value, spec, dtype, where)
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(f"{where}: the mask of a masked array would be dropped; pass x.filled(value)")
    if type(value) is not np.ndarray:  # what a subclass says of its shape and dtype need not be so
        value = np.asarray(value)
    if value.dtype != dtype:
        if value.dtype.newbyteorder("=") != dtype:
            raise ArgumentError(
                f"{where}: expected {spec}, got {value.dtype.name}{list(value.shape)}; convert it with "
                f".astype({spec.dtype!r})"
            )
        value = value.astype(dtype)
    array: Array = value
    if not (array.flags.c_contiguous and array.flags.aligned):
        array = np.array(array, order="C", copy=True, subok=False)
    return array


def _converted(value: Any, spec: ValueSpec, dtype: np.dtype[Any], where: str) -> Array:
    """A Python scalar, a nested list or an array of another library as an array; no value may change on the way."""
    if isinstance(value, np.generic):
        scalar: Array = np.array(value)
        return scalar
    if not isinstance(value, (bool, int, float, list, tuple)):
        return _handed_over(value, spec, where)
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise ArgumentError(f"{where}: expected {spec}, got a {type(value).__name__}: {error}") from None
    safe = array.size == 0 or array.dtype.kind in _SCALAR_KINDS.get(dtype.kind, "")
    if dtype.kind == "V" and array.dtype.kind in "biuf":
        safe = True
    with np.errstate(all="ignore"):
        cast = array.astype(dtype) if safe else array
    if not safe or (dtype.kind in "iu" and bool((cast.astype(object) != array.astype(object)).any())):
        raise ArgumentError(
            f"{where}: expected {spec}, got a {type(value).__name__} of {array.dtype.name} values that {spec.dtype} "
            "cannot hold; pass a NumPy array of that dtype"
        )
    return cast


def _handed_over(value: Any, spec: ValueSpec, where: str) -> Array:
    """The elements of an array of another library, over its own memory where that allows it."""
    kind = type(value)
    refusal: Exception | None = None
    if hasattr(kind, "__dlpack__"):
        try:
            shared: Array = np.from_dlpack(value)
            return shared
        except Exception as error:  # whatever the library raises where it does not hand the memory over
            refusal = error
    if hasattr(kind, "__array__") or hasattr(kind, "__array_interface__"):
        try:
            exported: Array = np.asanyarray(value)
            return exported
        except Exception as error:
            refusal = refusal or error
    expected = f"{where}: expected {spec}, got {kind.__name__}"
    if refusal is not None:
        raise ArgumentError(f"{expected}, which does not hand over its elements: {refusal}") from refusal
    alternative = f"its tensors one by one, such as {spec.name}=..." if isinstance(value, dict) else "a NumPy array"
    raise ArgumentError(f"{expected}; pass {alternative}")


READY_FLAGS: Final = 0x101  # NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED
_DATA_OFFSET: Final = object.__basicsize__
_pointer_at = ctypes.c_void_p.from_address


def _address_by_field(array: Array) -> int:
    """The address of the first element: by NumPy's ABI the field behind the object header (``.ctypes`` takes 5 times
    as long, and a training step passes dozens of arrays)."""
    return _pointer_at(id(array) + _DATA_OFFSET).value or 0


def _address_by_attribute(array: Array) -> int:
    return int(array.ctypes.data)


_probe = np.zeros(2)
_direct = sys.implementation.name == "cpython" and _address_by_field(_probe[1:]) == _address_by_attribute(_probe[1:])
address_of = _address_by_field if _direct else _address_by_attribute
"""Where the first element of an array lies."""


def is_dense(array: Array) -> bool:
    """Whether native code can read ``array`` as it is: row-major without gaps, and aligned to its element."""
    return array.flags.num & READY_FLAGS == READY_FLAGS


def overlapping(arrays: Sequence[Array]) -> set[int]:
    """The indices of dense arrays that share memory with another one of them."""
    starts = [address_of(array) for array in arrays]
    shared: set[int] = set()
    reach, holder = -1, -1
    for start, index in sorted(zip(starts, range(len(arrays)), strict=True)):
        if start < reach and arrays[index].nbytes:
            shared |= {index, holder}
        if start + arrays[index].nbytes > reach:
            reach, holder = start + arrays[index].nbytes, index
    return shared
