"""Moves of fragments between shared memory and registers: ldmatrix and stmatrix.

Source: PTX ISA 9.0, "ldmatrix" and "stmatrix". Lane ``8 i + r`` has the address of row r of matrix i.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jitgraph.errors import UnsupportedOp
from jitgraph_testing.simulator.lanes import LaneRecords, Lanes
from jitgraph_testing.simulator.native_text import READ, WRITE

_NAME: Final = re.compile(r"(ld|st)matrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.b16\.?(?:p\d+)?")
_ROW_BYTES: Final = 16

MoveRows = Callable[[Lanes, NDArray[np.int64], NDArray[np.uint8], int], None]
"""lanes, addresses, bytes, kind: makes sure that each lane may touch its row, and moves the bytes."""


@cache
def shape_of(name: str) -> tuple[bool, int, bool]:
    """Whether ``llvm.nvvm.<name>`` loads, how many matrices, and whether transposed; UnsupportedOp for another kind."""
    match = _NAME.fullmatch(name)
    if not match:
        raise UnsupportedOp(f"the simulator does not know the intrinsic llvm.nvvm.{name}")
    return match[1] == "ld", int(match[2]), bool(match[3])


def move(name: str, records: LaneRecords, lanes: Lanes, move_rows: MoveRows) -> None:
    """Load or store the matrices of a warp."""
    load, count, transposed = shape_of(name)
    addresses = np.ascontiguousarray(records.argument(lanes, 0, np.int64)[: 8 * count])
    rows = np.empty((8 * count, _ROW_BYTES), np.uint8)
    if load:
        move_rows(lanes, addresses, rows, READ)
        matrices = rows.view(np.uint16).reshape(count, 8, 8)
        if transposed:
            matrices = matrices.transpose(0, 2, 1)
        records.give(lanes, matrices.reshape(count, 32, 2).transpose(1, 0, 2))
        return
    registers = records.registers(lanes, 1, count, np.uint16, 2).reshape(32, count, 2).transpose(1, 0, 2)
    matrices = registers.reshape(count, 8, 8)
    rows.view(np.uint16).reshape(count, 8, 8)[:] = matrices.transpose(0, 2, 1) if transposed else matrices
    move_rows(lanes, addresses, rows, WRITE)
