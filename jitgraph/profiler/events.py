"""What a profile saw: events in nanoseconds of ``time.perf_counter_ns``, and their totals by kind, name and line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from jitgraph.location import Location
from jitgraph.records import dataclass

Kind: TypeAlias = Literal["kernel", "call", "op", "compile", "trace", "profiler"]
Lines: TypeAlias = tuple[Location, ...]


def lines_of(location: Location | None) -> Lines:
    """The one line, where it is known."""
    return () if location is None else (location,)


def text_of(lines: Lines) -> str:
    """Lines as ``file:3,4``, with the name of each file once."""
    numbers: dict[str, list[int]] = {}
    for location in lines:
        numbers.setdefault(str(location).rpartition(":")[0], []).append(location.line)
    return " ".join(f"{file}:{','.join(map(str, line_numbers))}" for file, line_numbers in numbers.items())


class ProfileEvent(NamedTuple):
    """One thing that ran. ``details`` are shown in the trace of a browser."""

    kind: Kind
    name: str
    lines: Lines
    thread: int
    begin: int
    end: int
    details: Mapping[str, Any]


class ProfileRow(NamedTuple):
    """One line of a profile's table.

    ``seconds`` are without those of rows inside (the kernels of a call, the ops of a composite). ``bytes`` is what its
    runs have to move at least, ``flops`` the multiplications and additions of its products; ``limit`` is the time that
    the machine needs for these at its best as a share of ``seconds``, None where nothing is known of either.
    """

    kind: Kind
    name: str
    lines: Lines
    runs: int
    seconds: float
    bytes: int
    flops: int
    limit: float | None


@dataclass
class Total:
    """The runs of one kind, name and line together."""

    runs: int = 0
    nanoseconds: float = 0.0
    bytes: int = 0
    flops: int = 0
    bits: int = 32

    def add(self, nanoseconds: float, runs: int = 1, bytes: int = 0, flops: int = 0, bits: int = 32) -> None:
        """Count more of it; ``bits`` are those of a number of its products."""
        self.runs += runs
        self.nanoseconds += nanoseconds
        self.bytes += bytes
        self.flops += flops
        self.bits = max(self.bits, bits)


class Events:
    """Totals of everything, and the first ``most`` events one by one."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.totals: dict[tuple[Kind, str, Lines], Total] = {}
        self.dropped = 0
        self._events: list[ProfileEvent] = []

    def __iter__(self) -> Iterator[ProfileEvent]:
        return iter(self._events)

    def total(self, kind: Kind, name: str, lines: Lines) -> Total:
        """The total of one kind, name and lines."""
        key = (kind, name, lines)
        entry = self.totals.get(key)
        if entry is None:
            entry = self.totals[key] = Total()
        return entry

    def note(self, events: Iterable[ProfileEvent]) -> None:
        """Keep events, while there is room."""
        for event in events:
            if len(self._events) < self.most:
                self._events.append(event)
            else:
                self.dropped += 1
