"""What control flow does with its regions, read from a node in one place: passes, codegen and evaluations ask here.

An op of control flow says by its ``control`` column which of three structures it has; nothing else knows it by name.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from jitgraph.records import dataclass

if TYPE_CHECKING:
    from jitgraph.ir.dims import DimLike
    from jitgraph.ir.graph import Attr, Graph, Node
    from jitgraph.ir.types import Type

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Conditional:
    """One of two regions: the first operand, a 0-d bool, chooses; the others are the inputs of each region."""

    then: Graph
    otherwise: Graph


@dataclass(frozen=True, slots=True)
class RegionCall:
    """One region, whose inputs are the operands."""

    body: Graph


@dataclass(frozen=True, slots=True)
class CarriedLoop:
    """A body that is run again with what it gave: operands and inputs of the body are carries, xs and invariants.

    It runs while ``condition``, which takes the same inputs, says so; without one, ``length`` times, with one slice of
    each x along its first axis, from the last to the first with ``reverse``. The body gives the next carries, then a
    slice of each y; the node the last carries, then the ys, stacked along a new first axis.
    """

    carries: int
    body: Graph
    condition: Graph | None = None
    xs: int = 0
    length: DimLike = 0
    reverse: bool = False

    @property
    def first_invariant(self) -> int:
        """How many operands stand before the invariants."""
        return self.carries + self.xs

    def parts(self, operands: Sequence[_T]) -> tuple[list[_T], list[_T], list[_T]]:
        """What belongs to the carries, the xs and the invariants, of a list with an entry for each operand."""
        carries, last = self.carries, self.first_invariant
        return list(operands[:carries]), list(operands[carries:last]), list(operands[last:])

    def results(self, outputs: Sequence[_T]) -> tuple[list[_T], list[_T]]:
        """What belongs to the carries and the ys, of a list with an entry for each output of the body or the node."""
        return list(outputs[: self.carries]), list(outputs[self.carries :])

    def counts(self, used: Sequence[bool]) -> dict[str, Attr]:
        """The attributes that count operands, where only those flagged are left."""
        carries, xs, _ = self.parts(used)
        if self.condition is not None:
            return {"num_carries": sum(carries)}
        return {"num_carries": sum(carries), "num_xs": sum(xs)}


Structure: TypeAlias = "Conditional | RegionCall | CarriedLoop"


def structure_of(node: Node) -> Structure | None:
    """What the node does with its regions; None for what is no control flow, composites included."""
    return None if node.op.control is None else node.op.control(*node.regions, **node.attrs)


class Machine(Protocol):
    """What evaluates regions: an ``Interpreter``, of arrays or of values that ops are called on."""

    @abstractmethod
    def run(self, graph: Graph, arguments: Sequence[Any]) -> list[Any]:
        """What the graph gives for these arguments."""

    @abstractmethod
    def is_true(self, value: Any) -> bool:
        """What a 0-d bool says."""

    @abstractmethod
    def slice(self, x: Any, i: int) -> Any:
        """``x[i]``."""

    @abstractmethod
    def rows(self, type: Type, length: int) -> Any:
        """A place for ``length`` rows of a value of this type, each put there by ``rows[i] = row``."""

    @abstractmethod
    def stacked(self, rows: Any, type: Type) -> Any:
        """The value of these rows."""


def execute(structure: Structure, machine: Machine, inputs: Sequence[Any], types: Sequence[Type]) -> list[Any]:
    """The outputs, of these types, of control flow with known sizes for these inputs."""
    if isinstance(structure, Conditional):
        return machine.run(structure.then if machine.is_true(inputs[0]) else structure.otherwise, inputs[1:])
    if isinstance(structure, RegionCall):
        return machine.run(structure.body, inputs)
    carries, xs, invariants = structure.parts(inputs)
    if structure.condition is not None:
        while machine.is_true(machine.run(structure.condition, [*carries, *invariants])[0]):
            carries = machine.run(structure.body, [*carries, *invariants])
        return carries
    assert isinstance(structure.length, int)
    _, kinds = structure.results(types)
    buffers = [machine.rows(type, structure.length) for type in kinds]
    steps = range(structure.length)
    for i in reversed(steps) if structure.reverse else steps:
        results = machine.run(structure.body, [*carries, *(machine.slice(x, i) for x in xs), *invariants])
        carries, rows = structure.results(results)
        for buffer, row in zip(buffers, rows, strict=True):
            buffer[i] = row
    return [*carries, *(machine.stacked(buffer, type) for buffer, type in zip(buffers, kinds, strict=True))]
