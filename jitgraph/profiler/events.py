"""What a profile saw: events in nanoseconds and their totals, and the bytes and arithmetic that a launch needs at
least.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from jitgraph.codegen.kernels.kernel import Attend, Body, Contract, Kernel, Load, Loop, Store, bodies_of
from jitgraph.codegen.kernels.schedule import HostStep, Launch, Schedule
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.location import Location
from jitgraph.records import NamedTuple, dataclass

# ----------------------------------------------------------------------
# What a profile saw: events in nanoseconds of ``time.perf_counter_ns``, and their totals by kind, name and line.

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


# ----------------------------------------------------------------------
# What a launch has to do at least: bytes to move between memory and processor, and the arithmetic of products.


class LeastWork(NamedTuple):
    """Bytes and floating-point operations of one run, and the bits of a number in a product."""

    bytes: int
    flops: int
    bits: int


class TimedStep:
    """A timed step of a schedule: its name, the user's lines, and its work at given sizes."""

    def __init__(self, schedule: Schedule, step: Launch | HostStep) -> None:
        self._step = step
        self._buffers = {buffer.name: buffer.bytes for buffer in schedule.buffers}
        if isinstance(step, Launch):
            self.name, self.lines = step.kernel.name, step.lines
        else:
            call = schedule.calls[step.site]
            self.name, self.lines = f"{call.op.name} (Python)", lines_of(call.location)

    def work(self, sizes: Mapping[str, int]) -> LeastWork:
        """What one run does for these values of named sizes."""
        step = self._step
        buffer_bytes = {name: dims.evaluate(self._buffers[name], sizes) for name in dict.fromkeys(step.buffers)}
        if isinstance(step, HostStep):
            return LeastWork(sum(buffer_bytes.values()), 0, 32)
        touched = _Touched(step.kernel, sizes)
        moved = 0
        for name, param in zip(step.buffers, step.kernel.params, strict=True):
            directions = 2 if param.access == "readwrite" else 1
            moved += directions * int(min(buffer_bytes[name], touched.accesses[param.name] * param.dtype.itemsize))
        return LeastWork(moved, int(touched.flops), touched.bits)


class _Touched:
    """How often a kernel accesses each buffer, at most, and the multiply-adds of its products.

    Extents that are known inside of a loop alone count as without a bound: then a buffer is moved as a whole.
    """

    def __init__(self, kernel: Kernel, sizes: Mapping[str, int]) -> None:
        self.accesses: defaultdict[str, float] = defaultdict(float)
        self.flops = 0.0
        self.bits = 32
        self._sizes = sizes
        self._walk(kernel.body, 1.0)

    def _extent(self, extent: DimLike) -> float:
        known = all(name in self._sizes for name in dims.names(extent))
        return float(max(0, dims.evaluate(extent, self._sizes))) if known else math.inf

    def _walk(self, body: Body, runs: float) -> None:
        for statement in body:
            match statement:
                case Load(buffer=buffer) | Store(buffer=buffer):
                    self.accesses[buffer] += runs
                case Loop(extent=extent, begin=begin, span=span):
                    extents = [self._extent(extent - begin)]
                    turns = min([*extents, float(span)] if span is not None else extents)
                    for inner in bodies_of(statement):
                        self._walk(inner, runs * turns)
                case Contract():
                    m, n, k = map(self._extent, statement.extents)
                    if statement.span is not None:
                        k = min(k, float(statement.span))
                    self._products(runs * m * n * k, statement.left.value.dtype.itemsize)
                    self._walk(statement.left.body, runs * m * k)
                    self._walk(statement.right.body, runs * n * k)
                    self._walk(statement.epilogue, runs * m * n)
                case Attend():
                    m, n = map(self._extent, statement.extents)
                    columns = sum(factor.extent for factor in statement.columns)
                    self._products(runs * m * n * columns, 4)
                    for inner in bodies_of(statement):
                        self._walk(inner, math.inf)
                case _:
                    pass

    def _products(self, count: float, itemsize: int) -> None:
        if math.isfinite(count):
            self.flops += 2 * count
        self.bits = max(self.bits, 8 * itemsize)
