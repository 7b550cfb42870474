"""Runs one launch: blocks one after another in seeded order, with all that is checked before, in and after it."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from jitgraph_testing.simulator import native_text
from jitgraph_testing.simulator.accesses import AccessSite
from jitgraph_testing.simulator.blocks import ThreadBlock
from jitgraph_testing.simulator.device_memory import DeviceMemory
from jitgraph_testing.simulator.faults import AlignmentError, BoundsError, DivergenceError, SimulationError, TrapError
from jitgraph_testing.simulator.host_text import HostText
from jitgraph_testing.simulator.lanes import LaneRecords
from jitgraph_testing.simulator.native import native
from jitgraph_testing.simulator.orders import Clocks
from jitgraph_testing.simulator.state import MOST_SHARED, WARP, Live, memory

Extents = tuple[int, int, int]
_POISONS = (0xFF, 0x7E)  # NaN everywhere, or floats of about 8e37, by the parity of the seed


class SimulatedLaunch:
    """One launch of a kernel whose code is at ``kernel``; arguments are in place."""

    def __init__(
        self,
        name: str,
        code: HostText,
        kernel: int,
        constants: tuple[int, int],
        device: DeviceMemory,
        grid: Extents,
        block: Extents,
        shared_bytes: int,
        seed: int | None,
    ) -> None:
        self._name, self._code, self._device = name, code, device
        self._shared, self._shared_bytes, self._seed = code.shared[name], shared_bytes, seed
        if (total := shared_bytes + sum(each.size for each in self._shared)) > MOST_SHARED:
            raise SimulationError(f"{name}: {total} bytes of shared memory; a block has {MOST_SHARED}")
        self._draw = random.Random(seed) if seed is not None else None
        self._threads = block[0] * block[1] * block[2]
        self._records = _records()
        self._table = self._live(constants)
        self._blocks = _block_order(grid, seed)
        self._identities = _identities(block)
        launch = memory().launch
        launch.kernel, launch.fault = kernel, 0
        launch.table, launch.table_length = self._table.ctypes.data, len(self._table)
        launch.block_dim[:], launch.grid_dim[:], launch.dynamic_shared = block, grid, shared_bytes
        code.bounds[:, :2] = 0

    def run(self, crossing: bool, watch: Callable[[Clocks], None] | None) -> None:
        """All blocks: ``crossing`` where threads wait for each other; ``watch`` is called after each block."""
        launch = memory().launch
        launch.log, launch.log_length = (memory().log_at if watch else 0), 0
        launch.instructions, launch.clock = 0, 1
        if crossing:
            self._each_on_its_stack(watch)
        elif watch:
            for i in range(len(self._blocks)):
                self._sweep(self._blocks[i : i + 1])
                watch(Clocks(-(-self._threads // WARP)))
        else:
            self._sweep(self._blocks)

    def describe(self, address: int) -> str:
        """What lies at an address, in words."""
        for each in self._shared:
            size = self._shared_bytes if each.dynamic else each.size
            if each.address - native_text.GUARD_BYTES <= address < each.address + size + native_text.GUARD_BYTES:
                return f"it is byte {address - each.address} of shared memory @{each.name} ({size} bytes)"
        return self._device.describe(address)

    def _sweep(self, blocks: NDArray[np.int32]) -> None:
        """Threads one after another on one stack: none waits."""
        here = memory()
        threads = self._identities
        if self._seed is not None:
            threads = np.random.default_rng(self._seed).permutation(threads)
        here.launch.blocks, here.launch.block_count = blocks.ctypes.data, len(blocks)
        here.launch.threads, here.launch.thread_count = threads.ctypes.data, self._threads
        here.launch.begin = native().addresses["sweep"]
        self._poison()
        native().prepare(1)
        first = np.zeros(1, np.int32)
        if native().run(first.ctypes.data, 1):
            self._fail()

    def _each_on_its_stack(self, watch: Callable[[Clocks], None] | None) -> None:
        launch = memory().launch
        launch.begin = launch.kernel
        self._records.identity[: self._threads] = self._identities
        for x, y, z, number in self._blocks.tolist():
            launch.block_id[:], launch.block = (x, y, z), number
            self._poison()
            block = ThreadBlock(self._code, self._records, self._threads, self._draw, self._fail)
            try:
                block.run()
            except DivergenceError as error:
                raise DivergenceError(f"{self._name}, block {(x, y, z)}: {error.message}", hint=error.hint) from None
            if watch:
                watch(block.clocks)

    def _poison(self) -> None:
        poison = _POISONS[self._seed % 2 if self._seed else 0]
        for each in self._shared:
            ctypes.memset(each.address, poison, self._shared_bytes if each.dynamic else each.size)

    def _live(self, constants: tuple[int, int]) -> NDArray[np.int64]:
        pieces = self._device.live()
        dynamic = False
        for each in self._shared:
            size = self._shared_bytes if each.dynamic else each.size
            if size and not (each.dynamic and dynamic):
                pieces.append((each.address, each.address + size, 1))
            dynamic |= each.dynamic
        pieces.append((*constants, 0))
        return np.array(sorted(pieces), np.int64).reshape(len(pieces), ctypes.sizeof(Live) // 8)

    def _fail(self) -> None:
        here = memory()
        launch = here.launch
        thread = int(self._records.identity[(launch.current - here.fiber(0)) // (here.fiber(1) - here.fiber(0)), 3])
        thread_id = tuple(self._identities[thread, :3].tolist())
        where = f"{self._name}, block {tuple(launch.block_id)}, thread {thread_id}"
        site = self._code.sites[launch.fault_site] if launch.fault_site < len(self._code.sites) else None
        raise _error(where, site, self.describe(launch.fault_address))


@cache
def _records() -> LaneRecords:
    return LaneRecords()


def _block_order(grid: Extents, seed: int | None) -> NDArray[np.int32]:
    """x, y, z and the number of each block, in the order in which they run: shuffled where there is a seed."""
    blocks = _numbered(grid)
    return blocks if seed is None or len(blocks) == 1 else np.random.default_rng(seed + 1).permutation(blocks)


@lru_cache(maxsize=64)
def _numbered(extents: Extents) -> NDArray[np.int32]:
    number = np.arange(extents[0] * extents[1] * extents[2])
    columns = number % extents[0], number // extents[0] % extents[1], number // (extents[0] * extents[1]), number
    return np.ascontiguousarray(np.stack(columns, axis=1), np.int32)


@lru_cache(maxsize=64)
def _identities(block: Extents) -> NDArray[np.int32]:
    """x, y, z, number, lane and warp of each thread."""
    numbered = _numbered(block)
    number = numbered[:, 3:]
    return np.ascontiguousarray(np.concatenate([numbered, number % WARP, number // WARP], axis=1), np.int32)


def _error(where: str, site: AccessSite | None, described: str) -> SimulationError:
    launch = memory().launch
    done = launch.fault_kind & (native_text.READ | native_text.WRITE)
    doing = {native_text.READ: "reads", native_text.WRITE: "writes"}.get(done, "updates")
    line = f" (`{site.line}` in {site.function})" if site else ""
    touched = f"{doing} {launch.fault_size} bytes at {launch.fault_address:#x}"
    match launch.fault:
        case native_text.OUTSIDE:
            return BoundsError(f"{where} {touched}, which are not its memory: {described}{line}")
        case native_text.MISALIGNED:
            return AlignmentError(f"{where} {touched}, which is not aligned as its instruction says: {described}{line}")
        case native_text.CONSTANT:
            return BoundsError(f"{where} {touched}, which are constants{line}")
        case native_text.TRAP:
            return TrapError(f"{where} stopped at a trap{line}")
        case native_text.DIVISION:
            return SimulationError(f"{where} divides by zero, or the least integer by -1{line}")
        case native_text.SPINNING:
            return DivergenceError(
                f"{where} waits for another one by atomic or volatile operations, in vain: {described}{line}"
            )
        case native_text.TOO_MANY_COPIES:
            return SimulationError(f"{where} has too many asynchronous copies in flight{line}")
    return SimulationError(
        f"{where}: more accesses than can be noted{line}", hint="launch fewer blocks, or ask for no counts and races"
    )
