"""The records of the threads of a block, as arrays: what lanes ask for, and what they are given."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from jitgraph_testing.simulator.state import ARGUMENTS, memory

Lanes = NDArray[np.int64]
"""Numbers of threads of the block, ascending."""

ALL: Final = 0xFFFFFFFF


class LaneRecords:
    """Views of all records; the first axis is the thread."""

    def __init__(self) -> None:
        fields: Any = np.ctypeslib.as_array(memory().fibers)
        self.kind: NDArray[np.int32] = fields["kind"]
        self.site: NDArray[np.int32] = fields["site"]
        self.identity: NDArray[np.int32] = np.lib.stride_tricks.as_strided(
            fields["thread_id"][:, 0], (len(fields), 6), (fields.strides[0], 4)
        )
        self._slots: NDArray[np.uint8] = fields["arguments"]
        self._arguments: NDArray[np.uint8] = self._slots.reshape(len(fields), 16 * ARGUMENTS)
        self._results: NDArray[np.uint8] = fields["result"]

    def argument(self, lanes: Lanes, number: int, dtype: Any, count: int = 1) -> NDArray[Any]:
        """Argument ``number`` of each lane: (lanes,), or (lanes, count) where it is a vector."""
        size = np.dtype(dtype).itemsize * count
        raw = np.ascontiguousarray(self._arguments[lanes, 16 * number : 16 * number + size])
        values: NDArray[Any] = raw.view(dtype)
        return values[:, 0] if count == 1 else values

    def registers(self, lanes: Lanes, first: int, count: int, dtype: Any, each: int) -> NDArray[Any]:
        """``count`` arguments of ``each`` elements of every lane: (lanes, count * each)."""
        size = np.dtype(dtype).itemsize * each
        raw = np.ascontiguousarray(self._slots[lanes, first : first + count, :size])
        values: NDArray[Any] = raw.reshape(len(lanes), count * size).view(dtype)
        return values

    def scalar(self, thread: int, number: int) -> int:
        """Argument ``number`` of one thread, an unsigned integer of 32 bits."""
        return int(self._arguments[thread, 16 * number : 16 * number + 4].view(np.uint32)[0])

    def give(self, lanes: Lanes, values: NDArray[Any], offset: int = 0) -> None:
        """Results of the lanes, a row each, from byte ``offset`` on."""
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(lanes), -1)
        self._results[lanes, offset : offset + raw.shape[1]] = raw
