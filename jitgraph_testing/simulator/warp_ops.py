"""What lanes of a warp compute together, where the native half leaves it to Python.

Source: PTX ISA 9.0, "match.sync", "redux.sync", "activemask", "elect.sync", "shfl.sync", "vote.sync".
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from jitgraph_testing.simulator.lanes import ALL, LaneRecords, Lanes
from jitgraph_testing.simulator.state import WARP

_NO_LANE: Final = 0xDEADBEEF
_MASK_FIRST: Final = re.compile(r"shfl\.|vote\.|bar\.warp\.sync|match\.|elect\.")
_MEETS_ANYONE: Final = ("activemask", "nanosleep")

_REDUCTIONS: Final = {
    "add": (np.add, np.uint32),
    "umax": (np.maximum, np.uint32),
    "umin": (np.minimum, np.uint32),
    "max": (np.maximum, np.int32),
    "min": (np.minimum, np.int32),
    "and": (np.bitwise_and, np.uint32),
    "or": (np.bitwise_or, np.uint32),
    "xor": (np.bitwise_xor, np.uint32),
}


def mask_of(name: str, records: LaneRecords, thread: int) -> int | None:
    """The lanes that ``thread`` waits for, a bit each; None where it waits for no particular ones."""
    if name.startswith(_MEETS_ANYONE):
        return None
    if _MASK_FIRST.match(name):
        return records.scalar(thread, 0)
    return records.scalar(thread, 1) if name.startswith("redux.") else ALL


def together(name: str, records: LaneRecords, lanes: Lanes) -> None:
    """Give the lanes their results of the operation ``name``, at which all of them have arrived."""
    bits = np.left_shift(np.uint32(1), (lanes % WARP).astype(np.uint32))
    if name.startswith("shfl."):
        _shuffle(name.split(".")[2], records, lanes)
    elif name.startswith("vote."):
        _vote(name.split(".")[1], records, lanes, bits)
    elif name.startswith("redux."):
        _reduce(name, records, lanes)
    elif name.startswith("match."):
        _match(name, records, lanes, bits)
    elif name == "activemask":
        records.give(lanes, np.full(len(lanes), np.bitwise_or.reduce(bits), np.uint32))
    elif name.startswith("elect."):
        records.give(lanes, np.full(len(lanes), lanes[0] % WARP, np.uint32))
        records.give(lanes, lanes == lanes[0], offset=4)


def _shuffle(mode: str, records: LaneRecords, lanes: Lanes) -> None:
    lane = lanes % WARP
    values = records.argument(lanes, 1, np.uint32)
    by = records.argument(lanes, 2, np.uint32).astype(np.int64) & 31
    control = records.argument(lanes, 3, np.uint32).astype(np.int64)
    segments, clamp = control >> 8 & 31, control & 31
    least = lane & segments
    most = least | (clamp & ~segments & 31)
    source = {"idx": least | (by & ~segments & 31), "up": lane - by, "down": lane + by, "bfly": lane ^ by}[mode]
    valid = source >= most if mode == "up" else source <= most
    by_lane = np.full(WARP, _NO_LANE, np.uint32)
    by_lane[lane] = values
    records.give(lanes, by_lane[np.where(valid, source, lane)])
    records.give(lanes, valid, offset=4)


def _vote(mode: str, records: LaneRecords, lanes: Lanes, bits: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> None:
    votes = records.argument(lanes, 1, np.uint8) & 1 != 0
    answers = {
        "ballot": np.bitwise_or.reduce(bits[votes], initial=np.uint32(0)),
        "any": votes.any(),
        "all": votes.all(),
        "uni": votes.all() or not votes.any(),
    }
    records.give(lanes, np.full(len(lanes), answers[mode], np.uint32))


def _reduce(name: str, records: LaneRecords, lanes: Lanes) -> None:
    kind = name.split(".")[2]
    if kind in ("fmin", "fmax"):
        values = records.argument(lanes, 0, np.float32)
        if ".abs" in name:
            values = np.abs(values)
        if ".NaN" in name:
            result = (np.minimum if kind == "fmin" else np.maximum).reduce(values)
        else:
            result = (np.fmin if kind == "fmin" else np.fmax).reduce(values)
        records.give(lanes, np.full(len(lanes), result, np.float32))
        return
    function, dtype = _REDUCTIONS[kind]
    values = records.argument(lanes, 0, dtype)
    with np.errstate(over="ignore"):
        records.give(lanes, np.full(len(lanes), function.reduce(values, dtype=dtype), dtype))


def _match(name: str, records: LaneRecords, lanes: Lanes, bits: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> None:
    dtype = np.uint64 if "i64" in name else np.uint32
    values = records.argument(lanes, 1, dtype)
    equal = values[:, None] == values[None, :]
    masks = np.bitwise_or.reduce(np.where(equal, bits[None, :], np.uint32(0)), axis=1)
    if name.startswith("match.any"):
        records.give(lanes, masks)
        return
    same = bool(equal.all())
    records.give(lanes, masks if same else np.zeros(len(lanes), np.uint32))
    records.give(lanes, np.full(len(lanes), same), offset=4)
