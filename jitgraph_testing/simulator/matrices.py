"""Products of matrix tiles and moves of their fragments, by the layouts that the PTX ISA defines.

Source: PTX ISA 9.0, "Matrix Fragments for mma.m16n8k16" and its neighbours. Lane ``4 g + t`` has row g, and column
pairs by t, of an accumulator; operands are packed into registers of 32 bits.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from jitgraph.errors import UnsupportedOp
from jitgraph.records import NamedTuple
from jitgraph_testing.simulator.lanes import LaneRecords, Lanes
from jitgraph_testing.simulator.state import WARP

_NAME: Final = re.compile(r"mma\.m(\d+)n(\d+)k(\d+)\.row\.col\.(satfinite\.)?(.*)")
_GROUP, _PLACE = np.arange(WARP) >> 2, np.arange(WARP) & 3
Array = NDArray[Any]


class MmaShape(NamedTuple):
    """An mma: its sizes, the types of its operands and accumulators, and whether integers saturate."""

    m: int
    n: int
    k: int
    left: str
    right: str
    accumulator: str
    result: str
    saturates: bool


_INTEGERS: Final = {"s8": np.int8, "u8": np.uint8}
_FLOATS: Final = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
_ACCUMULATORS: Final = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}


@cache
def shape_of(name: str) -> MmaShape:
    """What the intrinsic ``llvm.nvvm.<name>`` multiplies; UnsupportedOp where it is no mma that is simulated."""
    match = _NAME.fullmatch(name)
    types = match[5].split(".") if match else []
    if match and types:
        m, n, k = (int(match[i]) for i in (1, 2, 3))
        match types:
            case [("bf16" | "tf32") as kind]:
                return MmaShape(m, n, k, kind, kind, "f32", "f32", False)
            case ["f64"]:
                return MmaShape(m, n, k, "f64", "f64", "f64", "f64", False)
            case [("f16" | "f32") as result, ("f16" | "f32") as accumulator] if m == 16:  # m8n8k4 has its own fragments
                return MmaShape(m, n, k, "f16", "f16", accumulator, result, False)
            case ["f32", left, right, "f32"] if left in _FLOATS and right in _FLOATS:
                return MmaShape(m, n, k, left, right, "f32", "f32", False)
            case [left] if left in _INTEGERS:
                return MmaShape(m, n, k, left, left, "s32", "s32", bool(match[4]))
            case [left, right] if left in _INTEGERS and right in _INTEGERS:
                return MmaShape(m, n, k, left, right, "s32", "s32", bool(match[4]))
    raise UnsupportedOp(f"the simulator does not know the product llvm.nvvm.{name}")


@cache
def left_positions(m: int, k: int, each: int) -> tuple[Array, Array]:
    """Rows and columns of A, (lane, element), where a register has ``each`` elements side by side."""
    per_lane = m * k // WARP
    element = np.arange(per_lane)
    inside, register = element % each, element // each
    row = _GROUP[:, None] + 8 * (register % (m // 8))[None, :]
    column = _PLACE[:, None] * each + inside[None, :] + 4 * each * (register // (m // 8))[None, :]
    return row, column


@cache
def right_positions(k: int, n: int, each: int) -> tuple[Array, Array]:
    """Rows and columns of B, (lane, element)."""
    element = np.arange(k * n // WARP)
    inside, register = element % each, element // each
    row = _PLACE[:, None] * each + inside[None, :] + 4 * each * register[None, :]
    return row, np.broadcast_to(_GROUP[:, None], row.shape)


@cache
def accumulator_positions(m: int, n: int) -> tuple[Array, Array]:
    """Rows and columns of C and D, (lane, element)."""
    element = np.arange(m * n // WARP)
    row = _GROUP[:, None] + 8 * (element // 2)[None, :]
    return row, _PLACE[:, None] * 2 + (element % 2)[None, :]


def multiply(name: str, records: LaneRecords, lanes: Lanes) -> None:
    """D = A B + C of a warp: the products exact, the sum in float64 (int64), rounded once."""
    shape = shape_of(name)
    m, n, k = shape.m, shape.n, shape.k
    left = _operand(records, lanes, 0, shape.left, m * k // WARP)
    right = _operand(records, lanes, _registers(shape.left, m * k // WARP), shape.right, k * n // WARP)
    first = _registers(shape.left, m * k // WARP) + _registers(shape.right, k * n // WARP)
    count = m * n // WARP
    each = 2 if shape.accumulator == "f16" else 1
    start = records.registers(lanes, first, count // each, _ACCUMULATORS[shape.accumulator], each)
    wide: Any = np.int64 if shape.accumulator == "s32" else np.float64
    a, b, c = np.zeros((m, k), wide), np.zeros((k, n), wide), np.zeros((m, n), wide)
    a[left_positions(m, k, _each(shape.left))] = left.astype(wide)
    b[right_positions(k, n, _each(shape.right))] = right.astype(wide)
    c[accumulator_positions(m, n)] = start.astype(wide)
    with np.errstate(all="ignore"):
        d = a @ b + c
        if shape.saturates:
            d = np.clip(d, -(2**31), 2**31 - 1)
        result = d[accumulator_positions(m, n)].astype(_ACCUMULATORS[shape.result])
    records.give(lanes, result)


def _each(kind: str) -> int:
    """Elements in a register."""
    return {"f64": 1, "tf32": 1, "f16": 2, "bf16": 2}.get(kind, 4)


def _registers(kind: str, elements: int) -> int:
    return elements // _each(kind)


def _operand(records: LaneRecords, lanes: Lanes, first: int, kind: str, elements: int) -> Array:
    each = _each(kind)
    dtype = _INTEGERS.get(kind) or _FLOATS[kind]
    values = records.registers(lanes, first, elements // each, dtype, each)
    if kind == "tf32":  # hardware reads 10 bits of the mantissa
        values = (values.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return values
