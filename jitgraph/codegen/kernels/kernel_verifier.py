"""The rules of kernels, checked: scopes, dtypes of scalar ops, what may stand in which loop, access modes and
bounds.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cache
from typing import Any, Final, Literal, NoReturn, TypeAlias

from jitgraph import dtypes
from jitgraph.codegen.kernels.bounds import is_inside, is_natural
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
    Update,
    Var,
    statements_of,
)
from jitgraph.codegen.kernels.kernel_text import kernel_lines
from jitgraph.dtypes import DType
from jitgraph.errors import GraphError
from jitgraph.ir import dims
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import DimLike
from jitgraph.ops.math_functions.functions import FUNCTIONS
from jitgraph.ops.scalar_numpy import is_half
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# What is known at a point of a kernel that is verified: scalars, axes and memory, each with its rules of use.

_AROUND = 4  # lines of the kernel's text shown before and after the guilty one

Home: TypeAlias = Literal["param", "kernel", "iteration", "lane"]
"""Whose memory it is: given; a local buffer's outside of parallel loops; of a parallel iteration; of one lane."""


@dataclass(frozen=True, slots=True)
class DeclaredMemory:
    """A buffer as it is declared."""

    dtype: DType
    size: DimLike
    access: str
    home: Home = "param"


@dataclass(slots=True)
class Touched:
    """The indices at which a vector loop stores to and loads from a buffer that its lanes share."""

    stores: set[DimLike] = field(default_factory=set)
    loads: dict[DimLike, Load] = field(default_factory=dict)


@dataclass(slots=True)
class KnownNames:
    """The names in scope, for statements that come one after another; GraphError where one is misused."""

    kernel: Kernel
    constraints: Sequence[SizeConstraint]
    vars: dict[str, DType] = field(default_factory=dict)  # in scope
    axes: dict[str, DimLike] = field(default_factory=dict)  # in scope, outermost first
    memory: dict[str, DeclaredMemory] = field(default_factory=dict)  # in scope
    lanes: frozenset[str] = frozenset()  # scalars and axes that differ between lanes
    seen: set[str] = field(default_factory=set)  # every name defined so far
    concurrent: bool = False  # inside a parallel loop
    home: Home = "kernel"  # whose the statements are that are looked at
    exchanged: dict[str, Touched] = field(default_factory=dict)  # in a vector loop: accesses to the iteration's buffers

    def fail(self, statement: Statement | None, why: str) -> NoReturn:
        lines = kernel_lines(self.kernel)
        guilty = next((i for i, (origin, _) in enumerate(lines) if origin is statement), 0)
        shown = range(max(0, guilty - _AROUND), min(len(lines), guilty + _AROUND + 1))
        text = "\n".join(f"{'  > ' if i == guilty else '    '}{lines[i][1]}" for i in shown)
        raise GraphError(f"kernel {self.kernel.name}: {why}\n{text}")

    @contextmanager
    def scope(self) -> Iterator[None]:
        saved = (dict(self.vars), dict(self.axes), dict(self.memory), self.lanes)
        yield
        self.vars, self.axes, self.memory, self.lanes = saved

    def new(self, statement: Statement, name: str, prefix: str) -> None:
        if not (name.startswith(prefix) and name[len(prefix) :].isdigit()):
            self.fail(statement, f"{name} should be named {prefix} and a number")
        if name in self.seen:
            self.fail(statement, f"{name} is defined twice")
        self.seen.add(name)

    def define(self, statement: Statement, var: Var, *depends: str) -> None:
        self.new(statement, var.name, "_v")
        if var.dtype not in dtypes.DTYPES:
            self.fail(statement, f"{var.name} has the dtype {var.dtype}, which is none of ours")
        self.vars[var.name] = var.dtype
        if self.lanes & set(depends):
            self.lanes |= {var.name}

    def use(self, statement: Statement, var: Var, dtype: DType | None = None) -> None:
        if var.name not in self.vars:
            self.fail(statement, f"{var.name} is not defined here")
        if self.vars[var.name] != var.dtype:
            self.fail(statement, f"{var.name} is {self.vars[var.name].name}, not {var.dtype.name}")
        if dtype is not None and var.dtype != dtype:
            self.fail(statement, f"{var.name} should be {dtype.name}, not {var.dtype.name}")

    def known(self, statement: Statement | None, dim: DimLike) -> None:
        for name in sorted(dims.names(dim)):
            if name in self.vars:
                if self.vars[name] != dtypes.int64:
                    self.fail(statement, f"{name} stands in an index and should be int64")
            elif name not in self.axes and name not in self.kernel.sizes:
                self.fail(statement, f"{name} in {dim} is no size, axis or scalar that is known here")

    def access(self, statement: Load | Store, buffer: str, index: DimLike, mask: Var | None) -> DeclaredMemory:
        if buffer not in self.memory:
            self.fail(statement, f"there is no buffer {buffer} here")
        self.known(statement, index)
        if mask is not None:
            self.use(statement, mask, dtypes.bool_)
        memory = self.memory[buffer]
        if memory.home == "kernel" and self.concurrent:
            self.fail(
                statement, f"{buffer} stands outside of the parallel loops, which exchange values by params alone"
            )
        if memory.home in ("kernel", "iteration") and self.home == "lane":
            touched = self.exchanged.setdefault(buffer, Touched())
            if isinstance(statement, Store):
                touched.stores.add(index)
            else:
                touched.loads[index] = statement
        axes = self.relevant(index)
        if mask is None and axes is not None:
            why = is_inside(index, memory.size, axes, self.constraints)
            if why is not None:
                self.fail(statement, f"{buffer}[{index}]: {why}")
        return memory

    def relevant(self, index: DimLike) -> dict[str, DimLike] | None:
        """The axes around, for the bounds of ``index``; None where it depends on data."""
        axes = dims.names(index) & self.axes.keys()
        pending = list(axes)
        while pending:
            more = dims.names(self.axes[pending.pop()]) & self.axes.keys() - axes
            axes |= more
            pending += more
        mentioned = dims.names(index).union(*(dims.names(self.axes[name]) for name in axes))
        if mentioned & self.vars.keys():
            return None
        # Axes that the index does not mention still say which sizes are positive here.
        return {
            name: extent
            for name, extent in self.axes.items()
            if name in axes or not (dims.names(extent) & self.vars.keys())
        }


# ----------------------------------------------------------------------
# The rules of scalar ops, checked: how many arguments an op of a ``Let`` takes, of which dtypes, and what it gives.

_NUMBER = ("add", "sub", "mul", "div", "rem", "neg", "abs", "min", "max")
_FLOAT = ("sqrt", "floor", "ceil", "rint", "trunc", "fma")
_BITS = ("and_", "or_", "xor", "not_")
_ARITY = {
    **dict.fromkeys(("neg", "abs", "sqrt", "floor", "ceil", "rint", "trunc", "not_", "cast", "bitcast"), 1),
    **dict.fromkeys(("add", "sub", "mul", "div", "rem", "min", "max", "cmp", "and_", "or_", "xor", "shl", "shr"), 2),
    **dict.fromkeys(("fma", "select"), 3),
    "const": 0,
}
_RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")


_UPDATED = frozenset((dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64))
_ADDED = _UPDATED | {dtypes.float32, dtypes.float64}


def update_fault(update: Update | None, dtype: DType, access: str) -> str | None:
    """What is wrong with a store's update of a buffer; None: nothing."""
    if update is None:
        return None
    if update not in ("add", "max", "min"):
        return f"there is no update {update}"
    if dtype not in (_ADDED if update == "add" else _UPDATED):
        return f"elements of {dtype.name} are not updated by {update}"
    return None if access == "readwrite" else "what is updated is read and written"


def mixed_update(body: Body) -> Store | None:
    """A store that updates a buffer which ``body`` also loads from, or stores to in another way."""
    inside = list(statements_of(body))
    accesses = {(s.buffer, s.update) for s in inside if isinstance(s, Store)}
    accesses |= {(s.buffer, None) for s in inside if isinstance(s, Load)}
    several = {buffer for buffer, _ in accesses if sum(buffer == other for other, _ in accesses) > 1}
    return next((s for s in inside if isinstance(s, Store) and s.update and s.buffer in several), None)


def op_fault(let: Let) -> str | None:
    """What is wrong with a scalar op, its arguments' dtypes, its param or its result's dtype; None: nothing."""
    op, param = let.op, let.param
    arg_dtypes = [arg.dtype for arg in let.args]
    if op == "call":
        if param not in FUNCTIONS:
            return f"there is no math function {param}"
        if len(arg_dtypes) != _function_arity(str(param)):
            return f"{param} takes {_function_arity(str(param))} arguments, not {len(arg_dtypes)}"
        fits = all(dtypes.is_float(dtype) and dtype == let.var.dtype for dtype in arg_dtypes)
        return None if fits else f"{param} takes and gives one float dtype"
    if op not in _ARITY:
        return f"{op} is no scalar op"
    if len(arg_dtypes) != _ARITY[op]:
        return f"{op} takes {_ARITY[op]} arguments, not {len(arg_dtypes)}"
    if (param is not None) != (op in ("const", "cmp")):
        return f"{op} has {'no' if param is not None else 'a'} param"
    return _dtype_fault(op, arg_dtypes, let.var.dtype, param)


def _dtype_fault(op: str, arg_dtypes: list[DType], result: DType, param: Any) -> str | None:
    if op == "const":
        return None if _holds(result, param) else f"{param!r} is no {result.name}"
    if op == "cast":
        return None
    if op == "bitcast":
        return None if arg_dtypes[0].itemsize == result.itemsize else "a bitcast keeps the width"
    if op == "cmp":
        if param not in _RELATIONS:
            return f"there is no relation {param}"
        return (
            None if arg_dtypes[0] == arg_dtypes[1] and dtypes.is_bool(result) else "cmp takes one dtype and gives bool"
        )
    if op == "select":
        fits = dtypes.is_bool(arg_dtypes[0]) and arg_dtypes[1] == arg_dtypes[2] == result
        return None if fits else "select takes a bool and two values of its result's dtype"
    if any(dtype != result for dtype in arg_dtypes):
        return f"{op} takes and gives one dtype, not {', '.join(d.name for d in arg_dtypes)} for {result.name}"
    if op in _NUMBER and dtypes.is_bool(result):
        return f"{op} takes numbers"
    if op in _FLOAT and not dtypes.is_float(result):
        return f"{op} takes floats"
    if op in _BITS and dtypes.is_float(result):
        return f"{op} takes integers and bools"
    if op in ("shl", "shr") and not dtypes.is_integer(result):
        return f"{op} takes integers"
    return None


def _holds(dtype: DType, value: Any) -> bool:
    """Whether a ``const`` of ``dtype`` may have this value."""
    if dtypes.is_bool(dtype):
        return isinstance(value, bool)
    if dtypes.is_integer(dtype):
        bits = dtype.itemsize * 8
        low = -(1 << bits - 1) if dtypes.is_signed(dtype) else 0
        return isinstance(value, int) and not isinstance(value, bool) and low <= value < low + (1 << bits)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@cache
def _function_arity(name: str) -> int:
    return len(inspect.signature(FUNCTIONS[name]).parameters) - 1


# ----------------------------------------------------------------------
# The rules of kernels, checked: scopes, dtypes of scalar ops, what may stand in which loop, access modes and bounds.
#
# ``verify_schedule`` of ``codegen.kernels.schedule_verifier`` checks how kernels are put together.


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
