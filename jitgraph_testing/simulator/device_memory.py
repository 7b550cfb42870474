"""Device memory: buffers apart from each other, with guard bytes around them, poisoned before use."""

from __future__ import annotations

import bisect
import ctypes
from collections import deque

import numpy as np
from numpy.typing import NDArray

from jitgraph.records import dataclass
from jitgraph_testing.simulator.faults import DamageError, SimulationError
from jitgraph_testing.simulator.native import native
from jitgraph_testing.simulator.native_text import GUARD, GUARD_BYTES

ALIGNMENT = 512
_QUARANTINE = 64 << 20
_POISON = 0xFF  # a NaN in every format, -1 in integers


@dataclass(slots=True)
class DeviceBuffer:
    """A piece of device memory: ``name`` is for messages."""

    name: str
    address: int
    size: int
    memory: NDArray[np.uint8]  # the guards included
    free: bool = False

    def view(self) -> NDArray[np.uint8]:
        """The bytes, to be read and written by the host."""
        begin = self.address - self.memory.ctypes.data
        return self.memory[begin : begin + self.size]


class DeviceMemory:
    """The buffers of one device. Freed ones stay for a while, poisoned, so that a late use is seen."""

    def __init__(self) -> None:
        self.used = 0
        self._addresses: list[int] = []
        self._buffers: dict[int, DeviceBuffer] = {}
        self._freed: deque[DeviceBuffer] = deque()
        self._freed_bytes = 0
        self._count = 0
        self._of_host: dict[int, int] = {}  # ends of memory that kernels may touch as well, by its begin

    def allocate(self, size: int, name: str = "") -> int:
        """The address of ``size`` new bytes, which hold no numbers; SimulationError where ``size`` is not positive."""
        if size <= 0:
            raise SimulationError(f"cannot allocate {size} bytes of device memory")
        self._count += 1
        memory = np.empty(size + 2 * GUARD_BYTES + ALIGNMENT, np.uint8)
        begin = -(-(memory.ctypes.data + GUARD_BYTES) // ALIGNMENT) * ALIGNMENT
        buffer = DeviceBuffer(name or f"buffer {self._count}", begin, size, memory)
        offset = begin - memory.ctypes.data
        memory[offset - GUARD_BYTES : offset] = GUARD
        memory[offset + size : offset + size + GUARD_BYTES] = GUARD
        memory[offset : offset + size] = _POISON
        bisect.insort(self._addresses, begin)
        self._buffers[begin] = buffer
        self.used += size
        return begin

    def free(self, address: int) -> None:
        """Give a buffer back; SimulationError where none begins at ``address``."""
        buffer = self._buffers.pop(address, None)
        if buffer is None:
            raise SimulationError(f"no buffer of device memory begins at {address:#x}{self._near(address)}")
        self._addresses.remove(address)
        self.used -= buffer.size
        self._check(buffer, "before it was freed")
        buffer.view()[:] = _POISON
        buffer.free = True
        self._freed.append(buffer)
        self._freed_bytes += buffer.size
        while self._freed_bytes > _QUARANTINE:
            self._freed_bytes -= self._freed.popleft().size

    def holding(self, address: int, size: int = 1) -> DeviceBuffer | None:
        """The live buffer that has all of the ``size`` bytes from ``address`` on; None where there is none."""
        index = bisect.bisect_right(self._addresses, address) - 1
        if index < 0:
            return None
        buffer = self._buffers[self._addresses[index]]
        return buffer if address + size <= buffer.address + buffer.size else None

    def bytes_at(self, address: int, size: int) -> NDArray[np.uint8]:
        """A view of device memory for the host; SimulationError where it is not inside one live buffer."""
        buffer = self.holding(address, max(size, 1))
        if buffer is None:
            raise SimulationError(f"{size} bytes from {address:#x} on are not device memory{self._near(address)}")
        begin = address - buffer.address
        return buffer.view()[begin : begin + size]

    def admit(self, address: int, size: int) -> None:
        """Let kernels touch memory of the host, until it is ``withdraw``n."""
        self._of_host[address] = address + size

    def withdraw(self, address: int) -> None:
        """Kernels may no longer touch what was admitted at ``address``."""
        del self._of_host[address]

    def live(self) -> list[tuple[int, int, int]]:
        """Begin, end and 1 (may be written) of all that kernels may touch."""
        return [*self._own(), *((begin, end, 1) for begin, end in self._of_host.items())]

    def _own(self) -> list[tuple[int, int, int]]:
        return [(address, address + self._buffers[address].size, 1) for address in self._addresses]

    def describe(self, address: int) -> str:
        """What lies at or near an address, in words."""
        return self._near(address).removeprefix(": ") or "no buffer is near"

    def check_guards(self, when: str) -> None:
        """DamageError where bytes around a buffer are not as they were."""
        if not self._addresses:
            return
        table = np.array(self._own(), np.int64)
        damaged = native().damaged(table.ctypes.data, len(table))
        if damaged >= 0:
            self._check(self._buffers[self._addresses[damaged]], when)

    def _check(self, buffer: DeviceBuffer, when: str) -> None:
        for begin, side in ((buffer.address - GUARD_BYTES, "before"), (buffer.address + buffer.size, "behind")):
            around = np.frombuffer(ctypes.string_at(begin, GUARD_BYTES), np.uint8)
            if (around != GUARD).any():
                offset = int(np.flatnonzero(around != GUARD)[0]) + begin - buffer.address
                raise DamageError(
                    f"bytes {side} {buffer.name} of {buffer.size} bytes were overwritten {when}, at byte {offset}"
                )

    def _near(self, address: int) -> str:
        best: tuple[int, str] | None = None
        for buffer in (*self._buffers.values(), *self._freed):
            end = buffer.address + buffer.size
            gap = max(buffer.address - address, address - end + 1, 0)
            if gap <= 4 * GUARD_BYTES and (best is None or gap < best[0]):
                offset = address - buffer.address
                state = "freed " if buffer.free else ""
                where = f"byte {offset} of {state}{buffer.name}" if gap == 0 else _beside(offset, buffer, state)
                best = gap, f": it is {where} ({buffer.size} bytes)"
        return best[1] if best else ""


def _beside(offset: int, buffer: DeviceBuffer, state: str) -> str:
    if offset < 0:
        return f"{-offset} bytes before {state}{buffer.name}"
    return f"{offset - buffer.size} bytes behind the end of {state}{buffer.name}"
