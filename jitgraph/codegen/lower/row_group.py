"""A group of reductions that share their rows, as the lowerings of ``rows.py`` and ``split_reduction.py`` see it."""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import LoopKind
from jitgraph.codegen.lower.building import Group
from jitgraph.codegen.lower.schedules.heuristics import Heuristics
from jitgraph.codegen.lower.storage import Storage
from jitgraph.codegen.lower.values import Evaluator
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node, Value
from jitgraph.ir.types import Shape
from jitgraph.records import dataclass


@dataclass(frozen=True)
class Rows:
    """A group with its domain, the reduced axes and the kept ones, and the target's decisions."""

    group: Group
    domain: Shape
    axes: tuple[int, ...]
    kept: tuple[int, ...]
    outputs: list[tuple[Value, Storage]]
    heuristics: Heuristics

    @property
    def by_column(self) -> bool:
        """Whether neighbouring rows, not neighbouring elements of a row, are lanes."""
        return bool(self.kept) and self.kept[-1] == len(self.domain) - 1 and self.domain[-1] != 1

    @property
    def kinds(self) -> list[LoopKind]:
        """The kinds of the loops over the rows."""
        if self.by_column:
            return self.heuristics.independent([self.domain[axis] for axis in self.kept])
        return ["parallel"] * len(self.kept)

    @property
    def full(self) -> list[tuple[Value, Storage]]:
        """Outputs of the domain's shape."""
        return [output for output in self.outputs if self.axes and output[0].shape == self.domain]

    @property
    def narrow(self) -> list[tuple[Value, Storage]]:
        """Outputs with one element a row."""
        return [output for output in self.outputs if not (self.axes and output[0].shape == self.domain)]

    @property
    def reductions(self) -> list[Node]:
        """The reductions of the group, in order."""
        return [node for node in self.group.graph.nodes if node.op.kind == "reduce"]

    @property
    def in_stages(self) -> bool:
        """Whether something of the domain's shape, stored or reduced, depends on a reduction of the group."""
        after: set[Value] = set()
        for node in self.group.graph.nodes:
            depends = any(value in after for value in node.inputs)
            if depends and node.op.kind == "reduce":
                return True
            if depends or node.op.kind == "reduce":
                after.update(node.outputs)
        return any(value in after for value, _ in self.full)


def store_at(values: Evaluator, outputs: Sequence[tuple[Value, Storage]], index: tuple[DimLike, ...]) -> None:
    """Store the outputs' elements at one place."""
    elements = [values.at(value, index) for value, _ in outputs]
    for element, (value, storage) in zip(elements, outputs, strict=True):
        values.recorder.store(storage, offset(index, value.shape), element)
