"""Runs the threads of one block: a warp goes as far as it can, then another; lanes and warps in seeded order."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jitgraph.simulator import fragments, matrices, warp_ops
from jitgraph.simulator.barriers import Barriers, deadlock, form_of
from jitgraph.simulator.host_text import HostText
from jitgraph.simulator.lanes import LaneRecords, Lanes
from jitgraph.simulator.native import native
from jitgraph.simulator.native_text import DONE, WARP_BARRIER
from jitgraph.simulator.orders import Clocks
from jitgraph.simulator.state import WARP, memory

_OF_MATRICES: Final = ("mma.", "ldmatrix.", "stmatrix.")
_ORDERS: Final = 64
"""Orders of lanes to draw from."""

_REDRAWN: Final = 0.1
"""How often warps get another order of preference."""


class ThreadBlock:
    """One block of a launch; made anew for each."""

    def __init__(
        self, code: HostText, records: LaneRecords, threads: int, draw: random.Random | None, fail: Callable[[], None]
    ) -> None:
        self._code, self._records, self._threads, self._draw, self._fail = code, records, threads, draw, fail
        self._names = code.events
        self._barriers = Barriers(threads, records, code.sites)
        self._waits = np.full(threads, -1, np.int32)  # the site of each thread that waits
        self._exited = 0
        warps = -(-threads // WARP)
        self._ready = [list(range(WARP * w, min(WARP * w + WARP, threads))) for w in range(warps)]
        self._preference = list(range(warps))
        self.clocks = Clocks(warps)

    def run(self) -> None:
        """Until all threads have ended; DivergenceError where none can go on, and what ``fail`` raises."""
        native().prepare(self._threads)
        if self._draw:
            self._draw.shuffle(self._preference)
        while self._exited < self._threads:
            if self._draw and self._draw.random() < _REDRAWN:
                self._draw.shuffle(self._preference)
            warp = next((w for w in self._preference if self._ready[w]), None)
            if warp is not None:
                self._step(warp)
            elif not self._release():
                raise deadlock(self._threads, self._waits, self._exited, self._code.sites)

    def _step(self, warp: int) -> None:
        """The lanes of a warp that may run do so, each until it waits or ends."""
        order = np.array(self._ready[warp], np.int32)
        self._ready[warp] = []
        if self._draw and len(order) > 1:
            order = order[_shuffled(len(order), self._draw.randrange(_ORDERS))]
        order_at = order.ctypes.data
        whole = np.arange(WARP * warp, WARP * warp + WARP) if len(order) == WARP else None
        launch = memory().launch
        while True:
            launch.clock = self.clocks.own(warp)
            if native().run(order_at, len(order)):
                self._fail()
            self.clocks.set(warp, launch.clock)
            if whole is None or not self._all_at_matrices(whole):
                break
            self._together(int(self._records.kind[whole[0]]), whole, warp)
        self._sort(warp, order.astype(np.int64))

    def _sort(self, warp: int, lanes: Lanes) -> None:
        """Lanes have run: they have ended, wait at a barrier, or for others of the warp."""
        kinds = self._records.kind[lanes]
        meets = False
        for kind in set(kinds.tolist()):
            group = lanes[kinds == kind]
            if kind == DONE:
                self._exited += len(group)
                continue
            form = form_of(self._names[kind])
            if form:
                self._barriers.arrive(form, group)
            if form and not form.waits:
                self._ready[warp] += group.tolist()
            else:
                self._waits[group] = self._records.site[group]
                meets |= form is None
        if meets:
            self._meet(warp)

    def _all_at_matrices(self, lanes: Lanes) -> bool:
        """Whether all lanes of a warp have come to one instruction for matrices; the most frequent meeting of all."""
        kinds = self._records.kind[lanes[0] : lanes[0] + WARP]
        return bool((kinds == kinds[0]).all()) and self._names.get(int(kinds[0]), "").startswith(_OF_MATRICES)

    def _meet(self, warp: int) -> None:
        """Lanes that wait for each other, and are all there, get their results and may run."""
        groups: dict[tuple[int, int | None], list[int]] = {}
        here = self._waits[WARP * warp : WARP * warp + WARP]
        for lane in (np.flatnonzero(here >= 0) + WARP * warp).tolist():
            kind = int(self._records.kind[lane])
            if not form_of(name := self._names[kind]):
                groups.setdefault((kind, warp_ops.mask_of(name, self._records, lane)), []).append(lane)
        for (kind, mask), found in groups.items():
            if mask is not None and sum(1 << lane % WARP for lane in found) != mask:
                continue
            lanes = np.array(found, np.int64)
            self._together(kind, lanes, warp)
            self._waits[lanes] = -1
            self._ready[warp] += found

    def _together(self, kind: int, lanes: Lanes, warp: int) -> None:
        name = self._names[kind]
        if kind == WARP_BARRIER:
            self.clocks.set(warp, self.clocks.own(warp) + 1)
        elif name == "nanosleep":
            self._preference.remove(warp)
            self._preference.append(warp)
        elif name.startswith("mma."):
            matrices.multiply(name, self._records, lanes)
        elif name.startswith(("ldmatrix.", "stmatrix.")):
            fragments.move(name, self._records, lanes, self._rows)
        else:
            warp_ops.together(name, self._records, lanes)

    def _rows(self, lanes: Lanes, addresses: NDArray[np.int64], rows: NDArray[np.uint8], kind: int) -> None:
        """Move rows between shared memory and ``rows`` for an instruction of a whole warp, each row by a lane."""
        site = int(self._records.site[lanes[0]])
        memory().launch.clock = self.clocks.own(int(lanes[0]) // WARP)
        places = addresses.ctypes.data, lanes.ctypes.data
        if native().rows(*places, len(addresses), kind, site, rows.ctypes.data):
            self._fail()

    def _release(self) -> bool:
        """Open the barriers at which all are; whether there is one."""
        done = self._barriers.complete()
        for waiting, warps in done:
            self.clocks.meet(warps)
            self._waits[waiting] = -1
            for warp in warps:
                self._ready[warp] += waiting[waiting // WARP == warp].tolist()
        return bool(done)


@lru_cache(maxsize=WARP * _ORDERS)
def _shuffled(count: int, number: int) -> NDArray[np.int64]:
    """One of the orders of so many lanes."""
    return np.random.default_rng(number).permutation(count)
