"""Work in streams: queued, and done when something waits for it, or when the draw of a seed says so."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import field

from jitgraph.records import dataclass


@dataclass(slots=True, eq=False)
class Work:
    """Something that a stream does, after what stands before it there, and after ``waits``."""

    what: str
    do: Callable[[], None]
    stream: FakeStream
    waits: tuple[Work, ...] = ()
    done: bool = False
    time: float = 0.0  # when it ended, in seconds of the made-up clock


@dataclass(slots=True, eq=False)
class FakeStream:
    """A stream of a context; one that does not block runs beside the legacy default stream."""

    handle: int
    context: int
    blocking: bool
    queue: deque[Work] = field(default_factory=deque)
    last: Work | None = None
    capture: StreamCapture | None = None


@dataclass(slots=True, eq=False)
class RecordedWork:
    """A piece of work in a graph, after some others of it."""

    what: str
    do: Callable[[], None]
    after: frozenset[int]


@dataclass(slots=True, eq=False)
class StreamCapture:
    """What streams record instead of doing it: nodes, and those that the next one of each stream comes after."""

    origin: FakeStream
    mode: int
    thread: int
    nodes: list[RecordedWork] = field(default_factory=list)
    ends: dict[int, frozenset[int]] = field(default_factory=dict)  # by the stream's handle
    members: list[FakeStream] = field(default_factory=list)
    invalid: bool = False

    def add(self, stream: FakeStream, what: str, do: Callable[[], None]) -> None:
        """The next piece of work of a stream."""
        self.nodes.append(RecordedWork(what, do, self.ends[stream.handle]))
        self.ends[stream.handle] = frozenset([len(self.nodes) - 1])

    def join(self, stream: FakeStream, after: frozenset[int]) -> None:
        """What ``stream`` records next comes after these nodes; it captures from now on."""
        self.ends[stream.handle] = self.ends.get(stream.handle, frozenset()) | after
        if stream.capture is None:
            stream.capture = self
            self.members.append(stream)

    def unjoined(self) -> bool:
        """Whether a node of another stream is not before the end of the stream that began."""
        reached: set[int] = set()
        open_nodes = list(self.ends[self.origin.handle])
        while open_nodes:
            number = open_nodes.pop()
            if number not in reached:
                reached.add(number)
                open_nodes += self.nodes[number].after
        return len(reached) != len(self.nodes)


class Scheduler:
    """Does work late: only what something waits for, and with a seed sometimes more."""

    def __init__(self, seed: int | None) -> None:
        self._draw = random.Random(seed) if seed is not None else None
        self.clock = 0.0
        self.streams: dict[int, FakeStream] = {}

    def submit(self, stream: FakeStream, what: str, do: Callable[[], None], waits: Iterable[Work] = ()) -> Work:
        """Queue work on a stream."""
        work = Work(what, do, stream, tuple(each for each in waits if not each.done))
        stream.queue.append(work)
        stream.last = work
        self.progress()
        return work

    def progress(self) -> None:
        """With a seed: do some of the work that is queued, or none."""
        if not self._draw:
            return
        waiting = [stream for stream in self.streams.values() if stream.queue]
        while waiting and self._draw.random() < 0.5:
            stream = self._draw.choice(waiting)
            if stream.queue:
                self.finish(stream.queue[0])

    def order(self, nodes: list[RecordedWork]) -> list[RecordedWork]:
        """The nodes of a graph in an order that their edges allow: as recorded, or drawn."""
        if not self._draw:
            return nodes
        left, done, out = set(range(len(nodes))), set[int](), []
        while left:
            number = self._draw.choice(sorted(i for i in left if nodes[i].after <= done))
            left.remove(number)
            done.add(number)
            out.append(nodes[number])
        return out

    def finish(self, work: Work) -> None:
        """Do ``work`` and all that comes before it."""
        open_works = [work]
        while open_works:
            first = open_works[-1]
            if first.done:
                open_works.pop()
                continue
            head = first.stream.queue[0]
            if head is not first:
                open_works.append(head)
                continue
            missing = [each for each in first.waits if not each.done]
            if missing:
                open_works.append(missing[0])
                continue
            first.stream.queue.popleft()
            first.done = True
            self.clock += 1e-6
            first.do()
            first.time = self.clock
            open_works.pop()

    def drain(self, streams: Iterable[FakeStream]) -> None:
        """Do all work of some streams."""
        for stream in streams:
            while stream.queue:
                self.finish(stream.queue[0])
