"""The order of accesses in a block: vector clocks, one for each warp."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Clocks:
    """Vector clocks of warps. A warp's own clock moves on at each barrier, so accesses of one value are unordered."""

    def __init__(self, warps: int) -> None:
        self.now = np.ones(warps, np.int32)
        """The interval that each warp is in."""
        self._known = np.eye(warps, dtype=np.int32)
        self._history: list[list[tuple[int, NDArray[np.int32]]]] = [[(1, row.copy())] for row in self._known]

    def meet(self, warps: Sequence[int]) -> None:
        """Warps pass a barrier together: each knows what all of them did before it."""
        which = list(warps)
        self._known[which, which] = self.now[which]
        joined = self._known[which].max(axis=0)
        self.now[which] += 1
        self._known[which] = joined
        self._known[which, which] = self.now[which]
        for warp in which:
            self._history[warp].append((int(self.now[warp]), self._known[warp].copy()))

    def ordered(self, before: tuple[int, int], after: tuple[int, int]) -> bool:
        """Whether what one warp did at a clock is ordered before what a warp did at one: (warp, clock) of each."""
        if before[0] == after[0]:
            return before[1] < after[1]
        rows = self._history[after[0]]
        index = bisect.bisect_right([clock for clock, _ in rows], after[1]) - 1
        return int(rows[index][1][before[0]]) >= before[1]
