"""The slow executor of kernels: what a kernel means, in NumPy, with every access checked against its buffer.

Iterations of parallel, vector and (side-effect free) reduce loops run as whole arrays, in chunks; everything else runs
step by step. The order of every sum is the documented one, so that the results are those of compiled code, bit for
bit. ``fastmath`` is ignored: rounding after every scalar op is one of its legal outcomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jitgraph import dtypes
from jitgraph.codegen.kernels.executor_lanes import can_be_lanes, most_elements, stores
from jitgraph.codegen.kernels.index_numpy import evaluate_index
from jitgraph.codegen.kernels.kernel import (
    Body,
    CheckStatement,
    Combine,
    Contract,
    IndexValue,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Operand,
    Statement,
    Store,
)
from jitgraph.codegen.kernels.kernel_text import kernel_lines
from jitgraph.codegen.kernels.scalar_numpy import NumpyScalars
from jitgraph.dtypes import DType
from jitgraph.errors import GraphError, JitgraphError
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ops.blocks import merged
from jitgraph.records import dataclass

Array = NDArray[Any]
POISON = 0xA5  # every byte of memory that nothing has written yet
_CHUNK = 1 << 20  # elements of one array of lanes


class CheckFailedError(JitgraphError):
    """A ``CheckStatement`` did not hold: its number in the schedule's table, and the value and bound it reports."""

    def __init__(self, check: int, value: int | None, bound: int | None) -> None:
        super().__init__(f"check {check} failed (value {value}, bound {bound})")
        self.check, self.value, self.bound = check, value, bound


def execute_kernel(
    kernel: Kernel, buffers: Mapping[str, Array], sizes: Mapping[str, int], *, vectorise: bool = True
) -> None:
    """Run ``kernel`` on flat arrays, one for each param and of its dtype and size; written ones are changed in place.

    ``vectorise=False`` runs every iteration by itself, in order. GraphError for an access out of bounds, a store to a
    buffer that is only read, two iterations of one parallel or vector loop that store to the same element, and memory
    shared by params beyond ``kernel.aliases``. CheckFailedError where a check does not hold.
    """
    memory = {}
    for param in kernel.params:
        array = buffers[param.name]
        size = dims.evaluate(param.size, sizes)
        if array.dtype != param.dtype or array.shape != (size,):
            raise GraphError(
                f"kernel {kernel.name}: param {param.name} should be {size} elements of {param.dtype.name}, "
                f"not {array.dtype.name}{list(array.shape)}"
            )
        memory[param.name] = _Memory(array, 0, param.access != "read")
    _require_apart(kernel, buffers)
    with np.errstate(all="ignore"):
        _Run(kernel, memory, sizes, vectorise).body(kernel.body)


def _require_apart(kernel: Kernel, buffers: Mapping[str, Array]) -> None:
    paired = {frozenset(pair) for pair in kernel.aliases}
    for i, left in enumerate(kernel.params):
        for right in kernel.params[i + 1 :]:
            if left.access == right.access == "read" or frozenset((left.name, right.name)) in paired:
                continue
            if np.shares_memory(buffers[left.name], buffers[right.name]):
                raise GraphError(f"kernel {kernel.name}: params {left.name} and {right.name} share memory unpaired")


@dataclass(slots=True)
class _Memory:
    """A buffer; a local one has a copy for each lane of the ``depth`` axes that were lanes where it was declared."""

    array: Array
    depth: int
    writable: bool = True


@dataclass(slots=True)
class _Run:
    """One execution. A scalar is an array with a leading axis for each axis in ``lanes``, of its extent or 1."""

    kernel: Kernel
    memory: dict[str, _Memory]
    sizes: Mapping[str, int]
    vectorise: bool
    lanes: list[int] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)  # scalars and axes

    # values

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

    # statements

    def body(self, body: Body) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Let():
                self.let(statement)
            case IndexValue(var, index):
                self.values[var.name] = np.asarray(self.index(index), np.int64)
            case Load():
                self.load(statement)
            case Store():
                self.store(statement)
            case CheckStatement():
                self.check(statement)
            case Local(buffer, dtype, size):
                array = np.empty((*self.lanes, size), dtype)
                array.view(np.uint8)[...] = POISON if not dtypes.is_bool(dtype) else 1
                self.memory[buffer] = _Memory(array.reshape(-1), len(self.lanes))
            case Loop(kind="parallel" | "vector"):
                self.independent(statement)
            case Loop(kind="serial"):
                self.serial(statement)
            case Loop():
                self.reduce(statement)
            case Contract():
                self.contract(statement)

    def let(self, let: Let) -> None:
        dtype = let.var.dtype
        args: list[Any] = [self.get(arg.name) for arg in let.args]
        s: Any = NumpyScalars(let.args[0].dtype if let.args else dtype)
        match let.op:
            case "const":
                value = s.const(let.param, dtype)
            case "cast" | "bitcast":
                value = getattr(s, let.op)(*args, dtype)
            case "cmp" | "call":
                value = getattr(s, let.op)(let.param, *args)
            case op:
                value = getattr(s, op)(*args)
        if value.dtype != dtype:
            raise self.fault(let, f"{let.op} gives {value.dtype.name}, not {dtype.name}")
        self.values[let.var.name] = np.asarray(value)

    # memory

    def place(self, statement: Load | Store) -> tuple[_Memory, Array, Array]:
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
        memory, index, on = self.place(load)
        if memory.array.size == 0:
            value = np.zeros(index.shape, memory.array.dtype)
        else:
            value = np.where(on, memory.array[index], memory.array.dtype.type(0))
        if value.dtype != load.var.dtype:
            raise self.fault(load, f"{load.buffer} holds {value.dtype.name}, not {load.var.dtype.name}")
        self.values[load.var.name] = value

    def store(self, store: Store) -> None:
        memory, index, on = self.place(store)
        if not memory.writable:
            raise self.fault(store, f"{store.buffer} is only read")
        shape = tuple(self.lanes)
        wanted = np.broadcast_to(index, shape)[np.broadcast_to(on, shape)]
        if wanted.size > 1 and _repeats(wanted, memory.array.size):
            raise self.fault(store, f"two iterations of a parallel loop store to one element of {store.buffer}")
        value = self.get(store.value.name)
        if value.dtype != memory.array.dtype:
            raise self.fault(store, f"{store.buffer} holds {memory.array.dtype.name}, not {value.dtype.name}")
        memory.array[wanted] = np.broadcast_to(value, shape)[np.broadcast_to(on, shape)]

    def check(self, check: CheckStatement) -> None:
        failed = ~np.broadcast_to(self.get(check.ok.name), tuple(self.lanes))
        if not failed.any():
            return
        reported = [
            None if var is None else int(np.broadcast_to(self.get(var.name), failed.shape)[failed].flat[0])
            for var in (check.value, check.bound)
        ]
        raise CheckFailedError(check.check, reported[0], reported[1])

    # loops

    def chunks(self, loop: Loop) -> Iterator[int]:
        """Make the loop's axis the innermost lanes, a chunk of its iterations at a time; gives their number."""
        begin, end = self.window(loop)
        room = max(1, _CHUNK // max(1, int(np.prod(self.lanes)) * most_elements(loop.body, self.sizes)))
        for start in range(begin, end, room):
            count = min(room, end - start)
            self.enter(loop.axis, start, count)
            yield count
            self.lanes.pop()

    def enter(self, axis: str, start: int, count: int) -> None:
        self.values[axis] = np.arange(start, start + count, dtype=np.int64).reshape((1,) * len(self.lanes) + (count,))
        self.lanes.append(count)

    def steps(self, loop: Loop) -> Iterator[int]:
        """Run through the loop's iterations; gives how many came before."""
        begin, end = self.window(loop)
        for step in range(begin, end):
            self.values[loop.axis] = np.asarray(step, np.int64)
            yield step - begin

    def window(self, loop: Loop) -> tuple[int, int]:
        """The loop's first iteration and the one after its last."""
        begin, extent = self.uniform(loop.begin), self.uniform(loop.extent)
        return begin, extent if loop.span is None else min(extent, begin + loop.span)

    def independent(self, loop: Loop) -> None:
        if not (self.vectorise and can_be_lanes(loop)):
            for _ in self.steps(loop):
                self.body(loop.body)
            return
        for _ in self.chunks(loop):
            self.body(loop.body)

    def serial(self, loop: Loop) -> None:
        current = [self.get(carry.init.name) for carry in loop.carries]
        for _ in self.steps(loop):
            self.values.update(zip((carry.var.name for carry in loop.carries), current, strict=True))
            self.body(loop.body)
            current = [self.get(carry.next.name) for carry in loop.carries]
        self.values.update(zip((carry.result.name for carry in loop.carries), current, strict=True))

    def reduce(self, loop: Loop) -> None:
        shape = (*self.lanes, loop.lanes)
        init = [np.broadcast_to(self.get(carry.init.name)[..., None], shape) for carry in loop.carries]
        total = _Total(self, loop, init)
        if self.vectorise and can_be_lanes(loop) and not stores(loop.body):
            for count in self.chunks(loop):
                self.body(loop.body)
                elements = [
                    np.broadcast_to(self.get(carry.next.name), tuple(self.lanes)).copy() for carry in loop.carries
                ]
                self.lanes.pop()
                total.absorb(elements, count)
                self.lanes.append(count)
        else:
            for _ in self.steps(loop):
                self.body(loop.body)
                total.absorb(
                    [
                        np.broadcast_to(self.get(carry.next.name), tuple(self.lanes))[..., None]
                        for carry in loop.carries
                    ],
                    1,
                )
        slots = total.merged()
        results = [carry.result.name for carry in loop.carries]
        if loop.slots is not None:
            self.enter(loop.slots.axis, 0, loop.lanes)
            self.values.update(zip(results, slots, strict=True))
            self.body(loop.slots.body)
            self.lanes.pop()
            return
        half = loop.lanes // 2
        while half:
            slots = self.combine(loop, [slot[..., :half] for slot in slots], [slot[..., half:] for slot in slots], half)
            half //= 2
        self.values.update(zip(results, (slot[..., 0] for slot in slots), strict=True))

    def combine(self, loop: Loop, left: list[Array], right: list[Array], width: int) -> list[Array]:
        combine: Combine | None = loop.combine
        if combine is None:
            raise self.fault(loop, "a reduce loop needs a combine")
        self.lanes.append(width)
        self.values.update(zip((var.name for var in combine.left), left, strict=True))
        self.values.update(zip((var.name for var in combine.right), right, strict=True))
        self.body(combine.body)
        results = [np.broadcast_to(self.get(var.name), tuple(self.lanes)) for var in combine.results]
        self.lanes.pop()
        return results

    # contractions

    def contract(self, contract: Contract) -> None:
        m, n, k = (self.uniform(extent) for extent in contract.extents)
        if m == 0 or n == 0:
            return
        left = self.operand(contract.left, (contract.m, m), (contract.k, k), contract.acc.dtype)
        right = self.operand(contract.right, (contract.k, k), (contract.n, n), contract.acc.dtype)
        s = NumpyScalars(contract.acc.dtype)

        def sums() -> Iterator[Array]:
            for start in range(0, k, contract.block_k):
                partial: Array = np.zeros((*self.lanes, m, n), contract.acc.dtype)
                for step in range(start, min(start + contract.block_k, k)):
                    partial = s.fma(left[..., :, step, None], right[..., step, None, :], partial)
                yield partial

        total = merged(sums(), s.add)
        acc = np.zeros((*self.lanes, m, n), contract.acc.dtype) if total is None else total
        self.enter(contract.m, 0, m)
        self.enter(contract.n, 0, n)
        self.values[contract.acc.name] = acc
        self.body(contract.epilogue)
        del self.lanes[-2:]

    def operand(self, operand: Operand, first: tuple[str, int], second: tuple[str, int], dtype: DType) -> Array:
        """The operand's values over both axes, converted to the accumulator's dtype."""
        if first[1] == 0 or second[1] == 0:  # what is loaded there need not exist
            return np.empty((*self.lanes, first[1], second[1]), dtype)
        depth = len(self.lanes)
        self.enter(first[0], 0, first[1])
        self.enter(second[0], 0, second[1])
        self.body(operand.body)
        value = np.broadcast_to(self.get(operand.value.name), tuple(self.lanes)).astype(dtype)
        del self.lanes[depth:]
        return value

    def fault(self, statement: Statement, what: str) -> GraphError:
        line = next((text.strip() for found, text in kernel_lines(self.kernel) if found is statement), "")
        axes = {name: value for name, value in self.values.items() if name.startswith("_i") and value.size == 1}
        at = ", ".join(f"{name}={int(value.reshape(()))}" for name, value in axes.items())
        return GraphError(f"kernel {self.kernel.name}: {what}\n    {line}" + (f"\n    at {at}" if at else ""))


class _Total:
    """What the steps of a reduce loop have contributed so far: the chunk in work, and the tree of those before it."""

    def __init__(self, run: _Run, loop: Loop, init: list[Array]) -> None:
        self.run, self.loop, self.init = run, loop, init
        self.slots = [value.copy() for value in init]
        self.done = 0
        self.levels: list[list[Array] | None] = []  # level j: the tree of 2^j chunks, or None

    def absorb(self, elements: list[Array], count: int) -> None:
        """Fold the next ``count`` elements (the last axis) into the slots in order."""
        lanes, block = self.loop.lanes, self.loop.lanes * self.loop.chain
        at = 0
        while at < count:
            if block and self.done and self.done % block == 0:
                self._push()
            first = self.done % lanes
            width = min(lanes - first, count - at)
            left = [slot[..., first : first + width] for slot in self.slots]
            folded = self.run.combine(self.loop, left, [element[..., at : at + width] for element in elements], width)
            for slot, value in zip(self.slots, folded, strict=True):
                slot[..., first : first + width] = value
            at += width
            self.done += width

    def _push(self) -> None:
        """Put the finished chunk into the tree, as a binary counter adds one."""
        carried, level = self.slots, 0
        while level < len(self.levels) and (before := self.levels[level]) is not None:
            carried = self.run.combine(self.loop, before, carried, self.loop.lanes)
            self.levels[level] = None
            level += 1
        if level == len(self.levels):
            self.levels.append(None)
        self.levels[level] = carried
        self.slots = [value.copy() for value in self.init]

    def merged(self) -> list[Array]:
        """All chunks as one vector of slots."""
        merged = self.slots
        for before in self.levels:
            if before is not None:
                merged = self.run.combine(self.loop, before, merged, self.loop.lanes)
        return merged


def _repeats(index: Array, size: int) -> bool:
    if index.size < size // 16:
        return np.unique(index).size != index.size
    seen = np.zeros(size, np.bool_)
    seen[index] = True
    return int(np.count_nonzero(seen)) != index.size
