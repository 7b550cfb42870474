"""Runs the threads of one block: a warp goes as far as it can, then another; lanes and warps in seeded order."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jitgraph_testing.simulator import fragments, matrices, warp_ops
from jitgraph_testing.simulator.barriers import Barriers, deadlock, form_of
from jitgraph_testing.simulator.host_text import HostText
from jitgraph_testing.simulator.lanes import LaneRecords, Lanes
from jitgraph_testing.simulator.native import native
from jitgraph_testing.simulator.native_text import DONE, WARP_BARRIER
from jitgraph_testing.simulator.orders import Clocks
from jitgraph_testing.simulator.state import WARP, memory

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
        self._all_ready = True  # all threads may run, and none has ended
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
            if self._all_ready:
                self._round()
                continue
            warp = next((w for w in self._preference if self._ready[w]), None)
            if warp is not None:
                self._step(warp)
            elif not self._release():
                raise deadlock(self._threads, self._waits, self._exited, self._code.sites)

    def _round(self) -> None:
        """All threads may run: each warp does so once, natively, as long as all of them meet at one barrier."""
        warps = len(self._preference)
        orders = self._orders()
        preference = np.array(self._preference, np.int32)
        pointers = orders.ctypes.data, preference.ctypes.data
        launch = memory().launch
        match native().round(*pointers, warps, self._threads, self.clocks.now.ctypes.data):
            case 0:
                if launch.log:
                    self.clocks.meet(range(warps))
            case 1:
                self._fail()
            case 2:
                self._all_ready = False
                for warp in self._preference[: launch.warps_run]:
                    self._ready[warp] = []
                    self._sort(warp, np.arange(WARP * warp, min(WARP * warp + WARP, self._threads)))
            case _:
                self._exited = self._threads

    def _orders(self) -> NDArray[np.int32]:
        """The lanes of each warp, in the order in which they run."""
        warps = len(self._preference)
        numbers = [self._draw.randrange(_ORDERS) if self._draw else -1 for _ in range(warps)]
        rows = _all_orders()[numbers] + WARP * np.arange(warps, dtype=np.int32)[:, None]
        if last := self._threads % WARP:
            rows[-1, :last] = rows[-1][rows[-1] < self._threads]
        return rows

    def _step(self, warp: int) -> None:
        """The lanes of a warp that may run do so, each until it waits or ends."""
        lanes = np.array(sorted(self._ready[warp]), np.int64)
        self._ready[warp] = []
        order = lanes.astype(np.int32)
        if self._draw:
            drawn = _all_orders()[self._draw.randrange(_ORDERS)]
            order = order[drawn[drawn < len(order)]]
        order_at = order.ctypes.data
        is_full = len(lanes) == WARP
        launch = memory().launch
        while True:
            launch.clock = self.clocks.now[warp]
            if native().run(order_at, len(order)):
                self._fail()
            self.clocks.now[warp] = launch.clock
            if not is_full or not self._all_at_matrices(lanes):
                break
            self._together(int(self._records.kind[lanes[0]]), lanes, warp)
        self._sort(warp, lanes)

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
        for (kind, mask), members in groups.items():
            if mask is not None and sum(1 << lane % WARP for lane in members) != mask:
                continue
            lanes = np.array(members, np.int64)
            self._together(kind, lanes, warp)
            self._waits[lanes] = -1
            self._ready[warp] += members

    def _together(self, kind: int, lanes: Lanes, warp: int) -> None:
        name = self._names[kind]
        if kind == WARP_BARRIER:
            self.clocks.now[warp] += 1
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
        memory().launch.clock = self.clocks.now[int(lanes[0]) // WARP]
        pointers = addresses.ctypes.data, lanes.ctypes.data
        if native().rows(*pointers, len(addresses), kind, site, rows.ctypes.data):
            self._fail()

    def _release(self) -> bool:
        """Open the barriers at which all are; whether there is one."""
        done = self._barriers.complete()
        for waiting, warps in done:
            self.clocks.meet(warps)
            self._waits[waiting] = -1
            for warp in warps:
                self._ready[warp] += waiting[waiting // WARP == warp].tolist()
        self._all_ready = bool(done) and len(done[0][0]) == self._threads
        return bool(done)


@cache
def _all_orders() -> NDArray[np.int32]:
    """Orders of the lanes of a warp, a row each; the last one is as they are numbered."""
    drawn = [np.random.default_rng(number).permutation(WARP) for number in range(_ORDERS)]
    return np.array([*drawn, np.arange(WARP)], np.int32)
