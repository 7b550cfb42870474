"""Where a tensor lies while a graph is lowered."""

from __future__ import annotations

from jitgraph.ir.dims import DimLike
from jitgraph.ir.types import TensorType
from jitgraph.records import dataclass


@dataclass(frozen=True, slots=True)
class StackSlice:
    """Which slice of a buffer along its first axis a storage is: the one that a 0-d int64 buffer counts to."""

    counter: Storage
    length: DimLike
    reverse: bool


@dataclass(frozen=True, slots=True)
class Storage:
    """A tensor in a buffer of the schedule: the buffer's name, the tensor's type, and where it is one slice, which."""

    name: str
    type: TensorType
    slot: StackSlice | None = None

    @property
    def size(self) -> DimLike:
        """Elements of the whole buffer."""
        return self.type.size if self.slot is None else self.type.size * self.slot.length
