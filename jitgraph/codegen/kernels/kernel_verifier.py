"""The rules of kernels, checked: scopes, dtypes of scalar ops, what may stand in which loop, access modes and bounds.

``verify_schedule`` of ``codegen.kernels.schedule_verifier`` checks how kernels are put together.
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
    Var,
)
from jitgraph.codegen.kernels.kernel_text import kernel_lines
from jitgraph.codegen.kernels.math.functions import FUNCTIONS
from jitgraph.codegen.kernels.scalar_numpy import is_half
from jitgraph.dtypes import DType
from jitgraph.errors import GraphError
from jitgraph.ir import dims
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass

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
_AROUND = 4  # lines of the kernel's text shown before and after the guilty one


def verify_kernel(kernel: Kernel, constraints: Sequence[SizeConstraint] = ()) -> None:
    """GraphError, with the text around the guilty line, where ``kernel`` breaks a rule of ``codegen.kernels.kernel``.

    Every access that is neither masked nor indirect must lie in its buffer: proved by intervals, or tried on sizes that
    satisfy ``constraints`` (see ``codegen.kernels.bounds``).
    """
    _KernelVerifier(kernel, constraints).kernel_rules()


Home: TypeAlias = Literal["param", "kernel", "iteration", "lane"]
"""Whose memory it is: given; a local buffer's outside of parallel loops; of a parallel iteration; of one lane."""


@dataclass(frozen=True, slots=True)
class _DeclaredMemory:
    dtype: DType
    size: DimLike
    access: str
    home: Home = "param"


@dataclass(slots=True)
class _Touched:
    """The indices at which a vector loop stores to and loads from a buffer that its lanes share."""

    stores: set[DimLike] = field(default_factory=set)
    loads: dict[DimLike, Load] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a statement stands."""

    parallel: bool = True  # a parallel loop may stand here
    vector: bool = True  # a vector loop, a contraction or a reduce loop with lanes may
    stores: bool = True
    home: Home = "kernel"  # of what is declared here


@dataclass(slots=True)
class _KernelVerifier:
    kernel: Kernel
    constraints: Sequence[SizeConstraint]
    vars: dict[str, DType] = field(default_factory=dict)  # in scope
    axes: dict[str, DimLike] = field(default_factory=dict)  # in scope, outermost first
    memory: dict[str, _DeclaredMemory] = field(default_factory=dict)  # in scope
    lanes: frozenset[str] = frozenset()  # scalars and axes that differ between lanes
    seen: set[str] = field(default_factory=set)  # every name defined so far
    concurrent: bool = False  # inside a parallel loop
    home: Home = "kernel"  # whose the statements are that are looked at
    exchanged: dict[str, _Touched] = field(
        default_factory=dict
    )  # in a vector loop: accesses to the iteration's buffers

    def fail(self, statement: Statement | None, why: str) -> NoReturn:
        lines = kernel_lines(self.kernel)
        guilty = next((i for i, (found, _) in enumerate(lines) if found is statement), 0)
        shown = range(max(0, guilty - _AROUND), min(len(lines), guilty + _AROUND + 1))
        text = "\n".join(f"{'  > ' if i == guilty else '    '}{lines[i][1]}" for i in shown)
        raise GraphError(f"kernel {self.kernel.name}: {why}\n{text}")

    def kernel_rules(self) -> None:
        kernel = self.kernel
        names = [*kernel.sizes, *(param.name for param in kernel.params)]
        if len(set(names)) != len(names):
            self.fail(None, "two sizes or params have one name")
        if any(name.startswith("_") for name in names):
            self.fail(None, "names that begin with an underscore belong to axes and scalars")
        self.seen.update(names)
        for param in kernel.params:
            self.known(None, param.size)
            self.memory[param.name] = _DeclaredMemory(param.dtype, param.size, param.access)
        params = {param.name: param for param in kernel.params}
        for written, read in kernel.aliases:
            if written not in params or read not in params:
                self.fail(None, f"the alias {written} = {read} names no params")
            left, right = params[written], params[read]
            if left.access == "read" or right.access == "write":
                self.fail(None, f"in the alias {written} = {read} the first is written and the second read")
            if left.dtype.itemsize != right.dtype.itemsize or left.size != right.size:
                self.fail(None, f"the alias {written} = {read} pairs buffers of different size")
        self.body(kernel.body, _Place())

    # names

    @contextmanager
    def scope(self) -> Iterator[None]:
        kept = (dict(self.vars), dict(self.axes), dict(self.memory), self.lanes)
        yield
        self.vars, self.axes, self.memory, self.lanes = kept

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

    # statements

    def body(self, body: Body, place: _Place) -> None:
        for statement in body:
            self.statement(statement, place)

    def statement(self, statement: Statement, place: _Place) -> None:
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
            case Store(buffer, index, value, mask):
                memory = self.access(statement, buffer, index, mask)
                self.use(statement, value, memory.dtype)
                if memory.access == "read":
                    self.fail(statement, f"{buffer} is only read")
                if not place.stores:
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
                self.memory[buffer] = _DeclaredMemory(dtype, size, "readwrite", place.home)
            case Loop():
                self.loop(statement, place)
            case Contract():
                self.contract(statement, place)

    def access(self, statement: Load | Store, buffer: str, index: DimLike, mask: Var | None) -> _DeclaredMemory:
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
            touched = self.exchanged.setdefault(buffer, _Touched())
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
        found = dims.names(index) & self.axes.keys()
        pending = list(found)
        while pending:
            more = dims.names(self.axes[pending.pop()]) & self.axes.keys() - found
            found |= more
            pending += more
        mentioned = dims.names(index).union(*(dims.names(self.axes[name]) for name in found))
        if mentioned & self.vars.keys():
            return None
        # Axes that the index does not mention still say which sizes are positive here.
        return {
            name: extent
            for name, extent in self.axes.items()
            if name in found or not (dims.names(extent) & self.vars.keys())
        }

    def let(self, let: Let) -> None:
        for arg in let.args:
            self.use(let, arg)
        why = _op_fault(let)
        if why is not None:
            self.fail(let, why)
        self.define(let, let.var, *(arg.name for arg in let.args))

    # loops

    def extent(self, statement: Loop | Contract, extent: DimLike) -> None:
        self.known(statement, extent)
        if dims.names(extent) & self.lanes:
            self.fail(statement, f"the extent {extent} differs between lanes")

    def loop(self, loop: Loop, place: _Place) -> None:
        self.extent(loop, loop.extent)
        self.window(loop)
        self.loop_form(loop, place)
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
            inside = replace(place, parallel=loop.kind == "parallel", vector=place.vector and loop.kind != "vector")
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
            self.body(loop.slots.body, replace(place, parallel=False, vector=False, home="lane"))

    def inside(self, loop: Loop, place: _Place) -> None:
        """The body of a loop; lanes may not exchange values within it."""
        around = self.home, self.concurrent
        self.home, self.concurrent = place.home, self.concurrent or loop.kind == "parallel"
        if loop.kind == "vector":
            self.exchanged = {}
        self.body(loop.body, place)
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
        self.extent(loop, loop.begin)
        if loop.kind == "parallel":
            self.fail(loop, "a parallel loop runs over all of its axis")
        if not is_natural(loop.begin, self.axes):
            self.fail(loop, f"the begin {loop.begin} may be negative")
        if loop.span is not None and loop.span < 1:
            self.fail(loop, "a span is at least 1")

    def loop_form(self, loop: Loop, place: _Place) -> None:
        if loop.kind == "parallel" and not place.parallel:
            self.fail(loop, "parallel loops stand only outermost")
        if loop.kind == "vector" and not place.vector:
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
        if loop.slots is not None and not (loop.chain and place.vector):
            self.fail(loop, "slots are kept where the order is not free, and outside of lanes")
        if loop.lanes != 1 and not place.vector:
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

    def contract(self, contract: Contract, place: _Place) -> None:
        if not place.vector:
            self.fail(contract, "a contraction does not stand inside of lanes")
        if contract.block_k < 1:
            self.fail(contract, "block_k is at least 1")
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
            self.body(contract.epilogue, _Place(parallel=False, vector=False, home="lane"))
        self.no_exchange()
        self.home = around

    def operand(self, contract: Contract, operand: Operand, axes: dict[str, DimLike]) -> None:
        with self.scope():
            self.axes |= axes
            self.lanes |= axes.keys()
            self.body(operand.body, _Place(parallel=False, vector=False, stores=False, home="lane"))
            self.use(contract, operand.value)
        dtype = operand.value.dtype
        if contract.acc.dtype not in (dtype, dtypes.float32 if is_half(dtype) else dtype) or dtypes.is_bool(dtype):
            self.fail(contract, f"{dtype.name} is not accumulated in {contract.acc.dtype.name}")


_HOMES: Final[dict[str, Home]] = {"parallel": "iteration", "vector": "lane"}


def _op_fault(let: Let) -> str | None:
    """What is wrong with a scalar op, its arguments' dtypes, its param or its result's dtype; None: nothing."""
    op, param = let.op, let.param
    given = [arg.dtype for arg in let.args]
    if op == "call":
        if param not in FUNCTIONS:
            return f"there is no math function {param}"
        if len(given) != _function_arity(str(param)):
            return f"{param} takes {_function_arity(str(param))} arguments, not {len(given)}"
        fits = all(dtypes.is_float(dtype) and dtype == let.var.dtype for dtype in given)
        return None if fits else f"{param} takes and gives one float dtype"
    if op not in _ARITY:
        return f"{op} is no scalar op"
    if len(given) != _ARITY[op]:
        return f"{op} takes {_ARITY[op]} arguments, not {len(given)}"
    if (param is not None) != (op in ("const", "cmp")):
        return f"{op} has {'no' if param is not None else 'a'} param"
    return _dtype_fault(op, given, let.var.dtype, param)


def _dtype_fault(op: str, given: list[DType], result: DType, param: Any) -> str | None:
    if op == "const":
        return None if _holds(result, param) else f"{param!r} is no {result.name}"
    if op == "cast":
        return None
    if op == "bitcast":
        return None if given[0].itemsize == result.itemsize else "a bitcast keeps the width"
    if op == "cmp":
        if param not in _RELATIONS:
            return f"there is no relation {param}"
        return None if given[0] == given[1] and dtypes.is_bool(result) else "cmp takes one dtype and gives bool"
    if op == "select":
        fits = dtypes.is_bool(given[0]) and given[1] == given[2] == result
        return None if fits else "select takes a bool and two values of its result's dtype"
    if any(dtype != result for dtype in given):
        return f"{op} takes and gives one dtype, not {', '.join(d.name for d in given)} for {result.name}"
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
