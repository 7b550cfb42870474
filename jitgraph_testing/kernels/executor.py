"""The slow executor of kernels: what a kernel means, in NumPy, with every access checked against its buffer.

Iterations of parallel, vector and (side-effect free) reduce loops run as whole arrays, in chunks; everything else runs
step by step. The order of every sum is the documented one, so that the results are those of compiled code, bit for
bit. ``fastmath`` is ignored: rounding after every scalar op is one of its legal outcomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.codegen.kernels.kernel import (
    Attend,
    Body,
    CheckStatement,
    Combine,
    Contract,
    Factor,
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
from jitgraph.dtypes import DType
from jitgraph.errors import GraphError, JitgraphError
from jitgraph.ir import dims
from jitgraph.ops.ordered_product import merged
from jitgraph.ops.scalar_numpy import NumpyScalars
from jitgraph_testing.kernels.executor_lanes import can_be_lanes, most_elements, stores
from jitgraph_testing.kernels.lane_state import Array, BufferMemory, LaneState
from jitgraph_testing.kernels.ordered_total import OrderedTotal

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
        memory[param.name] = BufferMemory(array, 0, param.access != "read")
    _require_disjoint(kernel, buffers)
    with np.errstate(all="ignore"):
        _Run(kernel, memory, sizes, vectorise).body(kernel.body)


def _require_disjoint(kernel: Kernel, buffers: Mapping[str, Array]) -> None:
    paired = {frozenset(pair) for pair in kernel.aliases}
    for i, left in enumerate(kernel.params):
        for right in kernel.params[i + 1 :]:
            if left.access == right.access == "read" or frozenset((left.name, right.name)) in paired:
                continue
            if np.shares_memory(buffers[left.name], buffers[right.name]):
                raise GraphError(f"kernel {kernel.name}: params {left.name} and {right.name} share memory unpaired")


class _Run(LaneState):
    """One execution; with ``vectorise`` iterations become lanes where they can."""

    def __init__(
        self, kernel: Kernel, memory: dict[str, BufferMemory], sizes: Mapping[str, int], vectorise: bool
    ) -> None:
        super().__init__(kernel, memory, sizes)
        self.vectorise = vectorise

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
                self.memory[buffer] = BufferMemory(array.reshape(-1), len(self.lanes))
            case Loop(kind="parallel" | "vector"):
                self.independent(statement)
            case Loop(kind="serial"):
                self.serial(statement)
            case Loop():
                self.reduce(statement)
            case Contract():
                self.contract(statement)
            case Attend():
                self.attend(statement)

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
        total = OrderedTotal(self.combine, loop, init)
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
        m, n, end = (self.uniform(extent) for extent in contract.extents)
        if m == 0 or n == 0:
            return
        first = self.uniform(contract.begin)
        k = max(0, (end if contract.span is None else min(end, first + contract.span)) - first)
        left = self.operand(contract.left, (contract.m, 0, m), (contract.k, first, k), contract.acc.dtype)
        right = self.operand(contract.right, (contract.k, first, k), (contract.n, 0, n), contract.acc.dtype)
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

    def operand(
        self, operand: Operand, first: tuple[str, int, int], second: tuple[str, int, int], dtype: DType
    ) -> Array:
        """The operand's values over both axes, each with its begin and length, in the accumulator's dtype."""
        if first[2] == 0 or second[2] == 0:  # what is loaded there need not exist
            return np.empty((*self.lanes, first[2], second[2]), dtype)
        depth = len(self.lanes)
        self.enter(*first)
        self.enter(*second)
        self.body(operand.body)
        value = np.broadcast_to(self.get(operand.value.name), tuple(self.lanes)).astype(dtype)
        del self.lanes[depth:]
        return value

    # sums by weights that follow from products

    def attend(self, attend: Attend) -> None:
        m, n = (self.uniform(extent) for extent in attend.extents)
        if m == 0:
            return
        depth = len(self.lanes)
        rows = [self.factor(one, (attend.m, m)) for one in attend.rows]
        columns = [self.factor(one, (attend.n, n)) for one in attend.columns]
        self.enter(attend.m, 0, m)
        self.enter(attend.n, 0, n)
        begin, end = (np.broadcast_to(self.index(bound), (*self.lanes[:depth], m, n)) for bound in attend.window)
        position = np.arange(n)
        seen = (begin <= position) & (position < end)
        for product, left, right in zip(attend.products, rows, columns, strict=False):
            self.values[product.name] = left @ np.swapaxes(right, -1, -2)
        score = np.full((*self.lanes,), -np.inf, np.float32)
        if n:
            self.body(attend.score.body)
            score = np.where(seen, self.get(attend.score.value.name), -np.inf).astype(np.float32)
        top = np.zeros((*self.lanes[:-1],), np.float32)
        if attend.softmax is not None and n:
            top = score.max(-1)
            top = np.where(top == -np.inf, np.float32(0), top)
        weight = np.exp(score - top[..., None])
        self.values[attend.weight.name] = weight
        if n:
            self.body(attend.derived)
        weights = [np.where(seen, self.get(one.weight.name), np.float32(0)) for one in attend.sums]
        del self.lanes[-1]
        if attend.softmax is not None:
            self.values.update(zip((var.name for var in attend.softmax), (top, weight.sum(-1)), strict=True))
        self.body(attend.row)
        for one, values in zip(attend.sums, weights, strict=True):
            factor, right = attend.columns[one.factor], columns[one.factor]
            rounded = values.astype(factor.operand.value.dtype).astype(np.float32)
            self.enter(factor.axis, 0, factor.extent)
            self.values[one.acc.name] = rounded @ right
            self.body(one.epilogue)
            del self.lanes[-1]
        del self.lanes[depth:]

    def factor(self, factor: Factor, axis: tuple[str, int]) -> Array:
        rows, columns = (axis[0], 0, axis[1]), (factor.axis, 0, factor.extent)
        return self.operand(factor.operand, rows, columns, np.dtype(np.float32))
