"""DeviceContext: the primary context of one device, with the streams and events that live as long as it does.

The primary context is the one that the CUDA runtime, PyTorch and pycuda use, so memory and streams can go from one
library to another. It is made current once in each thread that asks for it: who makes another one current there has to
put it back. A child of a fork has no use of its parent's contexts, which CUDA forbids; what it inherits is refused with
an error, and given back to nobody.

Streams are never destroyed before the context: their handles name them for good, in the allocator's lists, too.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Final

from jitgraph.errors import DeviceError
from jitgraph.runtime import forks
from jitgraph.runtime.cuda.driver import Driver

DEFAULT_STREAM: Final = 0
FORKED: Final = "was in use before this process was forked, and CUDA cannot be used in such a child"
CLOSED: Final = "was closed, and what was made on it is gone"
AFTER: Final = {
    FORKED: 'start the process with multiprocessing.get_context("spawn"), or fork before the first use of CUDA',
    CLOSED: "make tensors, streams and events anew",
}
_MOST_STREAMS: Final = 32  # of one device; then they are handed out again, in turn


class _ThreadContext(threading.local):
    """Which context is current in this thread, as far as this package has made it so."""

    context: DeviceContext | None = None


class _ThreadStream(threading.local):
    """The current stream of this thread."""

    current: int = DEFAULT_STREAM


_thread: Final = _ThreadContext()
_living: Final = forks.Living()


class DeviceContext:
    """The primary context of the device of this number."""

    def __init__(self, driver: Driver, ordinal: int) -> None:
        self.driver = driver
        self.ordinal = ordinal
        self.name = f"cuda:{ordinal}"
        self.end = ""
        """Why it is of no use any more; empty as long as it is."""
        self.handle = driver.retain_context(ordinal)
        self._lock = forks.lock()
        self._streams: list[int] = []
        self._next_stream = 0
        self._events: list[int] = []
        self._all_events: set[int] = set()
        self._dropped: deque[int] = deque()
        self._current = _ThreadStream()
        _living.add(self)

    def enter(self) -> Driver:
        """The driver, with this context current in the thread; DeviceError where it is of no use any more."""
        if self.end:
            raise DeviceError(f"{self.name} {self.end}", hint=AFTER[self.end])
        if _thread.context is not self:
            self.driver.make_current(self.handle)
            _thread.context = self
        return self.driver

    def synchronize(self) -> None:
        """Wait for all work of the device."""
        self.enter().synchronize()

    # --- streams ---------------------------------------------------------------------------------------------------

    @property
    def stream(self) -> int:
        """The handle of this thread's current stream on the device."""
        return self._current.current

    @stream.setter
    def stream(self, handle: int) -> None:
        self._current.current = handle

    def take_stream(self) -> int:
        """A stream beside the default one: a new one, and once there are many of them, each in turn."""
        driver = self.enter()
        with self._lock:
            if len(self._streams) < _MOST_STREAMS:
                self._streams.append(driver.create_stream())
                return self._streams[-1]
            self._next_stream += 1
            return self._streams[self._next_stream % _MOST_STREAMS]

    def wait_for(self, stream: int, other: int) -> None:
        """Let later work of ``stream`` wait for all work of ``other`` so far."""
        driver, event = self.enter(), self.take_event()
        try:
            driver.record_event(event, other)
            driver.wait_event(stream, event)
        finally:
            self.give_event(event)  # whoever waits for it waits for what was recorded then

    # --- events ----------------------------------------------------------------------------------------------------

    def create_event(self, *, timing: bool = False, blocking: bool = False) -> int:
        """An event of the caller's own, who says by ``drop_event`` that it is needed no more."""
        driver = self.enter()
        while self._dropped:
            event = self._dropped.popleft()
            self._all_events.discard(event)
            driver.destroy_event(event)
        new_event = driver.create_event(timing=timing, blocking=blocking)
        self._all_events.add(new_event)
        return new_event

    def drop_event(self, event: int) -> None:
        """Need an event of ``create_event`` no more. Callable at any time, from finalisers as well."""
        self._dropped.append(event)

    def take_event(self) -> int:
        """An event that measures no times; ``give_event`` lets others have it."""
        try:
            return self._events.pop()
        except IndexError:
            return self.create_event()

    def give_event(self, event: int) -> None:
        """Need an event of ``take_event`` no more."""
        self._events.append(event)

    def close(self) -> None:
        """Give streams, events and the context back; what is still held is of no use from now on."""
        if self.end:
            return
        driver = self.enter()
        self._events.clear()
        self._dropped.clear()
        while self._all_events:
            driver.destroy_event(self._all_events.pop())
        while self._streams:
            driver.destroy_stream(self._streams.pop())
        self.abandon()
        driver.make_current(0)
        driver.release_context(self.ordinal)

    def abandon(self) -> None:
        """Be of no use from now on, and call the driver no more."""
        self.end = CLOSED
        _thread.context = None


def _lose() -> None:
    for context in _living.members():
        context.end = FORKED
    _thread.context = None


forks.in_child(_lose)
