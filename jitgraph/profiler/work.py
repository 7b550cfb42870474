"""What a launch has to do at least: bytes to move between memory and processor, and the arithmetic of products."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from jitgraph.codegen.kernels.kernel import Attend, Body, Contract, Kernel, Load, Loop, Store, bodies_of
from jitgraph.codegen.kernels.schedule import HostStep, Launch, Schedule
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.profiler.events import lines_of
from jitgraph.records import NamedTuple


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
