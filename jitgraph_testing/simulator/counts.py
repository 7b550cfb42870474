"""What a launch did: bytes, sectors of memory, transactions of shared memory, instructions.

A warp's access to global memory touches sectors of 32 bytes. Shared memory has 32 banks of 4 bytes: the lanes of an
access that want different words of one bank take turns. Accesses of 8 bytes are made for half a warp at a time, those
of 16 bytes for a quarter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jitgraph.records import NamedTuple
from jitgraph_testing.simulator.accesses import AccessSite
from jitgraph_testing.simulator.notes import Accesses
from jitgraph_testing.simulator.state import WARP

_SECTOR, _BANKS, _WORD = 32, 32, 4


class SharedUse(NamedTuple):
    """Accesses of warps to shared memory, the transactions that they took, and the fewest possible."""

    accesses: int
    transactions: int
    least: int


class LaunchCounts(NamedTuple):
    """What a launch did. A sector counts once for each access of a warp; the least are those of dense bytes."""

    threads: int
    instructions: int  # of LLVM IR, by all threads
    bytes_loaded: int
    bytes_stored: int
    atomics: int
    sectors_loaded: int
    sectors_stored: int
    least_sectors_loaded: int
    least_sectors_stored: int
    sectors_of_blocks: int  # each once for each block that loads it, and once for each that stores it
    sectors_of_launch: int  # each once if it is loaded, and once if it is stored
    shared: SharedUse
    shared_by_site: dict[str, SharedUse]  # by the instruction


def counted(blocks: Sequence[Accesses], sites: Sequence[AccessSite], threads: int, instructions: int) -> LaunchCounts:
    """The counts of a launch from the accesses of its blocks."""
    loads, stores, shared = np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros(3, np.int64)
    atomics, of_blocks = 0, 0
    touched: list[NDArray[np.int64]] = []
    by_site: dict[str, SharedUse] = {}
    for accesses in blocks:
        outside = accesses.chosen(~accesses.shared)
        atomics += int(outside.atomic.sum())
        loads += _traffic(outside.chosen(~outside.writes))
        stores += _traffic(outside.chosen(outside.writes))
        touched.append(_touched(outside))
        of_blocks += len(touched[-1])
        inside = accesses.chosen(accesses.shared)
        for site in np.unique(inside.site).tolist():
            use = _turns(inside.chosen(inside.site == site))
            shared += use
            before = by_site.get(sites[site].line, SharedUse(0, 0, 0))
            by_site[sites[site].line] = SharedUse(*[a + b for a, b in zip(before, use, strict=True)])
    return LaunchCounts(
        threads, instructions, int(loads[0]), int(stores[0]), atomics, int(loads[1]), int(stores[1]),
        int(loads[2]), int(stores[2]), of_blocks, len(np.unique(np.concatenate(touched))),
        SharedUse(*shared.tolist()), by_site,
    )  # fmt: skip


def _instances(accesses: Accesses) -> NDArray[np.int64]:
    """A number for each access, the same for those that lanes of a warp make by one instruction at one time."""
    order = np.lexsort((np.arange(len(accesses)), accesses.thread, accesses.site))
    site, thread = accesses.site[order], accesses.thread[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (site[1:] != site[:-1]) | (thread[1:] != thread[:-1])
    position = np.arange(len(order))
    times = np.empty(len(order), np.int64)
    times[order] = position - np.maximum.accumulate(np.where(begins, position, 0))
    keys = np.stack([accesses.warp, accesses.site, times], axis=1)
    return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)


def _touched(accesses: Accesses) -> NDArray[np.int64]:
    """The sectors that are loaded or stored, each once for either."""
    first, last = accesses.address // _SECTOR, (accesses.address + accesses.size - 1) // _SECTOR
    every = [np.stack([first, accesses.writes]), np.stack([last, accesses.writes])]
    sector, writes = np.concatenate(every, axis=1)
    return np.unique(2 * sector + writes)


def _traffic(accesses: Accesses) -> NDArray[np.int64]:
    """Bytes, sectors that warps touch, and the fewest that hold so many bytes."""
    if not len(accesses):
        return np.zeros(3, np.int64)
    instance = _instances(accesses)
    first, last = accesses.address // _SECTOR, (accesses.address + accesses.size - 1) // _SECTOR
    more = np.repeat(np.arange(len(accesses)), last - first + 1)
    begin = np.cumsum(last - first + 1) - (last - first + 1)
    sector = first[more] + np.arange(len(more)) - begin[more]
    touched = len(np.unique(np.stack([instance[more], sector], axis=1), axis=0))
    dense = np.bincount(instance, weights=accesses.size)
    return np.array([accesses.size.sum(), touched, np.ceil(dense / _SECTOR).sum()], np.int64)


def _turns(accesses: Accesses) -> tuple[int, int, int]:
    """Accesses of warps, transactions and the least of them, for one instruction."""
    instance = _instances(accesses)
    lanes_at_once = np.maximum(WARP * _WORD // np.maximum(accesses.size, _WORD), 1)
    phase = accesses.thread % WARP // lanes_at_once
    words = (accesses.address + accesses.size - 1) // _WORD - accesses.address // _WORD + 1
    more = np.repeat(np.arange(len(accesses)), words)
    begin = np.cumsum(words) - words
    word = accesses.address[more] // _WORD + np.arange(len(more)) - begin[more]
    distinct = np.unique(np.stack([instance[more], phase[more], word % _BANKS, word], axis=1), axis=0)
    _, each = np.unique(distinct[:, :3], axis=0, return_counts=True)
    banks = np.unique(distinct[:, :3], axis=0)
    phases, which = np.unique(banks[:, :2], axis=0, return_inverse=True)
    longest = np.zeros(len(phases), np.int64)
    np.maximum.at(longest, which.reshape(-1), each)
    return int(instance.max()) + 1, int(longest.sum()), len(phases)
