"""A driver in Python: host memory stands for the device's, and work of a stream is done when somebody waits for it."""

# ruff: noqa: N802, N815

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from typing import Any

from jitgraph.runtime.cuda.driver import Driver
from jitgraph.runtime.cuda.driver_functions import FUNCTIONS

TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int, "u": ctypes.c_uint, "z": ctypes.c_size_t, "s": ctypes.c_char_p}
NAMES = {2: "CUDA_ERROR_OUT_OF_MEMORY", 400: "CUDA_ERROR_INVALID_HANDLE", 719: "CUDA_ERROR_LAUNCH_FAILED"}


def put(place: int, kind: Any, value: Any) -> None:
    kind.from_address(place).value = value


class FakeDriver:
    """``faults`` gives for a symbol the results of its next calls; ``calls`` counts calls by symbol."""

    def __init__(self, *, devices: int = 2, memory: int = 1 << 30, delay: int = 0) -> None:
        self.devices, self.memory = devices, memory
        self.delay = delay  # how often a query says that work is not done
        self.calls: Counter[str] = Counter()
        self.faults: dict[str, list[int]] = {}
        self.held: dict[int, Any] = {}  # device memory
        self.pinned: dict[int, Any] = {}
        self.handles: dict[int, str] = {}
        self.queues: dict[int, list[Callable[[], None]]] = {0: []}
        self.recorded: dict[int, tuple[int, int]] = {}  # by event: its stream, and the number of pieces of work
        self.done: Counter[int] = Counter()
        self.contexts: Counter[int] = Counter()
        self._names = {code: ctypes.create_string_buffer(name.encode()) for code, name in NAMES.items()}
        self._next = 1000
        self._keep: list[Any] = []

    def driver(self) -> Driver:
        """The table of it."""
        addresses = {}
        for symbol, letters in FUNCTIONS.items():
            made = ctypes.CFUNCTYPE(ctypes.c_int, *[TYPES[letter] for letter in letters])(self._entry(symbol))
            self._keep.append(made)
            addresses[symbol] = ctypes.cast(made, ctypes.c_void_p).value
        return Driver(addresses, "the fake driver")

    def _entry(self, symbol: str) -> Callable[..., int]:
        function = getattr(self, symbol.partition("_")[0], None)

        def entry(*given: Any) -> int:
            self.calls[symbol] += 1
            if self.faults.get(symbol):
                return self.faults[symbol].pop(0)
            return 801 if function is None else function(*given) or 0

        return entry

    @property
    def used(self) -> int:
        return sum(len(block) for block in self.held.values())

    def leaks(self) -> list[Any]:
        """What was not given back."""
        return [*self.held, *self.pinned, *self.handles.values(), *self.contexts.elements()]

    def _handle(self, place: int, kind: str) -> None:
        self._next += 8
        self.handles[self._next] = kind
        put(place, ctypes.c_uint64, self._next)

    def run(self, stream: int, until: int | None = None) -> None:
        """Do the work of a stream."""
        queue = self.queues[stream]
        while queue and (until is None or self.done[stream] < until):
            queue.pop(0)()
            self.done[stream] += 1

    def later(self, stream: int | None, work: Callable[[], Any]) -> None:
        self.queues[stream or 0].append(work)

    # --- the functions -------------------------------------------------------------------------------------------

    def cuInit(self, flags: int) -> None: ...

    def cuDriverGetVersion(self, place: int) -> None:
        put(place, ctypes.c_int, 13000)

    def cuGetErrorName(self, code: int, place: int) -> None:
        name = self._names.get(code)
        put(place, ctypes.c_void_p, ctypes.addressof(name) if name else None)

    cuGetErrorString = cuGetErrorName

    def cuDeviceGetCount(self, place: int) -> None:
        put(place, ctypes.c_int, self.devices)

    def cuDeviceGet(self, place: int, ordinal: int) -> None:
        put(place, ctypes.c_int, ordinal)

    def cuDeviceGetName(self, place: int, size: int, device: int) -> None:
        ctypes.memmove(place, b"Fake GPU\0", 9)

    def cuDeviceGetAttribute(self, place: int, number: int, device: int) -> None:
        put(place, ctypes.c_int, {75: 9, 76: 0}.get(number, number))

    def cuDeviceTotalMem(self, place: int, device: int) -> None:
        put(place, ctypes.c_uint64, self.memory)

    def cuDevicePrimaryCtxRetain(self, place: int, device: int) -> None:
        self.contexts[device] += 1
        put(place, ctypes.c_uint64, 0xC000 + device)

    def cuDevicePrimaryCtxRelease(self, device: int) -> None:
        self.contexts[device] -= 1

    def cuCtxSetCurrent(self, context: int) -> None: ...

    def cuCtxSynchronize(self) -> None:
        for stream in list(self.queues):
            self.run(stream)

    def cuMemGetInfo(self, free: int, total: int) -> None:
        put(free, ctypes.c_uint64, self.memory - self.used)
        put(total, ctypes.c_uint64, self.memory)

    def cuMemAlloc(self, place: int, size: int) -> int:
        if self.used + size > self.memory:
            return 2
        block = (ctypes.c_uint8 * size)(*b"\xdb" * min(size, 64))
        self.held[ctypes.addressof(block)] = block
        put(place, ctypes.c_uint64, ctypes.addressof(block))
        return 0

    def cuMemFree(self, address: int) -> int:
        return 0 if self.held.pop(address, None) is not None else 1

    def cuPointerGetAttribute(self, place: int, number: int, address: int) -> None:
        put(place, ctypes.c_int, 0)

    def cuMemHostAlloc(self, place: int, size: int, flags: int) -> None:
        block = (ctypes.c_uint8 * size)()
        self.pinned[ctypes.addressof(block)] = block
        put(place, ctypes.c_uint64, ctypes.addressof(block))

    def cuMemFreeHost(self, address: int) -> int:
        return 0 if self.pinned.pop(address, None) is not None else 1

    def cuMemcpyHtoDAsync(self, target: int, source: int, size: int, stream: int | None) -> None:
        self.later(stream, lambda: ctypes.memmove(target, source, size))

    cuMemcpyDtoHAsync = cuMemcpyDtoDAsync = cuMemcpyHtoDAsync

    def cuMemsetD8Async(self, target: int, byte: int, size: int, stream: int | None) -> None:
        self.later(stream, lambda: ctypes.memset(target, byte, size))

    def cuModuleLoadDataEx(self, place: int, ptx: int, count: int, options: int, values: int) -> int:
        text = ctypes.string_at(ptx)
        if b".version" not in text:
            log = ctypes.cast(values, ctypes.POINTER(ctypes.c_void_p))[0]
            ctypes.memmove(log, b"line 1: no version\0", 19)
            return 218
        self._handle(place, "module")
        return 0

    def cuModuleUnload(self, module: int) -> int:
        return 0 if self.handles.pop(module, None) else 400

    def cuModuleGetFunction(self, place: int, module: int, name: bytes) -> int:
        if name != b"k":
            return 500
        put(place, ctypes.c_uint64, 77)
        return 0

    def cuFuncGetAttribute(self, place: int, number: int, function: int) -> None:
        put(place, ctypes.c_int, {1: 48, 4: 32}[number])

    def cuFuncSetAttribute(self, function: int, number: int, value: int) -> int:
        return 0 if value <= 232448 else 1

    def cuLaunchKernel(self, function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int,
                       stream: int | None, places: int, extra: int) -> int:  # fmt: skip
        """The kernel adds its second argument to the bytes of its first, as many as the third says."""
        if not 0 < bx * by * bz <= 1024:
            return 1
        pointers = ctypes.cast(places, ctypes.POINTER(ctypes.c_void_p))
        target = ctypes.c_uint64.from_address(pointers[0]).value
        number, count = (ctypes.c_int32.from_address(pointers[i]).value for i in (1, 2))

        def work() -> None:
            found = (ctypes.c_uint8 * count).from_address(target)
            for i in range(count):
                found[i] = found[i] + number & 255

        self.later(stream, work)
        return 0

    def cuStreamCreate(self, place: int, flags: int) -> None:
        self._handle(place, "stream")
        self.queues[self._next] = []

    def cuStreamDestroy(self, stream: int) -> int:
        if self.handles.pop(stream, None) != "stream":
            return 400
        self.run(stream)
        return 0

    def cuStreamSynchronize(self, stream: int | None) -> int:
        if (stream or 0) not in self.queues:
            return 400
        self.run(stream or 0)
        return 0

    def cuStreamQuery(self, stream: int | None) -> int:
        return 600 if self.queues[stream or 0] else 0

    def cuStreamWaitEvent(self, stream: int | None, event: int, flags: int) -> None:
        other, until = self.recorded[event]
        if other != (stream or 0):
            self.later(stream, lambda: self.run(other, until))

    def cuEventCreate(self, place: int, flags: int) -> None:
        self._handle(place, "event")

    def cuEventDestroy(self, event: int) -> int:
        return 0 if self.handles.pop(event, None) == "event" else 400

    def cuEventRecord(self, event: int, stream: int | None) -> None:
        self.recorded[event] = stream or 0, self.done[stream or 0] + len(self.queues[stream or 0])

    def cuEventQuery(self, event: int) -> int:
        stream, until = self.recorded[event]
        if self.done[stream] >= until:
            return 0
        if self.delay:
            self.delay -= 1
            return 600
        self.run(stream, until)
        return 600

    def cuEventSynchronize(self, event: int) -> None:
        self.run(*self.recorded[event])

    def cuEventElapsedTime(self, place: int, start: int, end: int) -> None:
        put(place, ctypes.c_float, 1.5)
