"""A stand-in for the CUDA driver: a table of native functions, whose launches run in the simulator.

Work in streams is done late: when something waits for it, or with a seed now and then before. So a host that forgets
to wait sees memory as it was. Devices, times and names are made up; codes and rules are CUDA's.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections import deque
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

from jitgraph.runtime.cuda.driver import FUNCTIONS
from jitgraph_testing.simulator.calls import devices, graphs, memory, modules, streams
from jitgraph_testing.simulator.calls.codes import NOT_INITIALIZED, SUCCESS, TEXTS, UNKNOWN, DriverFault
from jitgraph_testing.simulator.calls.state import DriverState
from jitgraph_testing.simulator.faults import SimulationError
from jitgraph_testing.simulator.interrupts import INTERRUPTS

_TYPES: Final = {
    "p": ctypes.c_void_p, "i": ctypes.c_int, "u": ctypes.c_uint, "z": ctypes.c_size_t, "s": ctypes.c_char_p
}  # fmt: skip
_CALLS: Final[dict[str, Any]] = {
    **devices.CALLS, **modules.CALLS, **memory.CALLS, **streams.CALLS, **graphs.CALLS
}  # fmt: skip
_TELL: Final = frozenset({"cuLaunchKernel", "cuStreamSynchronize", "cuMemcpyDtoHAsync_v2"})
"""What entries call, and end after an error of."""

_MOST_LOGGED: Final = 100_000


class DriverCall(NamedTuple):
    """A call as it was logged: the symbol, its arguments, the code that it gave, and why."""

    symbol: str
    arguments: tuple[Any, ...]
    code: int
    note: str


class _Planted:
    def __init__(self, after: int, code: int) -> None:
        self.after, self.code = after, code


class FakeDriver:
    """A driver of its own, with its devices. It must live as long as anybody has its addresses."""

    def __init__(self, devices: int = 1, *, memory_bytes: int = 1 << 30, seed: int | None = None) -> None:
        """``memory_bytes`` is what each device has; with a ``seed`` work is done at times that are drawn."""
        self._state = DriverState(devices, memory_bytes, seed)
        self._lock = threading.RLock()
        self._planted: dict[str, _Planted] = {}
        self.calls: deque[DriverCall] = deque(maxlen=_MOST_LOGGED)
        self._functions = [self._function(symbol, letters) for symbol, letters in FUNCTIONS.items()]
        addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in self._functions]
        self.table = (ctypes.c_void_p * len(addresses))(*addresses)

    @property
    def addresses(self) -> dict[str, int]:
        """The functions' addresses by symbol."""
        return {symbol: int(address or 0) for symbol, address in zip(FUNCTIONS, self.table, strict=True)}

    @property
    def state(self) -> DriverState:
        """What a library beside the driver shares with it, under ``lock``."""
        return self._state

    @property
    def lock(self) -> AbstractContextManager[bool]:
        """One call at a time."""
        return self._lock

    @property
    def failures(self) -> list[SimulationError]:
        """What kernels and copies did wrong; the calls give the code alone."""
        return self._state.failures

    def register(self, ptx: bytes, llvm_text: str) -> None:
        """Say which LLVM IR some PTX was made of; PTX ends at its first zero byte."""
        self._state.texts[hashlib.sha256(ptx.split(b"\0")[0]).digest()] = llvm_text

    def fail(self, symbol: str, after: int = 0, code: int = 2) -> None:
        """Let a function give ``code`` once, doing nothing, when it was called ``after`` times more; ValueError."""
        if symbol not in FUNCTIONS or code not in TEXTS:
            raise ValueError(f"no function {symbol} or no code {code}")
        self._planted[symbol] = _Planted(after, code)

    def set_memory(self, memory_bytes: int, device: int = 0) -> None:
        """Let a device have more or less memory from now on."""
        self._state.devices[device].total_bytes = memory_bytes

    def live_bytes(self, device: int = 0) -> int:
        """Bytes of a device that are allocated."""
        return self._state.devices[device].memory.used

    def _function(self, symbol: str, letters: str) -> Any:
        kind = ctypes.CFUNCTYPE(ctypes.c_int, *[_TYPES[letter] for letter in letters])
        do = _CALLS[symbol]

        def call(*arguments: Any) -> int:
            try:
                with self._lock:
                    code, note = self._answer(symbol, do, arguments)
                    self.calls.append(DriverCall(symbol, arguments, code, note))
            except KeyboardInterrupt:  # the second one
                INTERRUPTS.pending = True
                return UNKNOWN
            return UNKNOWN if symbol in _TELL and INTERRUPTS.is_told else code

        INTERRUPTS.hold_inside(call.__code__)

        return kind(call)

    def _answer(self, symbol: str, do: Any, arguments: tuple[Any, ...]) -> tuple[int, str]:
        if planted := self._planted.get(symbol):
            if not planted.after:
                del self._planted[symbol]
                return planted.code, "planted"
            planted.after -= 1
        if not self._state.initialized and symbol not in devices.WITHOUT_INIT:
            return NOT_INITIALIZED, "cuInit was not called"
        try:
            do(self._state, *arguments)
        except DriverFault as fault:
            return fault.code, fault.note
        return SUCCESS, ""
