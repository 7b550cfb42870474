"""Sums in the order that a reduce loop says: what its steps contribute, in slots, chunks and a tree of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from jitgraph.codegen.kernels.kernel import Loop
from jitgraph_testing.kernels.lane_state import Array

Combined: TypeAlias = Callable[[Loop, list[Array], list[Array], int], list[Array]]
"""Two sets of accumulators of so many slots, the last axis, as one."""


class OrderedTotal:
    """What the steps of a reduce loop have contributed so far: the chunk in work, and the tree of those before it."""

    def __init__(self, combine: Combined, loop: Loop, init: list[Array]) -> None:
        self.combine, self.loop, self.init = combine, loop, init
        self.slots = [value.copy() for value in init]
        self.done = 0
        self.levels: list[list[Array] | None] = []  # level j: the tree of 2^j chunks, or None

    def absorb(self, elements: list[Array], count: int) -> None:
        """Fold the next ``count`` elements (the last axis) into the slots in order."""
        lanes, block = self.loop.lanes, self.loop.lanes * self.loop.chain
        at = 0
        while at < count:
            if block and self.done and self.done % block == 0:
                self._push()
            first = self.done % lanes
            width = min(lanes - first, count - at)
            left = [slot[..., first : first + width] for slot in self.slots]
            folded = self.combine(self.loop, left, [element[..., at : at + width] for element in elements], width)
            for slot, value in zip(self.slots, folded, strict=True):
                slot[..., first : first + width] = value
            at += width
            self.done += width

    def _push(self) -> None:
        """Put the finished chunk into the tree, as a binary counter adds one."""
        carried, level = self.slots, 0
        while level < len(self.levels) and (before := self.levels[level]) is not None:
            carried = self.combine(self.loop, before, carried, self.loop.lanes)
            self.levels[level] = None
            level += 1
        if level == len(self.levels):
            self.levels.append(None)
        self.levels[level] = carried
        self.slots = [value.copy() for value in self.init]

    def merged(self) -> list[Array]:
        """All chunks as one vector of slots."""
        merged = self.slots
        for before in self.levels:
            if before is not None:
                merged = self.combine(self.loop, before, merged, self.loop.lanes)
        return merged
