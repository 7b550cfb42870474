"""Finds accesses to the same memory that nothing orders, one of them a write: within a block, and between blocks.

Looked at are, for each access, the last write before it and the last access of another thread before it. Two atomic
operations are no race. What a warp's threads do is ordered by barriers of the warp or of the block; blocks are ordered
by nothing but atomic operations on one address, of the first behind its access and of the second before its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from jitgraph.records import NamedTuple
from jitgraph_testing.simulator.accesses import AccessSite
from jitgraph_testing.simulator.faults import RaceError
from jitgraph_testing.simulator.notes import Accesses
from jitgraph_testing.simulator.orders import Clocks

Pairs = NDArray[np.int64]
"""(pairs, 2): numbers of accesses, the earlier one first."""


class Who(NamedTuple):
    """What messages need: the kernel, its instructions, and words for an address."""

    kernel: str
    sites: Sequence[AccessSite]
    describe: Callable[[int], str]


def within_block(who: Who, accesses: Accesses, clocks: Clocks) -> None:
    """RaceError where two threads of one block race."""
    pairs = _meetings(accesses, accesses.thread)
    if not len(pairs):
        return
    first, second = accesses.chosen(pairs[:, 0]), accesses.chosen(pairs[:, 1])
    keys = np.stack([first.warp, first.clock, second.warp, second.clock], axis=1)
    distinct, which = np.unique(keys, axis=0, return_inverse=True)
    free = np.array([not clocks.ordered((a, b), (c, d)) for a, b, c, d in distinct.tolist()])[which.reshape(-1)]
    if free.any():
        race = int(np.flatnonzero(free)[0])
        raise _error(who, accesses, int(pairs[race, 0]), int(pairs[race, 1]), "nothing orders them within the block")


def between_blocks(who: Who, accesses: Accesses) -> None:
    """RaceError where two blocks race for global memory."""
    pairs = _meetings(accesses, accesses.block)
    if not len(pairs):
        return
    atomics = np.flatnonzero(accesses.atomic)
    for first, second in pairs.tolist():
        behind = atomics[(atomics > first) & (accesses.block[atomics] == accesses.block[first])]
        before = atomics[(atomics < second) & (accesses.block[atomics] == accesses.block[second])]
        if not np.isin(accesses.address[behind], accesses.address[before]).any():
            raise _error(who, accesses, first, second, "nothing orders blocks")


def _meetings(accesses: Accesses, owner: NDArray[np.int64]) -> Pairs:
    """Pairs of accesses by different owners to the same memory, one a write, and not both atomic."""
    if not len(accesses):
        return np.empty((0, 2), np.int64)
    unit = 4 if not ((accesses.address | accesses.size) & 3).any() else 1
    pieces = accesses.size // unit
    index = np.repeat(np.arange(len(accesses)), pieces)
    inside = np.arange(len(index)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    cell = accesses.address[index] // unit + inside
    order = np.argsort(cell, kind="stable")
    index, cell = index[order], cell[order]
    who, position = owner[index], np.arange(len(index))
    begins = np.ones(len(index), bool)
    begins[1:] = cell[1:] != cell[:-1]
    group = np.maximum.accumulate(np.where(begins, position, 0))
    turns = begins.copy()
    turns[1:] |= who[1:] != who[:-1]
    other = np.maximum.accumulate(np.where(turns, position, 0)) - 1  # the last access of another owner
    written = np.maximum.accumulate(np.where(accesses.writes[index], position, -1))
    written = np.concatenate([[-1], written[:-1]])  # the last write before
    pairs = []
    for earlier in (other, written):
        real = np.flatnonzero(earlier >= group)
        first, second = index[earlier[real]], index[real]
        racing = accesses.writes[first] | accesses.writes[second]
        racing &= ~(accesses.atomic[first] & accesses.atomic[second])
        racing &= owner[first] != owner[second]
        pairs.append(np.stack([first[racing], second[racing]], axis=1))
    return np.unique(np.concatenate(pairs), axis=0)


def _error(who: Who, accesses: Accesses, first: int, second: int, why: str) -> RaceError:
    def said(number: int) -> str:
        what = "updates" if accesses.atomic[number] else "writes" if accesses.writes[number] else "reads"
        line = who.sites[int(accesses.site[number])].line
        return f"thread {accesses.thread[number]} of block {accesses.block[number]} {what} (`{line}`)"

    address = max(int(accesses.address[first]), int(accesses.address[second]))
    return RaceError(f"{who.kernel}: {said(first)} and {said(second)} the same memory, {who.describe(address)}; {why}")
