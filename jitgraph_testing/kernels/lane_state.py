"""What a kernel that is executed has at a point: scalars and axes as arrays over lanes, and memory.

A scalar is an array with a leading axis for each axis that is lanes, of its extent or 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from jitgraph.codegen.kernels.bounds import evaluate_index
from jitgraph.codegen.kernels.kernel import Kernel, Load, Statement, Store, Update
from jitgraph.codegen.kernels.kernel_text import kernel_lines
from jitgraph.errors import GraphError
from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass

Array = NDArray[Any]


@dataclass(slots=True)
class BufferMemory:
    """A buffer; a local one has a copy for each lane of the ``depth`` axes that were lanes where it was declared."""

    array: Array
    depth: int
    writable: bool = True


@dataclass(slots=True)
class LaneState:
    """Values and memory of one execution; ``lanes`` are the extents of the axes that are lanes, outermost first."""

    kernel: Kernel
    memory: dict[str, BufferMemory]
    sizes: Mapping[str, int]
    lanes: list[int] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)  # scalars and axes

    def get(self, name: str) -> Array:
        """The scalar or index ``name`` with one axis for each of ``lanes``."""
        value = self.values.get(name)
        if value is None:
            if name not in self.sizes:
                raise GraphError(f"kernel {self.kernel.name}: {name} has no value here")
            value = np.asarray(self.sizes[name], np.int64)
        return value.reshape(value.shape + (1,) * (len(self.lanes) - value.ndim))

    def index(self, index: DimLike) -> Array:
        return evaluate_index(index, self.get)

    def uniform(self, extent: DimLike) -> int:
        """An extent as an int: it may depend on scalars and axes, but on none that are lanes."""
        value = self.index(extent)
        if value.size != 1:
            raise GraphError(f"kernel {self.kernel.name}: the extent {extent} differs between lanes")
        return int(value.reshape(()))

    def enter(self, axis: str, start: int, count: int) -> None:
        """Make ``count`` iterations of an axis from ``start`` on the innermost lanes."""
        self.values[axis] = np.arange(start, start + count, dtype=np.int64).reshape((1,) * len(self.lanes) + (count,))
        self.lanes.append(count)

    def resolve(self, statement: Load | Store) -> tuple[BufferMemory, Array, Array]:
        """The buffer, the index in it (0 where masked off) and the mask, which have one shape."""
        memory = self.memory.get(statement.buffer)
        if memory is None:
            raise self.fault(statement, f"there is no buffer {statement.buffer} here")
        index = self.index(statement.index)
        on = self.get(statement.mask.name) if statement.mask else np.asarray(True)
        index, on = np.broadcast_arrays(index, on)
        size = memory.array.size
        if memory.depth:
            size //= int(np.prod(self.lanes[: memory.depth]))
        outside = on & ((index < 0) | (index >= size))
        if outside.any():
            first = int(index[outside].flat[0])
            raise self.fault(statement, f"index {first} is outside of {statement.buffer}, which has {size} elements")
        index = np.where(on, index, 0)
        if memory.depth:
            own = np.arange(int(np.prod(self.lanes[: memory.depth])), dtype=np.int64) * size
            index = index + own.reshape(*self.lanes[: memory.depth], *(1,) * (len(self.lanes) - memory.depth))
        return memory, index, np.broadcast_to(on, index.shape)

    def load(self, load: Load) -> None:
        memory, index, on = self.resolve(load)
        if memory.array.size == 0:
            value = np.zeros(index.shape, memory.array.dtype)
        else:
            value = np.where(on, memory.array[index], memory.array.dtype.type(0))
        if value.dtype != load.var.dtype:
            raise self.fault(load, f"{load.buffer} holds {value.dtype.name}, not {load.var.dtype.name}")
        self.values[load.var.name] = value

    def store(self, store: Store) -> None:
        memory, index, on = self.resolve(store)
        if not memory.writable:
            raise self.fault(store, f"{store.buffer} is only read")
        shape = tuple(self.lanes)
        targets = np.broadcast_to(index, shape)[np.broadcast_to(on, shape)]
        value = self.get(store.value.name)
        if value.dtype != memory.array.dtype:
            raise self.fault(store, f"{store.buffer} holds {memory.array.dtype.name}, not {value.dtype.name}")
        new = np.broadcast_to(value, shape)[np.broadcast_to(on, shape)]
        if store.update is not None:
            _UPDATES[store.update].at(memory.array, targets, new)
            return
        if targets.size > 1 and _repeats(targets, memory.array.size):
            raise self.fault(store, f"two iterations of a parallel loop store to one element of {store.buffer}")
        memory.array[targets] = new

    def fault(self, statement: Statement, what: str) -> GraphError:
        line = next((text.strip() for origin, text in kernel_lines(self.kernel) if origin is statement), "")
        axes = {name: value for name, value in self.values.items() if name.startswith("_i") and value.size == 1}
        at = ", ".join(f"{name}={int(value.reshape(()))}" for name, value in axes.items())
        return GraphError(f"kernel {self.kernel.name}: {what}\n    {line}" + (f"\n    at {at}" if at else ""))


_UPDATES: Final[Mapping[Update, np.ufunc]] = {"add": np.add, "max": np.maximum, "min": np.minimum}


def _repeats(index: Array, size: int) -> bool:
    if index.size < size // 16:
        return np.unique(index).size != index.size
    seen = np.zeros(size, np.bool_)
    seen[index] = True
    return int(np.count_nonzero(seen)) != index.size
