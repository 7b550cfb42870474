"""Cumulative ops: rows, which are independent of each other, in chunks whose totals stand in chunks in turn.

The chunks are those of ``ops/order.py``. A row is walked from its beginning to its end with a carry for each
level of chunks (one carry, where the order is free); or its chunks are worked on at once, in a launch for each level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from jitgraph import dtypes
from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import LoopKind, Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.recorder import KernelRecorder, accumulator
from jitgraph.codegen.lower.statements import ScalarOps
from jitgraph.codegen.lower.values import Index
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node
from jitgraph.ir.types import TensorType
from jitgraph.ops.order import CHUNK, levels_of

Step = Callable[[DimLike, tuple[Var, ...]], tuple[Var, ...]]


def lower_cumulative(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """One kernel; where the last axis is another, rows may be lanes."""
    if is_empty(node.output.tensor):
        return
    running = _Running(builder, group, node)
    most, rows = builder.decisions.rows_in_chunks, dims.product(running.others)
    if most and levels_of(running.extent) and not (isinstance(rows, int) and rows > most):
        running.launch()
    else:
        running.walk()
    builder.launch(running.recorder, group.name)


def _chunks(extent: DimLike, level: int) -> DimLike:
    """How many chunks of a level there are; of level 0, elements."""
    each: int = CHUNK**level
    return (extent + (each - 1)) // each


class _Running:
    """A cumulative op along an axis, as it is written into a kernel."""

    def __init__(self, builder: ScheduleBuilder, group: Group, node: Node) -> None:
        self.builder, self.group, self.node = builder, group, node
        self.recorder = KernelRecorder()
        self.values = builder.evaluator(self.recorder, group)
        self.x = node.inputs[0]
        axis: Any = node.attrs["axis"]
        self.axis: int = axis
        self.extent = self.x.shape[axis]
        self.others = (*self.x.shape[:axis], *self.x.shape[axis + 1 :])
        self.wide = accumulator(self.x.dtype)
        self.ops = ScalarOps(self.recorder, self.wide)
        assert node.op.reduction is not None
        self.reduction = node.op.reduction

    def _start(self) -> Var:
        init: Any = self.reduction.init(self.wide)
        if dtypes.is_float(self.wide) and init == 0:
            init = -0.0  # the identity that keeps the sign of a zero which comes first
        return self.ops.const(init)

    def _combined(self, left: Var | None, right: Var) -> Var:
        if left is None:
            return right
        combined = self.reduction.combine(self.ops, left, right)
        assert isinstance(combined, Var)
        return combined

    def _along(self, row: Index, position: DimLike) -> Index:
        return (*row[: self.axis], position, *row[self.axis :])

    def _element(self, row: Index, position: DimLike) -> Var:
        return self.ops.cast(self.values.at(self.x, self._along(row, position)), self.wide)

    def _serial(self, extent: DimLike, chunk: DimLike | None, step: Step) -> Var:
        """A serial loop over a chunk of an axis, or over all of it, with one carry."""
        start = (self._start(),)
        if chunk is None:
            return self.recorder.serial(extent, start, step)[0]
        return self.recorder.serial(extent, start, step, begin=chunk * CHUNK, span=CHUNK)[0]

    def _store(self, row: Index, chunk: DimLike | None, before: Var | None) -> Var:
        """Store the elements of a chunk, or of the whole row, behind ``before``; gives what they make together."""

        def step(position: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            following = self._combined(carried[0], self._element(row, position))
            result = self.ops.cast(self._combined(before, following), self.x.dtype)
            for _, storage in self.group.outputs:
                self.recorder.store(storage, offset(self._along(row, position), self.x.shape), result)
            return (following,)

        return self._serial(self.extent, chunk, step)

    # --- rows from their beginning to their end

    def walk(self) -> None:
        """A row in each iteration."""
        kinds: list[LoopKind] = ["parallel"] * len(self.others)
        if self.axis < len(self.x.shape) - 1:
            kinds = self.builder.decisions.independent(self.others)
        ordered = self.reduction.rounds and dtypes.is_float(self.wide)
        with self.recorder.loops(kinds, self.others) as row:
            self._walk(row, levels_of(self.extent) if ordered else 0, None, None)

    def _walk(self, row: Index, level: int, chunk: DimLike | None, before: Var | None) -> Var:
        if not level:
            return self._store(row, chunk, before)

        def step(inner: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
            total = self._walk(row, level - 1, inner, self._combined(before, carried[0]))
            return (self._combined(carried[0], total),)

        return self._serial(_chunks(self.extent, level), chunk, step)

    # --- the chunks of all rows at once

    def launch(self) -> None:
        """The totals of each level from those below, with what comes before each of these, and then the elements."""
        recorder, levels = self.recorder, levels_of(self.extent)
        shapes = [self._along(self.others, _chunks(self.extent, level)) for level in range(levels + 1)]
        totals = [self.builder.temporary(TensorType(self.wide, shape)) for shape in shapes[1:]]
        before = [self.builder.temporary(TensorType(self.wide, shape)) for shape in shapes[1:]]

        def total(level: int, row: Index, chunk: DimLike | None) -> Var:
            """What a chunk of a level makes, or all of the level."""

            def step(position: DimLike, carried: tuple[Var, ...]) -> tuple[Var, ...]:
                if not level:
                    return (self._combined(carried[0], self._element(row, position)),)
                at = offset(self._along(row, position), shapes[level])
                recorder.store(before[level - 1], at, carried[0])
                return (self._combined(carried[0], recorder.load(totals[level - 1], at, again=True)),)

            return self._serial(shapes[level][self.axis], chunk, step)

        for level in range(levels):
            with self._at_once(shapes[level + 1]) as (row, chunk):
                at = offset(self._along(row, chunk), shapes[level + 1])
                recorder.store(totals[level], at, total(level, row, chunk))
        with recorder.loops(self.builder.decisions.independent(self.others), self.others) as row:
            total(levels, row, None)
        with self._at_once(shapes[1]) as (row, chunk):
            base: Var | None = None
            for level in reversed(range(levels)):
                at = offset(self._along(row, chunk // CHUNK**level), shapes[level + 1])
                base = self._combined(base, recorder.load(before[level], at, again=True))
            self._store(row, chunk, base)

    @contextmanager
    def _at_once(self, shape: Index) -> Iterator[tuple[Index, DimLike]]:
        """A nest over the chunks of a level in all rows."""
        kinds: list[LoopKind] = ["parallel"] * len(shape)  # a chunk of its own is no lane's
        with self.recorder.loops(kinds, shape) as at:
            yield (*at[: self.axis], *at[self.axis + 1 :]), at[self.axis]
