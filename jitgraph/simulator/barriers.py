"""Barriers of a block: who waits at which, how many it wants, and what is wrong where nobody can go on.

Source: PTX ISA 9.0, "barrier". A barrier that is ``aligned`` is the same instruction for all threads of a warp.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from jitgraph.records import dataclass
from jitgraph.simulator.accesses import AccessSite
from jitgraph.simulator.faults import DivergenceError
from jitgraph.simulator.lanes import LaneRecords, Lanes
from jitgraph.simulator.state import WARP

NAME: Final = re.compile(r"barrier\.cta\.(sync|arrive|red\.(?:and|or|popc))\.(aligned\.)?(all|count)")
_SHOWN: Final = 8


@dataclass(slots=True)
class Arrived:
    """Those who came to one barrier: threads that wait, and threads that went on."""

    expected: int
    waiting: list[int]
    gone_on: list[int]


class Barriers:
    """The barriers of one block."""

    def __init__(self, threads: int, records: LaneRecords, sites: Sequence[AccessSite]) -> None:
        self._threads, self._records, self._sites = threads, records, sites
        self._open: dict[int, Arrived] = {}

    def arrive(self, name: str, thread: int) -> bool:
        """A thread comes to a barrier; whether it waits there. DivergenceError where two disagree on the number."""
        found = NAME.fullmatch(name)
        assert found
        number = self._records.scalar(thread, 0)
        reduces = found[1].startswith("red")
        expected = self._records.scalar(thread, 1) if found[3] == "count" else self._threads
        arrived = self._open.setdefault(number, Arrived(expected, [], []))
        if number > 15:
            raise DivergenceError(f"barrier {number}: a block has those from 0 to 15")
        if arrived.expected != expected:
            raise DivergenceError(
                f"thread {thread} waits for {expected} threads at barrier {number}, others for {arrived.expected}"
            )
        if found[3] == "count" and (expected % WARP or not expected):
            raise DivergenceError(f"barrier {number} is for {expected} threads, which are no whole warps of {WARP}")
        goes_on = found[1] == "arrive"
        (arrived.gone_on if goes_on else arrived.waiting).append(thread)
        if reduces:
            arrived.expected = expected
        return not goes_on

    def complete(self, names: dict[int, str]) -> list[tuple[int, Lanes, list[int]]]:
        """Barriers at which all have arrived: number, threads to be let go, all who came. They are open no more."""
        done = []
        for number, arrived in list(self._open.items()):
            if len(arrived.waiting) + len(arrived.gone_on) < arrived.expected:
                continue
            waiting = np.sort(np.array(arrived.waiting, np.int64))
            if len(waiting) + len(arrived.gone_on) > arrived.expected:
                raise DivergenceError(
                    f"{len(waiting) + len(arrived.gone_on)} threads came to barrier {number} of {arrived.expected}"
                )
            self._same_instruction(number, waiting, names)
            self._reduce(waiting, names)
            done.append((number, waiting, arrived.waiting + arrived.gone_on))
            del self._open[number]
        return done

    def _same_instruction(self, number: int, waiting: Lanes, names: dict[int, str]) -> None:
        for warp in np.unique(waiting // WARP):
            lanes = waiting[waiting // WARP == warp]
            sites = np.unique(self._records.site[lanes])
            if len(sites) > 1 and any("aligned" in names[int(self._records.kind[lane])] for lane in lanes):
                where = "; ".join(self._sites[int(site)].line for site in sites)
                raise DivergenceError(
                    f"threads of warp {warp} wait at barrier {number} at different instructions: {where}",
                    hint="all threads of a warp have to reach the same barrier instruction",
                )

    def _reduce(self, waiting: Lanes, names: dict[int, str]) -> None:
        name = names[int(self._records.kind[waiting[0]])] if len(waiting) else ""
        found = NAME.fullmatch(name)
        if not found or not found[1].startswith("red"):
            return
        said = self._records.argument(waiting, 2 if found[3] == "count" else 1, np.uint8) & 1 != 0
        answer = {"red.and": said.all(), "red.or": said.any(), "red.popc": said.sum()}[found[1]]
        self._records.give(waiting, np.full(len(waiting), answer, np.uint32))


def deadlock(
    threads: int, waiting: dict[int, int], exited: int, names: dict[int, str], sites: Sequence[AccessSite]
) -> DivergenceError:
    """The error for a block in which no thread can go on; ``waiting``: the site of each thread that waits."""
    by_site: dict[int, list[int]] = {}
    for thread, site in sorted(waiting.items()):
        by_site.setdefault(site, []).append(thread)
    parts = [f"{_named(lanes)} at `{sites[site].line}`" for site, lanes in by_site.items()]
    gone = f"; {exited} of {threads} threads have ended" if exited else ""
    return DivergenceError(
        f"no thread of the block can go on: waiting are {', '.join(parts)}{gone}",
        hint="a barrier, a shuffle or an mma stands in code that not all of its threads reach",
    )


def _named(threads: list[int]) -> str:
    shown = ", ".join(map(str, threads[:_SHOWN]))
    more = f", ... ({len(threads)} threads)" if len(threads) > _SHOWN else ""
    return f"thread{'s' if len(threads) > 1 else ''} {shown}{more}"
