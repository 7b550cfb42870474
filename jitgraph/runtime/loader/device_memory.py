"""Memory of a device that is used again."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final

from jitgraph.runtime.loader.cuda import CudaDevice

_STEP: Final = 512


class DevicePool:
    """Blocks of a device by their size; before one is given back, the model's work on it has ended.

    What other libraries were shown is used again only after all work of the context.
    """

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self._free: dict[int, list[int]] = {}
        self._blocks: set[int] = set()
        self._shown: set[int] = set()
        self._unsettled: list[tuple[int, int]] = []  # shown, and given back: address and size
        self._closed = False
        self._lock = threading.RLock()  # results go back in any thread, also while this one takes a block

    def take(self, size: int) -> DeviceBlock:
        """A block of at least so many bytes; its context is current."""
        size = max(_STEP, -(-size // _STEP) * _STEP)
        with self._lock:
            free = self._free.setdefault(size, [])
            if not free and self._unsettled:
                self._settle()
            try:
                address = free.pop()
            except IndexError:
                try:
                    address = self.device.allocate(size)
                except MemoryError:
                    self.trim()
                    address = self.device.allocate(size)
                self._blocks.add(address)
        block = DeviceBlock(self, address)
        weakref.finalize(block, self._return, address, size, os.getpid()).atexit = False
        return block

    def show(self, block: DeviceBlock) -> None:
        """Note that other libraries may have work on a block whose end is not known."""
        with self._lock:
            self._shown.add(block.address)

    def _return(self, address: int, size: int, process: int) -> None:
        if process != os.getpid():
            return
        with self._lock:
            if address in self._shown:
                self._shown.remove(address)
                self._unsettled.append((address, size))
            else:
                self._free.setdefault(size, []).append(address)
            if self._closed:
                self._end()

    def _settle(self) -> None:
        """Let blocks that others were shown serve again."""
        self.device.wait_for_all()
        while self._unsettled:
            address, size = self._unsettled.pop()
            self._free.setdefault(size, []).append(address)

    def trim(self) -> None:
        """Give back what is not used."""
        with self._lock:
            if self._unsettled:
                self._settle()
            for free in list(self._free.values()):  # freeing may run finalisers, which give blocks back
                while free:
                    address = free.pop()
                    self._blocks.remove(address)
                    self.device.free(address)

    def close(self) -> None:
        """Give back what is not used, and the rest with its last reference; the device with that."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._end()

    def _end(self) -> None:
        with self.device.current():
            self.trim()
        if not self._blocks:
            self.device.release()


class DeviceBlock:
    """Bytes of a device, which go back to their pool with the last reference."""

    __slots__ = ("__weakref__", "address", "pool")

    def __init__(self, pool: DevicePool, address: int) -> None:
        self.pool = pool
        self.address = address
