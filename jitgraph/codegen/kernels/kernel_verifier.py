"""The rules of kernels, checked: scopes, dtypes of scalar ops, what may stand in which loop, access modes and bounds.

``verify_schedule`` of ``codegen.kernels.schedule_verifier`` checks how kernels are put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from jitgraph import dtypes
from jitgraph.codegen.kernels.bounds import is_natural
from jitgraph.codegen.kernels.kernel import (
    SIZE_NUMBER,
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
    Var,
)
from jitgraph.codegen.kernels.known_names import DeclaredMemory, Home, KnownNames
from jitgraph.codegen.kernels.op_verifier import mixed_update, op_fault, update_fault
from jitgraph.ir import dims
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import DimLike
from jitgraph.ops.scalar_numpy import is_half
from jitgraph.records import dataclass


def verify_kernel(kernel: Kernel, constraints: Sequence[SizeConstraint] = ()) -> None:
    """GraphError, with the text around the guilty line, where ``kernel`` breaks a rule of ``codegen.kernels.kernel``.

    Every access that is neither masked nor indirect must lie in its buffer: proved by intervals, or tried on sizes that
    satisfy ``constraints`` (see ``codegen.kernels.bounds``).
    """
    _KernelVerifier(kernel, constraints).kernel_rules()


_HOMES: Final[dict[str, Home]] = {"parallel": "iteration", "vector": "lane"}


@dataclass(frozen=True, slots=True)
class _Scope:
    """Where a statement stands."""

    parallel: bool = True  # a parallel loop may stand here
    vector: bool = True  # a vector loop, a contraction or a reduce loop with lanes may
    stores: bool = True
    home: Home = "kernel"  # of what is declared here


class _KernelVerifier(KnownNames):
    """The rules of statements and loops."""

    def kernel_rules(self) -> None:
        kernel = self.kernel
        names = [*kernel.sizes, *(param.name for param in kernel.params)]
        if len(set(names)) != len(names):
            self.fail(None, "two sizes or params have one name")
        if any(name.startswith("_") and not name.startswith(SIZE_NUMBER) for name in names):
            self.fail(None, "names that begin with an underscore belong to axes and scalars")
        self.seen.update(names)
        for param in kernel.params:
            self.known(None, param.size)
            self.memory[param.name] = DeclaredMemory(param.dtype, param.size, param.access)
        params = {param.name: param for param in kernel.params}
        for written, read in kernel.aliases:
            if written not in params or read not in params:
                self.fail(None, f"the alias {written} = {read} names no params")
            left, right = params[written], params[read]
            if left.access == "read" or right.access == "write":
                self.fail(None, f"in the alias {written} = {read} the first is written and the second read")
            if left.dtype.itemsize != right.dtype.itemsize or left.size != right.size:
                self.fail(None, f"the alias {written} = {read} pairs buffers of different size")
        self.body(kernel.body, _Scope())
        for statement in kernel.body:
            if mixed := mixed_update((statement,)):
                self.fail(mixed, f"what the nest does with {mixed.buffer} beside its updates has no order among them")

    # statements

    def body(self, body: Body, scope: _Scope) -> None:
        for statement in body:
            self.statement(statement, scope)

    def statement(self, statement: Statement, scope: _Scope) -> None:
        match statement:
            case Let():
                self.let(statement)
            case IndexValue(var, index):
                self.known(statement, index)
                if var.dtype != dtypes.int64:
                    self.fail(statement, f"{var.name} holds an index and should be int64")
                self.define(statement, var, *dims.names(index))
            case Load(var, buffer, index, mask):
                memory = self.access(statement, buffer, index, mask)
                if memory.access == "write":
                    self.fail(statement, f"{buffer} is only written")
                if memory.dtype != var.dtype:
                    self.fail(statement, f"{buffer} holds {memory.dtype.name}, not {var.dtype.name}")
                self.define(statement, var, *dims.names(index), *(self.lanes if mask else ()))
            case Store(buffer, index, value, mask, update):
                memory = self.access(statement, buffer, index, mask)
                self.use(statement, value, memory.dtype)
                why = update_fault(update, memory.dtype, memory.access)
                if why is not None:
                    self.fail(statement, f"{buffer}: {why}")
                if memory.access == "read":
                    self.fail(statement, f"{buffer} is only read")
                if not scope.stores:
                    self.fail(statement, "an operand of a contraction stores nothing")
            case CheckStatement(ok, check, value, bound):
                self.use(statement, ok, dtypes.bool_)
                for reported in (value, bound):
                    if reported is not None:
                        self.use(statement, reported, dtypes.int64)
                if check < 0:
                    self.fail(statement, "checks are numbered from 0")
            case Local(buffer, dtype, size):
                if buffer in self.seen:
                    self.fail(statement, f"{buffer} is defined twice")
                if size < 1:
                    self.fail(statement, "a local buffer has at least one element")
                self.seen.add(buffer)
                self.memory[buffer] = DeclaredMemory(dtype, size, "readwrite", scope.home)
            case Loop():
                self.loop(statement, scope)
            case Contract():
                self.contract(statement, scope)
            case Attend():
                self.attend(statement, scope)

    def let(self, let: Let) -> None:
        for arg in let.args:
            self.use(let, arg)
        why = op_fault(let)
        if why is not None:
            self.fail(let, why)
        self.define(let, let.var, *(arg.name for arg in let.args))

    # loops

    def extent(self, statement: Loop | Contract | Attend, extent: DimLike) -> None:
        self.known(statement, extent)
        if dims.names(extent) & self.lanes:
            self.fail(statement, f"the extent {extent} differs between lanes")

    def loop(self, loop: Loop, scope: _Scope) -> None:
        self.extent(loop, loop.extent)
        self.window(loop)
        self.loop_form(loop, scope)
        for carry in loop.carries:
            self.use(loop, carry.init)
            if len({carry.var.dtype, carry.init.dtype, carry.next.dtype, carry.result.dtype}) > 1:
                self.fail(loop, f"{carry.var.name}, its start, its next value and its result have one dtype")
        with self.scope():
            self.new(loop, loop.axis, "_i")
            self.axes[loop.axis] = loop.extent
            if loop.kind == "vector":
                self.lanes |= {loop.axis}
            for carry in loop.carries:
                if loop.kind == "serial":
                    self.define(loop, carry.var, *self.lanes)
                else:
                    self.new(loop, carry.var.name, "_v")  # the slots are not to be seen in the body
            inside = replace(scope, parallel=loop.kind == "parallel", vector=scope.vector and loop.kind != "vector")
            if loop.kind in _HOMES:
                inside = replace(inside, home=_HOMES[loop.kind])
            self.inside(loop, inside)
            for carry in loop.carries:
                self.use(loop, carry.next)
        if loop.combine is not None:
            self.combine(loop, loop.combine)
        if loop.slots is None:
            for carry in loop.carries:
                self.define(loop, carry.result, *self.lanes)
            return
        with self.scope():
            self.new(loop, loop.slots.axis, "_i")
            self.axes[loop.slots.axis] = loop.lanes
            self.lanes |= {loop.slots.axis}
            for carry in loop.carries:
                self.define(loop, carry.result, *self.lanes)
            self.body(loop.slots.body, replace(scope, parallel=False, vector=False, home="lane"))

    def inside(self, loop: Loop, scope: _Scope) -> None:
        """The body of a loop; lanes may not exchange values within it."""
        around = self.home, self.concurrent
        self.home, self.concurrent = scope.home, self.concurrent or loop.kind == "parallel"
        if loop.kind == "vector":
            self.exchanged = {}
        self.body(loop.body, scope)
        if loop.kind == "vector":
            self.no_exchange()
        self.home, self.concurrent = around

    def no_exchange(self) -> None:
        for buffer, touched in self.exchanged.items():
            for index, load in touched.loads.items():
                if touched.stores and index not in touched.stores:
                    self.fail(load, f"{buffer}[{index}] may be what another lane stores in the same loop")

    def window(self, loop: Loop) -> None:
        if loop.is_whole:
            return
        if loop.kind == "parallel":
            self.fail(loop, "a parallel loop runs over all of its axis")
        self.window_form(loop)

    def window_form(self, loop: Loop | Contract) -> None:
        self.extent(loop, loop.begin)
        if not is_natural(loop.begin, self.axes):
            self.fail(loop, f"the begin {loop.begin} may be negative")
        if loop.span is not None and loop.span < 1:
            self.fail(loop, "a span is at least 1")

    def loop_form(self, loop: Loop, scope: _Scope) -> None:
        if loop.kind == "parallel" and not scope.parallel:
            self.fail(loop, "parallel loops stand only outermost")
        if loop.kind == "vector" and not scope.vector:
            self.fail(loop, "only serial and reduce loops stand inside of lanes")
        if loop.carries and loop.kind not in ("serial", "reduce"):
            self.fail(loop, f"a {loop.kind} loop carries nothing")
        if loop.kind == "reduce" and not (loop.carries and loop.combine):
            self.fail(loop, "a reduce loop needs an accumulator and a combine")
        if loop.kind != "reduce" and (loop.combine or loop.lanes != 1 or loop.chain or loop.slots):
            self.fail(loop, "only a reduce loop has a combine, lanes and an order")
        if loop.lanes < 1 or loop.lanes & (loop.lanes - 1):
            self.fail(loop, f"lanes should be a power of two, not {loop.lanes}")
        if loop.chain < 0 or loop.chain & (loop.chain - 1):
            self.fail(loop, f"a chain should be a power of two, or 0 where the order is free, not {loop.chain}")
        if loop.slots is not None and not (loop.chain and scope.vector):
            self.fail(loop, "slots are kept where the order is not free, and outside of lanes")
        if loop.lanes != 1 and not scope.vector:
            self.fail(loop, "a reduce loop inside of lanes has no lanes of its own")

    def combine(self, loop: Loop, combine: Combine) -> None:
        dtypes_of = [tuple(var.dtype for var in side) for side in (combine.left, combine.right, combine.results)]
        if any(side != tuple(carry.var.dtype for carry in loop.carries) for side in dtypes_of):
            self.fail(loop, "the combine takes and gives the accumulators, one for one")
        with self.scope():
            self.vars, self.axes = {}, {}
            for var in (*combine.left, *combine.right):
                self.define(loop, var)
            for let in combine.body:
                if not isinstance(let, Let):
                    self.fail(loop, "only scalar ops stand in a combine")
                self.let(let)
            for var in combine.results:
                self.use(loop, var)

    def contract(self, contract: Contract, scope: _Scope) -> None:
        if not scope.vector:
            self.fail(contract, "a contraction does not stand inside of lanes")
        if contract.block_k < 1:
            self.fail(contract, "block_k is at least 1")
        self.window_form(contract)
        blocks, rest = divmod(contract.span or contract.block_k, contract.block_k)
        if rest or blocks & (blocks - 1):
            self.fail(contract, "a span of steps is a power of two of blocks")
        axes = (contract.m, contract.n, contract.k)
        for axis, extent in zip(axes, contract.extents, strict=True):
            self.extent(contract, extent)
            self.new(contract, axis, "_i")
        extents = dict(zip(axes, contract.extents, strict=True))
        around, self.home, self.exchanged = self.home, "lane", {}
        for operand, used in ((contract.left, (contract.m, contract.k)), (contract.right, (contract.k, contract.n))):
            self.operand(contract, operand, {axis: extents[axis] for axis in used})
        with self.scope():
            self.axes |= {axis: extents[axis] for axis in (contract.m, contract.n)}
            self.lanes |= {contract.m, contract.n}
            self.define(contract, contract.acc, contract.m)
            self.body(contract.epilogue, _Scope(parallel=False, vector=False, home="lane"))
        self.no_exchange()
        self.home = around

    def operand(self, contract: Contract, operand: Operand, axes: dict[str, DimLike]) -> None:
        with self.scope():
            self.axes |= axes
            self.lanes |= axes.keys()
            self.body(operand.body, _Scope(parallel=False, vector=False, stores=False, home="lane"))
            self.use(contract, operand.value)
        dtype = operand.value.dtype
        if contract.acc.dtype not in (dtype, dtypes.float32 if is_half(dtype) else dtype) or dtypes.is_bool(dtype):
            self.fail(contract, f"{dtype.name} is not accumulated in {contract.acc.dtype.name}")

    def attend(self, attend: Attend, scope: _Scope) -> None:
        if not scope.vector:
            self.fail(attend, "sums by weights do not stand inside of lanes")
        if len(attend.products) > min(len(attend.rows), len(attend.columns)):
            self.fail(attend, "a product has rows and columns")
        for axis, extent in zip((attend.m, attend.n), attend.extents, strict=True):
            self.extent(attend, extent)
            self.new(attend, axis, "_i")
        m, n = ({axis: extent} for axis, extent in zip((attend.m, attend.n), attend.extents, strict=True))
        around, self.home, self.exchanged = self.home, "lane", {}
        pure = _Scope(parallel=False, vector=False, stores=False, home="lane")
        for factors, along in ((attend.rows, m), (attend.columns, n)):
            for factor in factors:
                self.factor(attend, factor, along)
        for left, right in zip(attend.rows, attend.columns, strict=False):
            if (left.extent, left.operand.value.dtype) != (right.extent, right.operand.value.dtype):
                self.fail(attend, "the rows and columns of a product have one extent and one dtype")
        with self.scope():
            self.axes |= m | n
            self.lanes |= m.keys() | n.keys()
            for bound in attend.window:
                self.known(attend, bound)
            for product in attend.products:
                self.define_number(attend, product)
            self.body(attend.score.body, pure)
            self.use(attend, attend.score.value, dtypes.float32)
            self.define_number(attend, attend.weight)
            self.body(attend.derived, pure)
            for one in attend.sums:
                self.use(attend, one.weight, dtypes.float32)
        with self.scope():
            self.axes |= m
            self.lanes |= m.keys()
            for var in attend.softmax or ():
                self.define_number(attend, var)
            with self.scope():
                self.body(attend.row, _Scope(parallel=False, vector=False, home="lane"))
            for one in attend.sums:
                factor = attend.columns[one.factor]
                with self.scope():
                    self.axes |= {factor.axis: factor.extent}
                    self.lanes |= {factor.axis}
                    self.define_number(attend, one.acc)
                    self.body(one.epilogue, _Scope(parallel=False, vector=False, home="lane"))
        self.no_exchange()
        self.home = around

    def factor(self, attend: Attend, factor: Factor, along: dict[str, DimLike]) -> None:
        if factor.extent < 1:
            self.fail(attend, "rows and columns have at least one element")
        self.new(attend, factor.axis, "_i")
        with self.scope():
            self.axes |= along | {factor.axis: factor.extent}
            self.lanes |= along.keys() | {factor.axis}
            self.body(factor.operand.body, _Scope(parallel=False, vector=False, stores=False, home="lane"))
            self.use(attend, factor.operand.value)
        dtype = factor.operand.value.dtype
        if dtype != dtypes.float32 and not is_half(dtype):
            self.fail(attend, f"{dtype.name} is not multiplied in float32")

    def define_number(self, attend: Attend, var: Var) -> None:
        """A float32 that differs between lanes."""
        if var.dtype != dtypes.float32:
            self.fail(attend, f"{var.name} is float32, not {var.dtype.name}")
        self.define(attend, var, attend.m)
