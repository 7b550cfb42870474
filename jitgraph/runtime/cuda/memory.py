"""The allocator of a device: memory that was given back serves again, in the order of its stream."""

from __future__ import annotations

import bisect
from collections import deque
from typing import Final

from jitgraph.errors import OutOfMemoryError
from jitgraph.records import dataclass
from jitgraph.runtime import forks
from jitgraph.runtime.cuda.context import DeviceContext

# ----------------------------------------------------------------------
# Blocks: device memory cut into pieces, and lists of the free ones by size.

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


# ----------------------------------------------------------------------
# The allocator of a device: memory that was given back serves again, in the order of its stream.
#
# A block belongs to the stream that was current when it was allocated. Work of that stream runs in order, so a block
# that is given back while work on it is under way may be handed out on the same stream at once: what uses it next comes
# after. Where another stream has used a block (``DeviceAllocator.note_use``), an event on that stream is waited for
# first, and where another library has seen it, the whole device.
#
# Whoever gives memory back may be a finaliser, which runs anywhere, also inside of this code: it only puts the block on
# a list, and the next allocation looks at that. There the block waits for the next who asks for its very size. The one
# at the lowest address goes first, whatever the order in which they came back, so that calls that come back find the
# addresses that they had. Blocks become one with their neighbours only before memory is asked of the driver.

_UNITS: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    """Bytes in blocks that are in use and bytes taken from the device, now and at most; and what was done so far."""

    allocated: int
    most_allocated: int
    reserved: int
    most_reserved: int
    blocks: int
    segments: int
    allocations: int
    retries: int


class DeviceAllocator:
    """The memory of one device; safe from several threads."""

    def __init__(self, context: DeviceContext) -> None:
        self._context = context
        self._lock = forks.lock()
        self.generation = 0
        """How often memory went back to the driver, from which on an address may be that of other memory."""
        self._ready: dict[tuple[int, int], list[MemoryBlock]] = {}  # by stream and size, the lowest address last
        self._free: dict[tuple[int, bool], FreeBlocks] = {}
        self._returned: deque[MemoryBlock] = deque()
        self._waiting: deque[tuple[MemoryBlock, list[int]]] = deque()  # with the events that have to be done
        self._segments: dict[int, int] = {}  # bytes by address
        self._allocated = self._most_allocated = self._reserved = self._most_reserved = 0
        self._blocks = self._allocations = self._retries = 0

    def allocate(self, size: int) -> MemoryBlock:
        """A block of at least ``size`` bytes for work of this thread's current stream; OutOfMemoryError."""
        return self.take(rounded(size), self._context.stream)

    def take(self, size: int, stream: int) -> MemoryBlock:
        """As ``allocate``, for a size that ``blocks.rounded`` gave and this stream."""
        with self._lock:
            if self._returned or self._waiting:
                self._collect()
            ready = self._ready.get((stream, size))
            block = ready.pop() if ready else self._allocate(size, stream)
            self._blocks += 1
            self._allocations += 1
            self._allocated += block.size
            if self._allocated > self._most_allocated:
                self._most_allocated = self._allocated
            return block

    def note_use(self, block: MemoryBlock, stream: int) -> None:
        """Work of another stream uses a block: it serves again when that is done."""
        if stream != block.stream:
            block.used_on.add(stream)

    def give_back(self, block: MemoryBlock) -> None:
        """Need a block no more. Callable at any time, from finalisers as well."""
        self._returned.append(block)

    def empty_cache(self) -> None:
        """Give unused memory back to the device."""
        self._context.enter()
        with self._lock:
            self._collect()
            self._release_free()

    def statistics(self) -> MemoryStatistics:
        """What is in use just now."""
        with self._lock:
            self._collect()
            return MemoryStatistics(
                self._allocated, self._most_allocated, self._reserved, self._most_reserved,
                self._blocks, len(self._segments), self._allocations, self._retries,
            )  # fmt: skip

    def reset_most(self) -> None:
        """Let the greatest numbers be those of now."""
        with self._lock:
            self._collect()
            self._most_allocated, self._most_reserved = self._allocated, self._reserved

    def close(self) -> None:
        """Give all memory back, also what is still held; the device has no work left."""
        driver = self._context.enter()
        with self._lock:
            for _, events in self._waiting:
                for event in events:
                    self._context.give_event(event)
            for address in self._segments:
                driver.free(address)
            self.__init__(self._context)  # type: ignore[misc]  # as in the beginning

    # --- with the lock held ------------------------------------------------------------------------------------------

    def _list_of(self, block: MemoryBlock) -> FreeBlocks:
        key = (block.stream, block.is_small)
        free_list = self._free.get(key)
        if free_list is None:
            free_list = self._free[key] = FreeBlocks()
        return free_list

    def _allocate(self, size: int, stream: int) -> MemoryBlock:
        """A block of a free one, or of fresh memory."""
        block = self._from_cache(size, stream)
        if block is None and self._ready:
            self._merge_ready()
            block = self._from_cache(size, stream)
        if block is None:
            block = self._fresh(size, stream)
        if is_worth_splitting(size, block.size - size):
            self._list_of(block).add(block.cut(size))
        block.asked = size
        return block

    def _from_cache(self, size: int, stream: int) -> MemoryBlock | None:
        """A free block of the stream."""
        free_list = self._free.get((stream, is_small(size)))
        return free_list.take(size) if free_list is not None else None

    def _fresh(self, size: int, stream: int) -> MemoryBlock:
        """A block of a new segment."""
        total = segment_size(size)
        driver = self._context.enter()
        try:
            address = driver.allocate(total)
        except OutOfMemoryError:
            self._retries += 1
            driver.synchronize()  # after which every block that waits for other streams is free
            self._collect()
            self._release_free()
            block = self._from_cache(size, stream)
            if block is not None:
                return block
            try:
                address = driver.allocate(total)
            except OutOfMemoryError as error:
                raise self._exhausted(size, error) from None
        self._segments[address] = total
        self._reserved += total
        self._most_reserved = max(self._most_reserved, self._reserved)
        return MemoryBlock(address, total, stream, is_small=is_small(size))

    def _exhausted(self, size: int, error: OutOfMemoryError) -> OutOfMemoryError:
        free, total = self._context.driver.memory_info()
        return OutOfMemoryError(
            f"{self._context.name} has no {amount(size)} left: of {amount(total)} {amount(free)} are free, this "
            f"process has {amount(self._allocated)} in tensors and keeps {amount(self._reserved - self._allocated)}",
            code=error.code,
            hint=error.hint,
        )

    def _collect(self) -> None:
        """Look at what was given back, and at what other streams have done with since."""
        while self._returned:
            block = self._returned.popleft()
            self._blocks -= 1
            self._allocated -= block.size
            if block.is_shown:
                block.is_shown, block.used_on = False, set()
                self._context.enter().synchronize()
            if block.used_on:
                self._waiting.append((block, [self._marked(stream) for stream in block.used_on]))
                block.used_on = set()
            else:
                self._make_ready(block)
        if self._waiting:
            self._look_at_waiting()

    def _look_at_waiting(self) -> None:
        """Make those blocks ready with which other streams have done."""
        for _ in range(len(self._waiting)):
            block, events = self._waiting.popleft()
            if all(self._context.enter().is_event_done(event) for event in events):
                for event in events:
                    self._context.give_event(event)
                self._make_ready(block)
            else:
                self._waiting.append((block, events))

    def _marked(self, stream: int) -> int:
        event = self._context.take_event()
        self._context.enter().record_event(event, stream)
        return event

    def _make_ready(self, block: MemoryBlock) -> None:
        """Keep a block for the next request of its size."""
        key = (block.stream, block.asked)
        ready = self._ready.get(key)
        if ready is None:
            self._ready[key] = [block]
        elif not ready:
            ready.append(block)
        else:
            bisect.insort(ready, block, key=_downwards)

    def _merge_ready(self) -> None:
        """Put all that wait for their size among the free blocks."""
        while self._ready:
            _, ready = self._ready.popitem()
            while ready:
                self._merge(ready.pop())

    def _merge(self, block: MemoryBlock) -> None:
        """Put a block among the free ones, as one with those beside it that are free."""
        if block.following is not None and block.following.free:
            self._list_of(block.following).remove(block.following)
            block.absorb()
        if block.preceding is not None and block.preceding.free:
            block = block.preceding
            self._list_of(block).remove(block)
            block.absorb()
        self._list_of(block).add(block)

    def _release_free(self) -> None:
        """Give whole segments back; the device is waited for first, as work on them may be under way."""
        self._merge_ready()
        segments = [block for listed in self._free.values() for block in listed.whole()]
        if not segments:
            return
        driver = self._context.enter()
        driver.synchronize()
        self.generation += 1
        for block in segments:
            self._list_of(block).remove(block)
            self._reserved -= self._segments.pop(block.address)
            driver.free(block.address)


def _downwards(block: MemoryBlock) -> int:
    return -block.address


def amount(size: int) -> str:
    """Bytes in the greatest unit of which there is one."""
    for unit, scale in _UNITS:
        if size >= scale:
            return f"{size / scale:.2f} {unit}"
    return f"{size} bytes"


def summary(context: DeviceContext, stats: MemoryStatistics) -> str:
    """The state of a device's memory as a table."""
    free, total = context.enter().memory_info()
    rows = [
        ("in tensors", amount(stats.allocated), amount(stats.most_allocated)),
        ("taken from the device", amount(stats.reserved), amount(stats.most_reserved)),
        ("kept for later", amount(stats.reserved - stats.allocated), ""),
    ]
    lines = [f"memory of {context.name}", f"{'':<24}{'now':>14}{'at most':>14}"]
    lines += [f"{name:<24}{now:>14}{most:>14}" for name, now, most in rows]
    lines.append(
        f"{stats.blocks} blocks in {stats.segments} segments; {stats.allocations} allocations, "
        f"{stats.retries} of them had to wait for memory"
    )
    lines.append(f"of the device's {amount(total)}, {amount(free)} are free for all processes")
    return "\n".join(line.rstrip() for line in lines)
