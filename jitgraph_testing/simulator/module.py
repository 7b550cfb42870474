"""A module of kernels on the host."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Final

from jitgraph.codegen.llvm import machine
from jitgraph.runtime import forks
from jitgraph_testing.simulator import notes
from jitgraph_testing.simulator.counts import LaunchCounts, counted
from jitgraph_testing.simulator.device_memory import DeviceMemory
from jitgraph_testing.simulator.faults import SimulationError
from jitgraph_testing.simulator.host_text import HostText, host_text
from jitgraph_testing.simulator.launches import Extents, SimulatedLaunch
from jitgraph_testing.simulator.native import host, mapped
from jitgraph_testing.simulator.notes import Accesses
from jitgraph_testing.simulator.orders import Clocks
from jitgraph_testing.simulator.races import Who, between_blocks, within_block
from jitgraph_testing.simulator.state import memory

_lock = forks.lock()
_MOST_GRID: Final = (2**31 - 1, 65535, 65535)
_MOST_BLOCK: Final = (1024, 1024, 64)


class _Compiled:
    """Host code of a module, in memory."""

    def __init__(self, canonical: str, checked: bool, noted: bool, counted: bool) -> None:
        self.code: HostText = host_text(canonical, checked=checked, noted=noted, counted=counted)
        thunks = tuple(map(self.code.thunk, self.code.kernels))
        self.image, addresses = mapped(self.code.text, thunks, hot=False)
        self.kernels = {name: addresses[self.code.thunk(name)] for name in self.code.kernels}
        header = self.image.header
        self.constants = self.image.address + header.code_end, self.image.address + header.total


class SimulatedModule:
    """Kernels from the LLVM IR that becomes PTX. ``memory`` is that of the device which they run on."""

    def __init__(self, llvm_text: str, memory: DeviceMemory | None = None, *, checks: bool = True) -> None:
        """Read ``llvm_text``; UnsupportedOp by name for what is not simulated. ``checks``: accesses are looked at."""
        self.memory = memory or DeviceMemory()
        self._canonical = machine.optimise(llvm_text, host())
        self._checks = checks
        self._kinds: dict[tuple[bool, bool], _Compiled] = {}

    @property
    def _compiled(self) -> _Compiled:
        return self._made(False, False)

    def _made(self, noted: bool, counted: bool) -> _Compiled:
        """The host code that notes accesses, counts instructions, or neither."""
        if (noted, counted) not in self._kinds:
            self._kinds[noted, counted] = _Compiled(self._canonical, self._checks or noted, noted, counted)
        return self._kinds[noted, counted]

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels."""
        return tuple(self._compiled.code.kernels)

    def argument_bytes(self, kernel: str) -> tuple[int, ...]:
        """The sizes of a kernel's arguments."""
        return tuple(parameter.size for parameter in self._kernel(kernel).code.kernels[kernel].parameters)

    def most_threads(self, kernel: str) -> int:
        """The threads that a block of a kernel may have."""
        return self._kernel(kernel).code.most_threads(kernel)

    def static_shared_bytes(self, kernel: str) -> int:
        """The bytes of a kernel's variables in shared memory."""
        return sum(each.size for each in self._kernel(kernel).code.shared[kernel])

    def _kernel(self, name: str) -> _Compiled:
        if name not in self._compiled.kernels:
            raise SimulationError(f"the module has no kernel {name!r}; it has {', '.join(self.kernels)}")
        return self._compiled

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        shared_bytes: int,
        arguments: Sequence[bytes],
        seed: int | None = None,
        *,
        races: bool = False,
        profile: bool = False,
    ) -> LaunchCounts | None:
        """Run a kernel on all threads; a SimulationError says what one of them does wrong.

        ``grid`` and ``block`` have up to three extents, ``shared_bytes`` is the dynamic shared memory, ``arguments``
        are the bytes of each parameter. Without a seed threads run in order; each seed gives another order. ``races``
        looks for accesses that nothing orders (RaceError); ``profile`` counts what the launch does. Both take time
        and memory for each access.
        """
        _ = self._kernel(name)
        compiled = self._made(races or profile, profile)
        whole_grid = _extents(name, "grid", grid, _MOST_GRID)
        whole_block = _extents(name, "block", block, _MOST_BLOCK)
        most = compiled.code.most_threads(name)
        if math.prod(whole_block) > most:
            raise SimulationError(f"{name}: a block of {whole_block} has more threads than the {most} that it may have")
        with _lock:
            self._put(compiled, name, arguments)
            launch = SimulatedLaunch(
                name, compiled.code, compiled.kernels[name], compiled.constants, self.memory,
                whole_grid, whole_block, shared_bytes, seed,
            )  # fmt: skip
            who = Who(name, compiled.code.sites, launch.describe)
            blocks: list[Accesses] = []

            def watch(clocks: Clocks) -> None:
                blocks.append(notes.taken())
                if races:
                    within_block(who, blocks[-1], clocks)

            launch.run(name in compiled.code.crossing, watch if races or profile else None)
            self.memory.check_guards(f"by {name}")
            if races:
                accesses = notes.joined(blocks)
                between_blocks(who, accesses.chosen(~accesses.shared))
            if not profile:
                return None
            threads = math.prod(whole_grid) * math.prod(whole_block)
            return counted(blocks, who.sites, threads, int(memory().launch.instructions))

    def _put(self, compiled: _Compiled, name: str, arguments: Sequence[bytes]) -> None:
        kernel = compiled.code.kernels[name]
        if len(arguments) != len(kernel.parameters):
            raise SimulationError(f"{name} takes {len(kernel.parameters)} arguments, {len(arguments)} are given")
        base = memory().of_launch("arguments")
        for i, (argument, parameter, offset) in enumerate(
            zip(arguments, kernel.parameters, compiled.code.offsets(name), strict=True)
        ):
            if len(argument) != parameter.size:
                raise SimulationError(
                    f"argument {i} of {name} is {parameter.type} of {parameter.size} bytes, {len(argument)} are given"
                )
            ctypes.memmove(base + offset, argument, len(argument))


def _extents(name: str, what: str, extents: Sequence[int], most: Extents) -> Extents:
    padded = (*extents, 1, 1, 1)[:3]
    if not 1 <= len(extents) <= 3 or not all(1 <= extent <= limit for extent, limit in zip(padded, most, strict=True)):
        raise SimulationError(f"{name}: the {what} {tuple(extents)} is not 1 to 3 numbers from 1 to {most}")
    return padded[0], padded[1], padded[2]
