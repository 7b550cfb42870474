"""Blocks: device memory cut into pieces, and lists of the free ones by size."""

from __future__ import annotations

import bisect
from typing import Final

ALIGNMENT: Final = 512
"""Every block begins at a multiple of this and spans one."""

_MIB: Final = 1 << 20
_SMALL: Final = _MIB  # bytes up to which blocks share segments of SMALL_SEGMENT
_SMALL_SEGMENT: Final = 2 * _MIB
_MIDDLE: Final = 10 * _MIB  # up to which they share segments of MIDDLE_SEGMENT; larger ones have their own
_MIDDLE_SEGMENT: Final = 20 * _MIB


def rounded(size: int) -> int:
    """The bytes of the block that holds ``size`` bytes, 1 at least."""
    return max(1, -(-size // ALIGNMENT)) * ALIGNMENT


def segment_size(size: int) -> int:
    """The bytes to ask the driver for, for a block of ``size`` bytes."""
    if size <= _SMALL:
        return _SMALL_SEGMENT
    return _MIDDLE_SEGMENT if size < _MIDDLE else -(-size // _SMALL_SEGMENT) * _SMALL_SEGMENT


def is_worth_splitting(size: int, rest: int) -> bool:
    """Whether what a block of ``size`` bytes leaves over becomes a block: what is large is not cut into crumbs."""
    return rest >= ALIGNMENT if size <= _SMALL else rest > _SMALL


class MemoryBlock:
    """A piece of a segment, between its neighbours there; ``stream`` is the one in whose order it is used again."""

    __slots__ = (
        "address",
        "asked",
        "following",
        "free",
        "is_shown",
        "is_small",
        "preceding",
        "size",
        "stream",
        "used_on",
    )

    def __init__(self, address: int, size: int, stream: int, *, is_small: bool) -> None:
        self.address = address
        self.size = size
        self.stream = stream
        self.is_small = is_small
        self.free = False
        self.preceding: MemoryBlock | None = None
        self.following: MemoryBlock | None = None
        self.asked = size  # what it was handed out for, which may be a little less than its size
        self.used_on: set[int] = set()  # other streams, whose work has to be done before it is used again
        self.is_shown = False  # whether another library has seen it, whose streams nobody knows

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its segment."""
        return self.preceding is None and self.following is None

    def cut(self, size: int) -> MemoryBlock:
        """Keep ``size`` bytes; the rest as a block of its own."""
        rest = MemoryBlock(self.address + size, self.size - size, self.stream, is_small=self.is_small)
        rest.preceding, rest.following = self, self.following
        if self.following is not None:
            self.following.preceding = rest
        self.following, self.size = rest, size
        return rest

    def absorb(self) -> None:
        """Take in the block that follows."""
        other = self.following
        assert other is not None
        self.size += other.size
        self.following = other.following
        if other.following is not None:
            other.following.preceding = self


def is_small(size: int) -> bool:
    """Whether a block of ``size`` bytes lies among small ones."""
    return size <= _SMALL


class FreeBlocks:
    """The free blocks of one stream and kind, by size and then by address.

    A signal handler may raise anywhere. So a block counts as free when all else is done, and as taken before anything
    is: what such an end leaves behind is memory that nobody uses, and never memory that two do.
    """

    def __init__(self) -> None:
        self._keys: list[tuple[int, int]] = []
        self._blocks: dict[int, MemoryBlock] = {}

    def add(self, block: MemoryBlock) -> None:
        bisect.insort(self._keys, (block.size, block.address))
        self._blocks[block.address] = block
        block.free = True

    def remove(self, block: MemoryBlock) -> None:
        block.free = False
        del self._keys[bisect.bisect_left(self._keys, (block.size, block.address))]
        del self._blocks[block.address]

    def take(self, size: int) -> MemoryBlock | None:
        """The smallest block of at least ``size`` bytes, taken out."""
        at = bisect.bisect_left(self._keys, (size, 0))
        if at == len(self._keys):
            return None
        block = self._blocks[self._keys[at][1]]
        self.remove(block)
        return block

    def whole(self) -> list[MemoryBlock]:
        """Those that are all of their segments."""
        return [block for block in self._blocks.values() if block.is_whole]
