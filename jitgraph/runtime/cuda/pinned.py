"""Pinned memory of the host: for calls that wait for the device, and for copies in pieces between host and device."""

from __future__ import annotations

import ctypes
from typing import Final

from jitgraph.errors import DeviceError
from jitgraph.runtime import forks
from jitgraph.runtime.cuda.context import DeviceContext
from jitgraph.runtime.cuda.driver import Driver

# ----------------------------------------------------------------------
# Pinned memory of the host for calls that wait for the device: predicates of loops, operands of prints.

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


# ----------------------------------------------------------------------
# Copies between host memory and a device, by way of pinned memory, in pieces, so that one moves while one is filled.
#
# What a caller has given may change as soon as a copy to the device returns, and what a copy from the device has
# written is there when it returns.

PIECE: Final = 4 << 20
"""Bytes of one piece of pinned memory; there are two."""


class _Piece:
    """Pinned memory of ``PIECE`` bytes with the event after which it may be used again."""

    def __init__(self, address: int, event: int) -> None:
        self.address = address
        self.event = event
        self.is_busy = False


class Staging:
    """Copies to and from one device; safe from several threads, which take turns."""

    def __init__(self, context: DeviceContext) -> None:
        self._context = context
        self._lock = forks.lock()
        self._pieces: list[_Piece] = []

    def to_device(self, target: int, source: int, size: int, stream: int) -> None:
        """Copy ``size`` bytes at ``source`` to the device, in the order of ``stream``; then ``source`` may change."""
        driver = self._context.enter()
        with self._lock:
            for number, start in enumerate(range(0, size, PIECE)):
                piece, length = self._free_piece(number % 2), min(PIECE, size - start)
                ctypes.memmove(piece.address, source + start, length)
                driver.copy_to_device(target + start, piece.address, length, stream)
                driver.record_event(piece.event, stream)
                piece.is_busy = True

    def to_host(self, target: int, source: int, size: int, stream: int) -> None:
        """Copy ``size`` bytes of the device to ``target``, after all work of ``stream`` so far; and wait for it."""
        driver = self._context.enter()
        with self._lock:
            moving: list[tuple[_Piece, int, int]] = []
            for number, start in enumerate(range(0, size, PIECE)):
                if len(moving) == 2:
                    self._land(target, *moving.pop(0))
                piece, length = self._free_piece(number % 2), min(PIECE, size - start)
                driver.copy_to_host(piece.address, source + start, length, stream)
                driver.record_event(piece.event, stream)
                piece.is_busy = True
                moving.append((piece, start, length))
            for entry in moving:
                self._land(target, *entry)

    def close(self) -> None:
        """Give the pinned memory back."""
        driver = self._context.enter()
        with self._lock:
            while self._pieces:
                piece = self._pieces.pop()
                driver.free_host(piece.address)
                self._context.drop_event(piece.event)

    def _land(self, target: int, piece: _Piece, start: int, length: int) -> None:
        self._wait(piece)
        ctypes.memmove(target + start, piece.address, length)

    def _free_piece(self, number: int) -> _Piece:
        if number >= len(self._pieces):
            driver = self._context.enter()
            self._pieces.append(_Piece(driver.allocate_host(PIECE), self._context.create_event()))
        piece = self._pieces[number]
        self._wait(piece)
        return piece

    def _wait(self, piece: _Piece) -> None:
        if piece.is_busy:
            self._context.enter().synchronize_event(piece.event)
            piece.is_busy = False
