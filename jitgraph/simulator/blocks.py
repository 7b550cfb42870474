"""Runs the threads of one block: a warp goes as far as it can, then another; lanes and warps in seeded order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jitgraph.simulator import fragments, matrices, warp_ops
from jitgraph.simulator.barriers import NAME, Barriers, deadlock
from jitgraph.simulator.host_text import HostText
from jitgraph.simulator.lanes import LaneRecords, Lanes
from jitgraph.simulator.native import native
from jitgraph.simulator.native_text import DONE, WARP_BARRIER
from jitgraph.simulator.orders import Clocks
from jitgraph.simulator.state import WARP, memory

_OF_MATRICES: Final = ("mma.", "ldmatrix.", "stmatrix.")
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
        self._waiting: dict[int, int] = {}  # the site of each thread that waits
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
                raise deadlock(self._threads, self._waiting, self._exited, self._names, self._code.sites)

    def _step(self, warp: int) -> None:
        """The lanes of a warp that may run do so, each until it waits or ends."""
        lanes, self._ready[warp] = self._ready[warp], []
        if self._draw:
            self._draw.shuffle(lanes)
        order = np.array(lanes, np.int32)
        order_at = order.ctypes.data
        whole = np.arange(WARP * warp, WARP * warp + WARP) if len(lanes) == WARP else None
        launch = memory().launch
        while True:
            launch.clock = self.clocks.own(warp)
            if native().run(order_at, len(order)):
                self._fail()
            self.clocks.set(warp, launch.clock)
            if whole is None or not self._all_at_matrices(whole):
                break
            self._together(int(self._records.kind[whole[0]]), whole, warp)
        for lane in lanes:
            kind = int(self._records.kind[lane])
            if kind == DONE:
                self._exited += 1
                continue
            name = self._names[kind]
            if NAME.fullmatch(name) and not self._barriers.arrive(name, lane):
                self._ready[warp].append(lane)
            else:
                self._waiting[lane] = int(self._records.site[lane])
        self._meet(warp)

    def _all_at_matrices(self, lanes: Lanes) -> bool:
        """Whether all lanes of a warp have come to one instruction for matrices; the most frequent meeting of all."""
        kinds = self._records.kind[lanes[0] : lanes[0] + WARP]
        return bool((kinds == kinds[0]).all()) and self._names.get(int(kinds[0]), "").startswith(_OF_MATRICES)

    def _meet(self, warp: int) -> None:
        """Lanes that wait for each other, and are all there, get their results and may run."""
        groups: dict[tuple[int, int | None], list[int]] = {}
        for lane in range(WARP * warp, min(WARP * warp + WARP, self._threads)):
            if lane in self._waiting:
                kind = int(self._records.kind[lane])
                name = self._names[kind]
                if not NAME.fullmatch(name):
                    groups.setdefault((kind, warp_ops.mask_of(name, self._records, lane)), []).append(lane)
        for (kind, mask), lanes in groups.items():
            if mask is not None and sum(1 << lane % WARP for lane in lanes) != mask:
                continue
            self._together(kind, np.array(lanes, np.int64), warp)
            for lane in lanes:
                del self._waiting[lane]
            self._ready[warp] += lanes

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
        done = self._barriers.complete(self._names)
        for _, waiting, came in done:
            self.clocks.meet(sorted({thread // WARP for thread in came}))
            for lane in waiting.tolist():
                del self._waiting[lane]
                self._ready[lane // WARP].append(lane)
        return bool(done)
