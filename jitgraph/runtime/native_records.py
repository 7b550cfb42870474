"""The record of a compiled function that C calls: what its entry needs beside the caller's buffers, word by word.

``codegen/native_calls.py`` reads it, ``native/function.py`` fills it in.
"""

from __future__ import annotations

import ctypes
from typing import Final

from jitgraph.runtime.loader.abi import ALIGNMENT, Call

FUNCTIONS: Final = ("call", "of_number", "of_numbers", "of_window", "of_line")
"""What the image of native calls exports, by number."""

ARENAS: Final = 16
"""Workspaces that a function keeps for later calls: as many threads as call it at once find one without allocating."""

_WORDS: Final = (
    "entry",
    "host",
    "dims",
    "arena_bytes",  # of the entry
    "room_bytes",  # behind them: for outputs that the caller has not aligned
    "input_count",
    "state_count",
    "output_count",
    "state",  # addresses of the tensors that the function brings along
    "sizes",  # bytes of each output
    "offsets",  # of each output in the room for those that are not aligned
    "numbers",  # elements of the inputs together, for callbacks that are told how many there are
    "results",  # and of the outputs
    "error",  # of the last callback that failed: code and check, index, bound
    "error_index",
    "error_bound",
    "arenas",
)
NATIVE: Final = {name: 8 * number for number, name in enumerate(_WORDS)}
NATIVE_BYTES: Final = NATIVE["arenas"] + 8 * ARENAS
__all__ = ["ALIGNMENT", "ARENAS", "CALL_BYTES", "FUNCTIONS", "NATIVE", "NATIVE_BYTES"]

CALL_BYTES: Final = ctypes.sizeof(Call)
