"""What is known at a point of a kernel that is verified: scalars, axes and memory, each with its rules of use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Literal, NoReturn, TypeAlias

from jitgraph import dtypes
from jitgraph.codegen.kernels.bounds import is_inside
from jitgraph.codegen.kernels.kernel import Kernel, Load, Statement, Store, Var
from jitgraph.codegen.kernels.kernel_text import kernel_lines
from jitgraph.dtypes import DType
from jitgraph.errors import GraphError
from jitgraph.ir import dims
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass

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
