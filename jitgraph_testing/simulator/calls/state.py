"""What the driver's stand-in knows: devices, contexts, handles, errors that stay."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import field
from typing import Final, TypeVar

from jitgraph.records import dataclass
from jitgraph_testing.simulator.calls.codes import (
    CAPTURE_IMPLICIT,
    CAPTURE_INVALIDATED,
    CAPTURE_UNSUPPORTED,
    ILLEGAL_ADDRESS,
    ILLEGAL_INSTRUCTION,
    INVALID_CONTEXT,
    INVALID_HANDLE,
    LAUNCH_FAILED,
    MISALIGNED_ADDRESS,
    NOT_INITIALIZED,
    DriverFault,
)
from jitgraph_testing.simulator.calls.works import FakeStream, RecordedWork, Scheduler, Work
from jitgraph_testing.simulator.device_memory import DeviceMemory
from jitgraph_testing.simulator.faults import AlignmentError, BoundsError, DamageError, SimulationError, TrapError
from jitgraph_testing.simulator.module import SimulatedModule

_T = TypeVar("_T")
LEGACY: Final = (0, 1)  # NULL and CU_STREAM_LEGACY
PER_THREAD: Final = 2


@dataclass(slots=True, eq=False)
class FakeDevice:
    """A device: its memory, and the context that all of a process share."""

    ordinal: int
    total_bytes: int
    memory: DeviceMemory
    context: int = 0
    retained: int = 0


@dataclass(slots=True, eq=False)
class FakeModule:
    """A module that was loaded into a context."""

    device: FakeDevice
    simulated: SimulatedModule
    functions: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class FakeFunction:
    """A kernel of a module, and the dynamic shared memory that it was allowed."""

    module: FakeModule
    name: str
    most_dynamic_shared: int = 48 << 10


@dataclass(slots=True, eq=False)
class FakeEvent:
    """An event: the work after which it was recorded last."""

    context: int
    timed: bool
    work: Work | None = None
    captured: tuple[object, frozenset[int]] | None = None


@dataclass(slots=True, eq=False)
class FakeGraph:
    """Recorded work."""

    nodes: list[RecordedWork]


@dataclass(slots=True, eq=False)
class FakeGraphExec:
    """Recorded work that can be launched."""

    context: int
    nodes: list[RecordedWork]


class DriverState:
    """All of it. Handles are numbers that no two objects share, so a stale or mistaken one is found."""

    def __init__(self, devices: int, memory_bytes: int, seed: int | None) -> None:
        self.initialized = False
        self.seed = seed
        self.launches = 0
        self.devices = [FakeDevice(i, memory_bytes, DeviceMemory()) for i in range(devices)]
        self.scheduler = Scheduler(seed)
        self.texts: dict[bytes, str] = {}  # LLVM IR by the digest of its PTX
        self.modules: dict[str, SimulatedModule] = {}
        self.pinned: dict[int, ctypes.Array[ctypes.c_char]] = {}
        self.failures: list[SimulationError] = []
        self.notes: list[str] = []
        self.error = 0  # of earlier work: every later call gives it
        self._objects: dict[int, object] = {}
        self._next = 0x7F0000001000
        self._thread = threading.local()

    def new(self, value: object) -> int:
        """A handle."""
        self._next += 0x40
        self._objects[self._next] = value
        return self._next

    def get(self, handle: int | None, kind: type[_T], code: int = INVALID_HANDLE) -> _T:
        """The object of a handle; DriverFault where there is none of that kind."""
        obj = self._objects.get(handle or 0)
        if not isinstance(obj, kind):
            raise DriverFault(code, f"{handle or 0:#x} is no handle of a {kind.__name__}")
        return obj

    def drop(self, handle: int | None, kind: type[_T]) -> _T:
        """The object of a handle, which is none from now on."""
        obj = self.get(handle, kind)
        del self._objects[handle or 0]
        return obj

    @property
    def current(self) -> int:
        """The context of the calling thread; 0 where it has none."""
        return int(getattr(self._thread, "context", 0))

    @current.setter
    def current(self, context: int) -> None:
        self._thread.context = context

    def device(self) -> FakeDevice:
        """The device of the calling thread's context; DriverFault where it has none, or an error stands."""
        if not self.initialized:
            raise DriverFault(NOT_INITIALIZED, "cuInit was not called")
        if not self.current:
            raise DriverFault(INVALID_CONTEXT, "the calling thread has no current context")
        if self.error:
            raise DriverFault(self.error, "an earlier launch or copy failed")
        return self.get(self.current, FakeDevice, INVALID_CONTEXT)

    def stream(self, handle: int | None) -> FakeStream:
        """The stream of a handle in the current context: the legacy one, the thread's own, or one that was made."""
        self.device()
        if (handle or 0) in LEGACY or handle == PER_THREAD:
            key = self.current if handle != PER_THREAD else self.current + 1 + (threading.get_ident() << 64)
            if key not in self.scheduler.streams:
                self.scheduler.streams[key] = FakeStream(0 if handle != PER_THREAD else 2, self.current, True)
            return self.scheduler.streams[key]
        stream = self.get(handle, FakeStream)
        if stream.context != self.current:
            raise DriverFault(INVALID_HANDLE, "the stream belongs to another context")
        return stream

    def streams(self) -> list[FakeStream]:
        """Those of the current context."""
        return [each for each in self.scheduler.streams.values() if each.context == self.current]

    def submit(self, stream: FakeStream, what: str, do: Callable[[], None]) -> None:
        """Queue work, or record it where the stream captures."""
        if stream.capture:
            if stream.capture.invalid:
                raise DriverFault(CAPTURE_INVALIDATED)
            stream.capture.add(stream, what, do)
            return
        self.scheduler.submit(stream, what, self.watched(do), self.before(stream))

    def before(self, stream: FakeStream) -> list[Work]:
        """What the legacy stream's rules put before the next work of a stream."""
        if not stream.blocking:
            return []
        others = [each for each in self.streams() if each.blocking and each is not stream]
        if stream.handle == 0:
            if any(each.capture for each in others):
                raise DriverFault(CAPTURE_IMPLICIT)
            return [each.last for each in others if each.last]
        return [each.last for each in others if each.handle == 0 and each.last]

    def watched(self, do: Callable[[], None]) -> Callable[[], None]:
        """``do``, whose error becomes that of the context; after an error nothing is done."""

        def work() -> None:
            if self.error:
                return
            try:
                do()
            except SimulationError as error:
                self.failures.append(error)
                self.notes.append(error.message)
                self.error = _code(error)
            except KeyboardInterrupt:
                self.notes.append("it was interrupted")
                self.error = LAUNCH_FAILED  # and nobody takes what it has left for results
                raise

        return work

    def wait(self, streams: list[FakeStream]) -> None:
        """Do all of the work of streams; DriverFault where it failed, or one of them captures."""
        for stream in streams:
            if stream.capture:
                stream.capture.invalid = True
                raise DriverFault(CAPTURE_UNSUPPORTED, "a stream that captures was waited for")
        self.scheduler.drain(streams)
        if self.error:
            raise DriverFault(self.error)

    def asked(self, stream: FakeStream) -> None:
        """Somebody asks whether a stream is done, and will ask again: one piece of its work is done meanwhile."""
        if stream.queue:
            self.scheduler.finish(stream.queue[0])

    def refuse_in_capture(self) -> None:
        """DriverFault where a capture of the calling thread, or a global one, forbids a call that may wait."""
        for stream in self.scheduler.streams.values():
            if (capture := stream.capture) and (
                capture.mode == 0 or (capture.mode == 1 and capture.thread == threading.get_ident())
            ):
                capture.invalid = True
                raise DriverFault(CAPTURE_UNSUPPORTED, "the call may not be made while a stream captures")


def _code(error: SimulationError) -> int:
    if isinstance(error, AlignmentError):
        return MISALIGNED_ADDRESS
    if isinstance(error, (BoundsError, DamageError)):
        return ILLEGAL_ADDRESS
    return ILLEGAL_INSTRUCTION if isinstance(error, TrapError) else LAUNCH_FAILED
