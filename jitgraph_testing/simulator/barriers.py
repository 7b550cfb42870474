"""Barriers of a block: which threads wait at which, how many it waits for, and what is wrong in a deadlock.

Source: PTX ISA 9.0, "barrier". A barrier that is ``aligned`` is the same instruction for all threads of a warp.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jitgraph.records import NamedTuple, dataclass
from jitgraph_testing.simulator.accesses import AccessSite
from jitgraph_testing.simulator.faults import DivergenceError
from jitgraph_testing.simulator.lanes import LaneRecords, Lanes
from jitgraph_testing.simulator.state import WARP

_NAME: Final = re.compile(r"barrier\.cta\.(sync|arrive|red\.(?:and|or|popc))\.(aligned\.)?(all|count)")
_SHOWN: Final = 8


class BarrierForm(NamedTuple):
    """What the name of a barrier's intrinsic says."""

    waits: bool
    reduces: str  # "and", "or", "popc"; empty where it does not
    aligned: bool
    counts: bool


@cache
def form_of(name: str) -> BarrierForm | None:
    """The form of the barrier ``llvm.nvvm.<name>``; None where it is none of a block."""
    match = _NAME.fullmatch(name)
    if not match:
        return None
    return BarrierForm(
        match[1] != "arrive",
        match[1].removeprefix("red.") if "red." in match[1] else "",
        bool(match[2]),
        match[3] == "count",
    )


@dataclass(slots=True)
class Arrived:
    """Those who came to one barrier: threads that wait, threads that went on, and the form of the last that waits."""

    expected: int
    waiting: list[Lanes]
    gone_on: list[Lanes]
    form: BarrierForm

    @property
    def count(self) -> int:
        """How many have come."""
        return sum(len(lanes) for lanes in (*self.waiting, *self.gone_on))


class Barriers:
    """The barriers of one block."""

    def __init__(self, threads: int, records: LaneRecords, sites: Sequence[AccessSite]) -> None:
        self._threads, self._records, self._sites = threads, records, sites
        self._open: dict[int, Arrived] = {}

    def arrive(self, form: BarrierForm, lanes: Lanes) -> None:
        """Lanes of a warp come to barriers. DivergenceError where threads disagree on how many a barrier is for."""
        numbers = self._records.argument(lanes, 0, np.uint32)
        counts = self._records.argument(lanes, 1, np.uint32) if form.counts else np.full(len(lanes), self._threads)
        for number, expected in sorted(set(zip(numbers.tolist(), counts.tolist(), strict=True))):
            self._arrive(form, lanes[(numbers == number) & (counts == expected)], number, expected)

    def _arrive(self, form: BarrierForm, lanes: Lanes, number: int, expected: int) -> None:
        if number > 15:
            raise DivergenceError(f"barrier {number}: a block has those from 0 to 15")
        if form.counts and (expected % WARP or not expected):
            raise DivergenceError(f"barrier {number} is for {expected} threads, which are no whole warps of {WARP}")
        arrived = self._open.setdefault(number, Arrived(expected, [], [], form))
        if arrived.expected != expected:
            raise DivergenceError(
                f"thread {lanes[0]} waits for {expected} threads at barrier {number}, others for {arrived.expected}"
            )
        if form.waits:
            arrived.waiting.append(lanes)
            arrived.form = form
        else:
            arrived.gone_on.append(lanes)

    def complete(self) -> list[tuple[Lanes, list[int]]]:
        """Barriers at which all have come, which are open no more: the threads that waited, the warps that came."""
        done = []
        for number, arrived in list(self._open.items()):
            if arrived.count < arrived.expected:
                continue
            if arrived.count > arrived.expected:
                raise DivergenceError(f"{arrived.count} threads came to barrier {number} of {arrived.expected}")
            everybody = np.concatenate([*arrived.waiting, *arrived.gone_on])
            waiting = np.sort(np.concatenate(arrived.waiting)) if arrived.waiting else everybody[:0]
            if arrived.form.aligned:
                self._same_instruction(number, waiting)
            if arrived.form.reduces:
                self._reduce(arrived.form, waiting)
            done.append((waiting, sorted(set((everybody // WARP).tolist()))))
            del self._open[number]
        return done

    def _same_instruction(self, number: int, waiting: Lanes) -> None:
        sites = self._records.site[waiting]
        if (sites == sites[:1]).all():
            return
        for warp in np.unique(waiting // WARP):
            distinct = np.unique(sites[waiting // WARP == warp])
            if len(distinct) > 1:
                where = "; ".join(self._sites[int(site)].line for site in distinct)
                raise DivergenceError(
                    f"threads of warp {warp} wait at barrier {number} at different instructions: {where}",
                    hint="all threads of a warp have to reach the same barrier instruction",
                )

    def _reduce(self, form: BarrierForm, waiting: Lanes) -> None:
        votes = self._records.argument(waiting, 2 if form.counts else 1, np.uint8) & 1 != 0
        answer = {"and": votes.all(), "or": votes.any(), "popc": votes.sum()}[form.reduces]
        self._records.give(waiting, np.full(len(waiting), answer, np.uint32))


def deadlock(threads: int, waits: NDArray[np.int32], exited: int, sites: Sequence[AccessSite]) -> DivergenceError:
    """The error for a block in which no thread can go on; ``waits``: the site of each thread that waits, or -1."""
    distinct = np.unique(waits[waits >= 0])
    parts = [f"{_named(np.flatnonzero(waits == site).tolist())} at `{sites[site].line}`" for site in distinct]
    gone = f"; {exited} of {threads} threads have ended" if exited else ""
    return DivergenceError(
        f"no thread of the block can go on: waiting are {', '.join(parts)}{gone}",
        hint="a barrier, a shuffle or an mma stands in code that not all of its threads reach",
    )


def _named(threads: list[int]) -> str:
    shown = ", ".join(map(str, threads[:_SHOWN]))
    more = f", ... ({len(threads)} threads)" if len(threads) > _SHOWN else ""
    return f"thread{'s' if len(threads) > 1 else ''} {shown}{more}"
