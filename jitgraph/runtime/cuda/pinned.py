"""Pinned memory of the host for calls that wait for the device: predicates of loops, operands of prints."""

from __future__ import annotations

from typing import Final

from jitgraph.errors import DeviceError
from jitgraph.runtime import forks
from jitgraph.runtime.cuda.context import DeviceContext
from jitgraph.runtime.cuda.driver import Driver

_LEAST_BYTES: Final = 4096


class PinnedMemory:
    """Blocks that are one call's at a time and are kept for later ones; safe from several threads."""

    def __init__(self, context: DeviceContext) -> None:
        self._context = context
        self._lock = forks.lock()
        self._sizes: dict[int, int] = {}  # of all blocks, by address
        self._free: dict[int, list[int]] = {}  # addresses by size
        self._late: list[tuple[int, int]] = []  # addresses that serve again once an event is done

    def take(self, size: int) -> int:
        """The address of ``size`` bytes, of which no copy is under way."""
        capacity = max(_LEAST_BYTES, 1 << (size - 1).bit_length())
        driver = self._context.enter()
        with self._lock:
            if self._late:
                self._collect(driver)
            if free := self._free.get(capacity):
                return free.pop()
            address = driver.allocate_host(capacity)
            self._sizes[address] = capacity
            return address

    def give_back(self, address: int) -> None:
        """Need a block no more; what was to be copied there has arrived."""
        with self._lock:
            self._free.setdefault(self._sizes[address], []).append(address)

    def give_back_behind(self, address: int, stream: int) -> None:
        """Free a block when a stream has done its work so far; where that cannot be known it is not used again."""
        event = self._context.take_event()
        try:
            self._context.enter().record_event(event, stream)
        except DeviceError:
            self._context.give_event(event)
            return
        with self._lock:
            self._late.append((address, event))

    def _collect(self, driver: Driver) -> None:
        waiting = []
        for address, event in self._late:
            if driver.is_event_done(event):
                self._context.give_event(event)
                self._free.setdefault(self._sizes[address], []).append(address)
            else:
                waiting.append((address, event))
        self._late = waiting

    def close(self) -> None:
        """Give all of it back; the device has no work left."""
        with self._lock:
            for address in self._sizes:
                self._context.driver.free_host(address)
            self._sizes.clear()
            self._late.clear()
            self._free.clear()
