"""ScheduleBuilder: the buffers, steps and check sites of a schedule while a graph is lowered; and elementwise
groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import Kernel
from jitgraph.codegen.kernels.schedule import HostCall, Launch, ScheduleBuffer, Step
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.schedules.heuristics import Heuristics
from jitgraph.codegen.lower.statements import Storage
from jitgraph.codegen.lower.values import Evaluator, Inline, Sites, SizeNumbers
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.op import Kind, Lowering
from jitgraph.ir.types import Constant, Shape, TensorType
from jitgraph.location import Location
from jitgraph.records import dataclass
from jitgraph.runtime import imports, loader

# ----------------------------------------------------------------------
# ScheduleBuilder: the buffers, steps and check sites of a schedule while a graph is lowered to it.


@dataclass(frozen=True)
class Group:
    """What one lowering turns into kernels: a closed region, and the buffers of its inputs and outputs.

    An output stands in ``outputs`` once for every buffer that it is to be written to.
    """

    graph: Graph
    inputs: dict[Value, Storage]
    outputs: tuple[tuple[Value, Storage], ...]
    checked: frozenset[Node] = frozenset()  # nodes whose indices a kernel before has checked

    @property
    def name(self) -> str:
        """A name for its kernels, from the ops in it."""
        shown = [node.op.name for node in self.graph.nodes if node.op.kind not in ("movement", "creation")]
        shown = shown or [node.op.name for node in self.graph.nodes] or ["copy"]
        if len(shown) > 4:
            shown = [*shown[:2], "etc", shown[-1]]
        return "_".join(shown)


class ScheduleBuilder:
    """Collects what lowering strategies write, which go by a target's heuristics (``decisions``)."""

    def __init__(
        self, decisions: Heuristics, table: Mapping[Kind | Lowering, Inline], *, fastmath: bool = False
    ) -> None:
        self.decisions = decisions
        self.fastmath = fastmath
        self.buffers: dict[str, ScheduleBuffer] = {}
        self.sites = Sites()
        self.numbers = SizeNumbers()
        self.stacks: list[str] = []
        self._stack_numbers = itertools.count()
        self.prints: list[loader.Print] = []
        self.calls: list[HostCall] = []
        self.steps: list[Step] = []
        self.given_away: frozenset[str] = frozenset()  # inputs that may be overwritten, where a part of one is written
        self._depth = 0
        self.location: Location | None = None  # of the node that is lowered just now
        self.lines: tuple[Location, ...] = ()  # of that and of what was fused into it
        self._table = table
        self._constants: dict[Constant, Storage] = {}
        self._kernels: dict[str, dict[Kernel, int]] = {}

    def storage(self, buffer: ScheduleBuffer) -> Storage:
        """The buffer, entered into the schedule."""
        self.buffers[buffer.name] = buffer
        return Storage(buffer.name, buffer.type)

    def temporary(self, type: TensorType) -> Storage:
        """A new temporary."""
        return self.storage(ScheduleBuffer(f"t{len(self.buffers)}", type, "temporary"))

    def stack(self) -> str:
        """A new stack."""
        self.stacks.append(f"s{next(self._stack_numbers)}")
        return self.stacks[-1]

    def constant(self, node: Node) -> Storage:
        """The buffer of a constant; equal constants share one."""
        value = node.attrs["value"]
        assert isinstance(value, Constant)
        return self.constant_of(value)

    def constant_of(self, value: Constant) -> Storage:
        """The buffer of an array that kernels read; equal ones share one."""
        if value not in self._constants:
            buffer = ScheduleBuffer(f"c{len(self.buffers)}", value.type, "constant", value=value)
            self._constants[value] = self.storage(buffer)
        return self._constants[value]

    def evaluator(self, recorder: KernelRecorder, group: Group) -> Evaluator:
        """The values of a group, for a kernel that ``recorder`` writes."""
        return Evaluator(
            recorder,
            group.graph,
            group.inputs,
            self.constant,
            self.sites,
            self.numbers,
            self._table,
            self.decisions,
            group.checked,
        )

    def launch(self, recorder: KernelRecorder, name: str) -> None:
        """Append a launch of what ``recorder`` wrote; equal kernels get one name, different ones different names."""
        decisions = self.decisions
        kernel, buffers = recorder.kernel(
            name, decisions.squares, decisions.tiles, decisions.lane_cuts, fastmath=self.fastmath
        )
        if not kernel.body:
            return
        same = self._kernels.setdefault(name, {})
        number = same.setdefault(kernel, len(same))
        if number:
            kernel = replace(kernel, name=f"{name}_{number}")
        self.steps.append(Launch(kernel, buffers, self.location, self.lines))

    @contextmanager
    def block(self) -> Iterator[list[Step]]:
        """Collect the steps appended inside the ``with`` into a list of their own."""
        outer, self.steps = self.steps, []
        self._depth += 1
        try:
            yield self.steps
        finally:
            self.steps = outer
            self._depth -= 1

    @property
    def overwrites_inputs(self) -> bool:
        """Whether what is lowered now may write to the memory of inputs, so that indices are to be checked first."""
        return bool(self.given_away) and not self._depth


def is_empty(type: TensorType) -> bool:
    """Whether a tensor of this type is known to have no elements."""
    return any(isinstance(extent, int) and extent == 0 for extent in type.shape)


# ----------------------------------------------------------------------
# Groups in which every element of an output is computed by itself: elementwise chains, copies, stored views.


_RANDOM: Final = "jitgraph.codegen.lower.random_words"  # imported by the first graph that draws


def _blocks(builder: ScheduleBuilder, group: Group, shape: Shape) -> Shape | None:
    """The shape of the blocks of elements that are computed together, as random words are; None for one by one."""
    if not builder.decisions.random_blocks or all(node.op.lowering != "random_bits" for node in group.graph.nodes):
        return None
    blocks: Shape | None = imports.module(_RANDOM).blocks_of(shape)
    return blocks


def lower_pointwise(builder: ScheduleBuilder, group: Group) -> None:
    """One nest of independent iterations for each shape among the outputs."""
    by_shape: dict[Shape, list[tuple[Value, Storage]]] = {}
    for value, storage in group.outputs:
        if not is_empty(value.tensor):
            by_shape.setdefault(value.shape, []).append((value, storage))
    for shape, outputs in by_shape.items():
        recorder = KernelRecorder()
        values = builder.evaluator(recorder, group)
        blocks = _blocks(builder, group, shape)
        with recorder.loops(builder.decisions.independent(blocks or shape), blocks or shape) as place:
            indices = [place] if blocks is None else imports.module(_RANDOM).elements_of(shape, place)
            # Everything is read before anything is written, so an output may take an input's memory.
            results = [[values.at(value, index) for index in indices] for value, _ in outputs]
            for row, (value, storage) in zip(results, outputs, strict=True):
                for index, result in zip(indices, row, strict=True):
                    recorder.store(storage, offset(index, value.shape), result)
        builder.launch(recorder, group.name)
