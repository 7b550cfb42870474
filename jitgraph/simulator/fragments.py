"""Moves of fragments between shared memory and registers: ldmatrix and stmatrix.

Source: PTX ISA 9.0, "ldmatrix" and "stmatrix". Lane ``8 i + r`` has the address of row r of matrix i.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Final

import numpy as np

from jitgraph.errors import UnsupportedOp
from jitgraph.simulator.lanes import LaneRecords, Lanes
from jitgraph.simulator.native_text import READ, WRITE

_NAME: Final = re.compile(r"(ld|st)matrix\.sync\.aligned\.m8n8\.x([124])(\.trans)?\.b16\.?(?:p\d+)?")
_ROW_BYTES: Final = 16

Look = Callable[[int, int, int, int], None]
"""thread, address, bytes, kind: what makes sure that a row may be touched."""


def move(name: str, records: LaneRecords, lanes: Lanes, look: Look) -> None:
    """Load or store the matrices of a warp; UnsupportedOp where the intrinsic is of another kind."""
    found = _NAME.fullmatch(name)
    if not found:
        raise UnsupportedOp(f"the simulator does not know the intrinsic llvm.nvvm.{name}")
    count, transposed = int(found[2]), bool(found[3])
    addresses = records.argument(lanes, 0, np.int64)
    kind = READ if found[1] == "ld" else WRITE
    for lane in range(8 * count):
        look(int(lanes[lane]), int(addresses[lane]), _ROW_BYTES, kind)
    if kind == READ:
        out = np.empty((len(lanes), count, 2), np.uint16)
        for i in range(count):
            rows = [ctypes.string_at(int(address), _ROW_BYTES) for address in addresses[8 * i : 8 * i + 8]]
            matrix = np.frombuffer(b"".join(rows), np.uint16).reshape(8, 8)
            out[:, i] = (matrix.T if transposed else matrix).reshape(32, 2)
        records.give(lanes, out)
        return
    for i in range(count):
        matrix = records.argument(lanes, 1 + i, np.uint16, 2).reshape(8, 8)
        matrix = np.ascontiguousarray(matrix.T if transposed else matrix)
        for address, row in zip(addresses[8 * i : 8 * i + 8], matrix, strict=True):
            ctypes.memmove(int(address), row.tobytes(), _ROW_BYTES)
