"""Where kernel statements are emitted: what names mean at this point, and which axis runs over lanes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from jitgraph.codegen.kernels.kernel import Body, Combine, Kernel, Let, Statement
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmScalar
from jitgraph.codegen.llvm.scalars import LlvmScalarOps
from jitgraph.dtypes import DType, int64
from jitgraph.errors import CompileError
from jitgraph.ir.target import Target
from jitgraph.records import NamedTuple

# ----------------------------------------------------------------------
# Where kernel statements are emitted: what names mean at this point, and which axis runs over lanes.
#
# The interface for emitters of tiles (``contract.py``)
# -----------------------------------------------------
# ``env.emit(statements)`` emits statements at the end of ``env.function`` and binds the variables that they define in
# ``env``; ``env[var.name]`` is then the ``LlvmScalar``. The same statements may be emitted many times, each under
# an environment of its own:
#
#     point = env.at({"_i3": m, "_i5": k})                    # both axes uniform int64 scalars
#     row = env.at({"_i3": m}).across("_i5", k0, 16)          # lanes are k0 ... k0 + 15; all of them in range
#     edge = env.at({"_i3": m}).across("_i5", k0, 16, mask)   # lanes whose bit in ``mask`` is false touch no memory
#
# so an operand's value is ``row.emit(operand.body); row[operand.value.name]``. A value is uniform (``lanes == 1``)
# where it does not depend on the axis over lanes: ``env.ops.splat(value, 16)`` widens it. Accumulators are bound before
# the epilogue by ``tile.bind(acc.name, scalar)``. Loads are contiguous where the axis has coefficient 1 in the index
# and gathers otherwise. At most one axis runs over lanes. Blocks may be begun and ended freely around and by ``emit``:
# ``env.function.block`` is the block that is open afterwards.
#
# ``parallel.parallel_range`` outlines a range of iterations into a function that threads share; inside it the
# environment passed to the callback finds everything of the outer one by name, captured as it is used; what has no name
# (a pointer to a packed panel, say) is given one by ``bind`` before. Names that kernels cannot have begin with ``$``:
# ``$host``, ``$call``, ``$scratch`` (memory of the chunk, see ``cpu/kernel_function.py``) and ``$order`` (the first
# iteration of the chunk, for error records); a buffer is named ``&`` and its name.


class Lanes(NamedTuple):
    """The axis that runs over lanes: its value in lane 0, their number, and which are in range (None: all)."""

    axis: str
    base: LlvmScalar
    width: int
    mask: LlvmScalar | None


class Names(dict[str, LlvmScalar]):
    """Names of one scope. What is missing is looked up in ``parent``, and passed through ``capture`` where given."""

    def __init__(
        self, parent: Names | None = None, capture: Callable[[str, LlvmScalar], LlvmScalar] | None = None
    ) -> None:
        super().__init__()
        self.parent = parent
        self.capture = capture

    def __missing__(self, name: str) -> LlvmScalar:
        if self.parent is None:
            raise KeyError(name)
        value = self.parent[name]
        if self.capture is not None:
            value = self.capture(name, value)
            self[name] = value
        return value


class LocalMemory(Protocol):
    """Where a target puts the memory of a kernel's own."""

    def frame(self) -> AbstractContextManager[None]:
        """Code emitted in here gives back what it takes: what is emitted after it may use the same memory."""

    def private(self, env: Environment, dtype: DType, elements: int) -> LlvmScalar:
        """The address of memory for ``elements`` of ``dtype``, which stays until the frame around ends."""


class Environment:
    """One point of emission: the function written to, the scalar ops over it, names, and the lanes."""

    def __init__(
        self,
        function: LlvmFunction,
        kernel: Kernel,
        target: Target,
        names: Names,
        memory: LocalMemory,
        statement: Callable[[Statement, Environment], None],
        lanes: Lanes | None = None,
        outermost: bool = False,
        unaliased: frozenset[str] | None = None,
    ) -> None:
        self.function = function
        self.kernel = kernel
        self.target = target
        self.names = names
        self.memory = memory
        self.statement = statement
        self.lanes = lanes
        self.outermost = outermost  # in the kernel's own function, outside every loop: parallel loops may be outlined
        self.ops = LlvmScalarOps(function, fastmath=kernel.fastmath)
        if unaliased is None:
            aliased = {name for pair in kernel.aliases for name in pair}
            unaliased = frozenset([param.name for param in kernel.params if param.name not in aliased])
        self.unaliased = unaliased  # the kernel's params that share no written memory with another

    @property
    def module(self) -> LlvmModule:
        return self.function.module

    def __getitem__(self, name: str) -> LlvmScalar:
        return self.names[name]

    def bind(self, name: str, value: LlvmScalar) -> None:
        """Define ``name`` in this scope."""
        self.names[name] = value

    def inner(self) -> Environment:
        """A scope inside this one, in the same lanes; it is not outermost."""
        return self._scope(self.function, Names(self.names), self.lanes)

    def _scope(self, function: LlvmFunction, names: Names, lanes: Lanes | None) -> Environment:
        return Environment(
            function,
            self.kernel,
            self.target,
            names,
            self.memory,
            self.statement,
            lanes,
            unaliased=self.unaliased,
        )

    def at(self, axes: Mapping[str, LlvmScalar]) -> Environment:
        """A scope in which each of ``axes`` has a uniform int64 value."""
        inner = self.inner()
        inner.names.update(axes)
        return inner

    def across(self, axis: str, base: LlvmScalar, count: int, mask: LlvmScalar | None = None) -> Environment:
        """A scope in which ``axis`` is ``base``, ``base + 1``, ... in ``count`` lanes; one lane is a uniform value."""
        if count == 1 and mask is None:
            return self.at({axis: base})
        inner = self.inner()
        inner.lanes = Lanes(axis, base, count, mask)
        self.function.hot = True
        return inner

    def emit(self, body: Body) -> None:
        """Emit ``body`` and bind the values that it defines here; its local buffers end with it."""
        with self.memory.frame():
            for statement in body:
                self.statement(statement, self)

    def private(self, dtype: DType, elements: int) -> LlvmScalar:
        """Memory of this point's own for ``elements`` of ``dtype``; it goes back where the body around ends."""
        return self.memory.private(self, dtype, elements)

    def outlined(self, function: LlvmFunction, capture: Callable[[str, LlvmScalar], LlvmScalar]) -> Environment:
        """The scope of another function: names of this one are captured as they are used."""
        return self._scope(function, Names(self.names, capture), None)


def integer(value: int) -> LlvmScalar:
    """A literal int64; CompileError for what LLVM would cut to 64 bits without a word."""
    if not -(1 << 63) <= value < 1 << 63:
        raise CompileError(f"the size or index {value} leaves 64 bits", hint="use smaller sizes")
    return LlvmScalar(str(value), "i64", int64, 1)


def folded(value: int) -> LlvmScalar:
    """The literal int64 that arithmetic gives at run time, where it wraps."""
    return integer((value + (1 << 63)) % (1 << 64) - (1 << 63))


def constant_of(x: LlvmScalar) -> int | None:
    """The value of a literal int64, else None."""
    return None if x.name[0] == "%" else int(x.name)


# ----------------------------------------------------------------------
# The scalar ops of kernel statements.


def emit_let(let: Let, env: Environment) -> LlvmScalar:
    """The value of one scalar op."""
    ops: Any = env.ops
    args = [env[arg.name] for arg in let.args]
    match let.op:
        case "const":
            return ops.const(let.param, let.var.dtype)  # type: ignore[no-any-return]
        case "cast" | "bitcast":
            return getattr(ops, let.op)(*args, let.var.dtype)  # type: ignore[no-any-return]
        case "cmp" | "call":
            return getattr(ops, let.op)(let.param, *args)  # type: ignore[no-any-return]
        case op:
            return getattr(ops, op)(*args)  # type: ignore[no-any-return]


# ----------------------------------------------------------------------
# How two sets of accumulators of a reduction become one.


def combined(
    env: Environment, combine: Combine, left: Sequence[LlvmScalar], right: Sequence[LlvmScalar]
) -> list[LlvmScalar]:
    """``combine`` of two sets of accumulators, lane by lane."""
    scope = env.inner()
    for var, value in zip((*combine.left, *combine.right), (*left, *right), strict=True):
        scope.bind(var.name, value)
    scope.emit(combine.body)
    return [scope.ops.splat(scope[var.name], left[0].lanes) for var in combine.results]
