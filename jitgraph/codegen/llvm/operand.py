"""Operands of kernel code: a name or literal with its LLVM type, its dtype and its number of lanes."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from jitgraph.dtypes import SHORT_NAMES, DType, bfloat16, bool_, float16, float32, float64, is_bool, is_float, is_signed


class LlvmScalar(NamedTuple):
    """An operand of kernel code: name or literal, its LLVM type, dtype and number of lanes (1: uniform)."""

    name: str
    type: str
    dtype: DType
    lanes: int

    def __str__(self) -> str:
        return f"{self.type} {self.name}"

    @property
    def is_literal(self) -> bool:
        return self.name[0] != "%"


def lanes_of(type: str, lanes: int) -> str:
    """The type of ``lanes`` elements of ``type``; the type itself for one lane."""
    return type if lanes == 1 else f"<{lanes} x {type}>"


_TYPES: dict[DType, str] = {
    dtype: {float16: "half", bfloat16: "i16", float32: "float", float64: "double", bool_: "i1"}.get(
        dtype, f"i{8 * dtype.itemsize}"
    )
    for dtype in SHORT_NAMES
}


def element_type(dtype: DType, fastmath: bool = False) -> str:
    """The LLVM type of one value of ``dtype`` in a register."""
    return "float" if fastmath and dtype.itemsize == 2 and is_float(dtype) else _TYPES[dtype]


def overload(type: str) -> str:
    """``type`` as intrinsics have it in their names: f32, v16f32, i64."""
    if type[0] == "<":
        count, _, element = type[1:-1].split()
        return f"v{count}{overload(element)}"
    return {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(type, type)


def literal(value: float | int | bool, dtype: DType, fastmath: bool = False) -> str:
    """The literal of ``value`` rounded (floats) or wrapped (integers) to ``dtype``."""
    if is_bool(dtype):
        return "true" if value else "false"
    if not is_float(dtype):
        bits = 8 * dtype.itemsize
        wrapped = int(value) & ((1 << bits) - 1)
        return str(wrapped - (1 << bits) if is_signed(dtype) and wrapped >> (bits - 1) else wrapped)
    with np.errstate(all="ignore"):
        rounded = np.asarray(value).astype(dtype)
    if dtype.itemsize == 2 and not fastmath:
        (bits,) = struct.unpack("<H", rounded.tobytes())
        return f"0xH{bits:04X}" if dtype == float16 else str(bits)
    (bits,) = struct.unpack("<Q", rounded.astype(np.float64).tobytes())
    return f"0x{bits:016X}"
