"""Replay: calls that come back with the addresses that they had go to the device as one graph of all their launches.

A graph holds the addresses that it was captured with. The allocator hands memory out again to whoever asks for its size
(``memory.py``), state is updated in place, and numbers are uploaded anew only where they changed, so the calls of a
loop have few sets of addresses, mostly one. A set that comes back is captured, a few are kept, and a call with any
other is launched piece by piece. Nothing is changed in a graph: that costs a call of the driver for each of its nodes.

What is captured is the host's entry itself, on a stream of its own: it only asks for work
(``codegen/cuda/host_entry.py``).
Entries that wait for the device are none of these.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from jitgraph.errors import CudaError
from jitgraph.runtime import forks
from jitgraph.runtime.cuda.context import DeviceContext
from jitgraph.runtime.cuda.driver import Driver

LEAST_LAUNCHES: Final = 3
"""Launches from which on one graph asks less of the driver than they do by themselves."""

_MOST_KEPT: Final = 4  # graphs of one kind of call
_MOST_SEEN: Final = 32  # sets of addresses that wait to come back
_MOST_IN_VAIN: Final = 64  # calls without a graph, after which so many more do not look for one
_PAUSE: Final = 1024
_LEAST_HITS: Final = 8  # that a graph has to have on average, as it is dear to make
_CREDIT: Final = 64
_THREAD_LOCAL: Final = 1  # of CUstreamCaptureMode: other threads may do what they like meanwhile

Key = tuple[Any, ...]


class Capturing:
    """The stream of one device on which calls are captured, one at a time, and the graphs that are to be destroyed."""

    def __init__(self, context: DeviceContext) -> None:
        self._context = context
        self._lock = forks.lock()
        self._stream = 0
        self._graphs: set[int] = set()
        self._dropped: deque[int] = deque()

    def captured(self, driver: Driver, ask: Callable[[int], bool]) -> CapturedGraph | None:
        """A graph of the work that ``ask`` puts on a stream; None where it, or the driver, cannot."""
        with self._lock:
            while self._dropped:
                self._destroy(driver, self._dropped.popleft())
            if not self._stream:
                self._stream = driver.create_stream()
            try:
                driver.begin_capture(self._stream, _THREAD_LOCAL)
                is_asked = False
                try:
                    is_asked = ask(self._stream)
                finally:
                    graph = driver.end_capture(self._stream)
                try:
                    if not is_asked:
                        return None
                    instance = driver.instantiate(graph)
                finally:
                    driver.destroy_graph(graph)
            except CudaError:
                return None
            self._graphs.add(instance)
            return CapturedGraph(self, instance)

    def drop(self, graph: int) -> None:
        """Need a graph no more. Callable at any time, from finalisers as well."""
        self._dropped.append(graph)

    def close(self) -> None:
        """Give everything back."""
        driver = self._context.enter()
        with self._lock:
            for graph in list(self._graphs):
                self._destroy(driver, graph)
            self._dropped.clear()
            if self._stream:
                driver.destroy_stream(self._stream)
                self._stream = 0

    def _destroy(self, driver: Driver, graph: int) -> None:
        if graph in self._graphs:
            self._graphs.discard(graph)
            driver.destroy_executable_graph(graph)


class CapturedGraph:
    """A graph that can be launched while it is held, as a caller that is about to launch it does."""

    __slots__ = ("_capturing", "handle")

    def __init__(self, capturing: Capturing, handle: int) -> None:
        self._capturing = capturing
        self.handle = handle

    def __del__(self) -> None:
        self._capturing.drop(self.handle)


class Replays:
    """The graphs of one kind of call; safe from several threads, of which each finds whole graphs."""

    def __init__(self, capturing: Capturing) -> None:
        self._capturing = capturing
        self._graphs: dict[Key, CapturedGraph] = {}
        self._seen: dict[Key, None] = {}
        self._in_vain = self._hits = self._captures = 0

    def graph(self, key: Key, driver: Driver, ask: Callable[[int], bool]) -> CapturedGraph | None:
        """The graph of a call with these addresses, captured by ``ask`` when they come back; None for none."""
        cached = self._graphs.get(key)
        if cached is not None:
            self._in_vain = 0
            self._hits += 1
            return cached
        self._in_vain += 1
        if self._in_vain > _MOST_IN_VAIN:  # addresses do not come back here
            if self._in_vain > _PAUSE:
                self._in_vain = 0
            return None
        if key not in self._seen:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen[key] = None
            return None
        is_worth_it = self._captures * _LEAST_HITS <= self._hits + _CREDIT
        captured = self._capturing.captured(driver, ask) if is_worth_it else None
        if captured is None:
            self._in_vain = _MOST_IN_VAIN
            self._hits += _LEAST_HITS  # so that it is tried again after a pause
            return None
        self._captures += 1
        while len(self._graphs) >= _MOST_KEPT:
            self._graphs.pop(next(iter(self._graphs)), None)
        self._seen.pop(key, None)
        return self._graphs.setdefault(key, captured)  # another thread may have been first
