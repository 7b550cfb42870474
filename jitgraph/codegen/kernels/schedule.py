"""Schedule: what a graph becomes on a target, as plain data: buffers, and the steps that fill them in order."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from jitgraph.codegen.kernels.kernel import Attend, Contract, Kernel, Load, Loop, Store, dims_of, statements_of
from jitgraph.ir import dims
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Attrs
from jitgraph.ir.op import Op
from jitgraph.ir.types import Constant, TensorType
from jitgraph.location import Location
from jitgraph.records import dataclass
from jitgraph.runtime import loader

# ----------------------------------------------------------------------
# Schedule: what a graph becomes on a target, as plain data: buffers, and the steps that fill them in order.


@dataclass(frozen=True, slots=True)
class ScheduleBuffer:
    """Storage of one tensor, dense and row-major. Inputs and outputs are the caller's, in the order of ``position``."""

    name: str
    type: TensorType
    role: Literal["input", "output", "constant", "temporary"]
    position: int = 0
    value: Constant | None = None

    @property
    def bytes(self) -> DimLike:
        return dims.product((*self.type.shape, self.type.dtype.itemsize))


@dataclass(frozen=True, slots=True)
class Launch:
    """Run ``kernel`` with ``buffers`` for its params, by name and in order.

    It came from the line ``location``, and from all ``lines`` of the ops that were fused into it.
    """

    kernel: Kernel
    buffers: tuple[str, ...]
    location: Location | None = field(default=None, compare=False)
    lines: tuple[Location, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """Run ``then`` where the bool in the 0-d buffer ``predicate`` is true, else ``otherwise``."""

    predicate: str
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class While:
    """Run ``condition`` steps, and while the bool in the 0-d buffer ``predicate`` is then true, ``body`` and again.

    Where the number of turns is known before the loop it is ``count``, and a target may leave the condition out: no
    step after the loop reads what that alone writes.
    """

    condition: tuple[Step, ...]
    predicate: str
    body: tuple[Step, ...]
    count: DimLike | None = None


@dataclass(frozen=True, slots=True)
class Push:
    """Append the contents of ``buffer`` to ``stack``."""

    stack: str
    buffer: str


@dataclass(frozen=True, slots=True)
class Pop:
    """Move the last entry of ``stack`` into ``buffer``; the graph guarantees that there is one."""

    stack: str
    buffer: str


@dataclass(frozen=True, slots=True)
class PrintStep:
    """Write the text of the schedule's print number ``site`` with the contents of ``buffers``."""

    site: int
    buffers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostStep:
    """Have Python evaluate the schedule's call number ``site`` on the contents of ``reads``, and fill ``writes``."""

    site: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    @property
    def buffers(self) -> tuple[str, ...]:
        """All that it uses, as native code hands them over: what it reads, then what it writes."""
        return (*self.reads, *self.writes)


@dataclass(frozen=True, slots=True)
class ParallelCopy:
    """Run ``copies``, each of one whole buffer to another, at once: all are read before any is written.

    Lowering alone writes it; ``kernels/coalescing.py`` replaces it by exchanges, and by copies in some order.
    """

    copies: tuple[Launch, ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Each of ``buffers``, temporaries of so many ``bytes``, takes the memory of the next, and the last of the first.

    So it holds what the next one held, and no byte is moved. The memory plan says where buffers lie at the beginning.
    """

    buffers: tuple[str, ...]
    bytes: DimLike


Step: TypeAlias = Launch | Branch | While | Push | Pop | PrintStep | HostStep | ParallelCopy | Exchange


@dataclass(frozen=True, slots=True)
class HostCall:
    """An op that Python evaluates, on operands and results of these types."""

    op: Op
    attrs: Attrs
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    location: Location | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CheckSite:
    """What a failed check says: the kind of error, its message and the user's line."""

    kind: str
    message: str
    location: Location | None = None


NumberKind: TypeAlias = Literal["int", "uint", "float"]


@dataclass(frozen=True, slots=True)
class SizeNumber:
    """A number that the entry computes of the sizes, exactly, and that kernels read as a size by its ``name``.

    A float is there by the bits of the nearest float64. The call is refused where there is none, or no 64-bit integer.
    """

    name: str
    dim: DimLike
    kind: NumberKind

    def value(self, sizes: Mapping[str, int]) -> int:
        """What kernels read; OverflowError where the number has no room."""
        number = dims.evaluate(self.dim, sizes)
        form = {"int": "<q", "uint": "<Q", "float": "<d"}[self.kind]
        try:
            return int.from_bytes(struct.pack(form, number), "little", signed=True)
        except struct.error:
            raise OverflowError(f"the size {self.dim} leaves 64 bits") from None


def aligned(size: DimLike, alignment: int) -> DimLike:
    """``size`` in bytes rounded up to a multiple of ``alignment``."""
    return (size + (alignment - 1)) // alignment * alignment


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where each temporary lies in the arena: offsets in bytes (multiples of ``alignment``), and the arena's size.

    ``donations`` maps an output's buffer to the input whose memory the caller may pass for it. ``unplanned`` is the sum
    of all temporaries without the plan.
    """

    offsets: dict[str, DimLike]
    arena_bytes: DimLike
    unplanned: DimLike
    donations: dict[str, str] = field(default_factory=dict)
    alignment: int = loader.ALIGNMENT


@dataclass(frozen=True, slots=True)
class Schedule:
    """Buffers and steps. ``sizes`` are the names of symbolic sizes in the order of the entry's ``dims`` argument.

    ``extents`` are those of the graph's values that may leave 64 bits, where the call is refused: an index into a value
    that is nowhere in memory, as those of ``arange(4*n)``, would wrap.
    A temporary may be written by several steps (a loop's carries); an output is written by the steps too.
    """

    name: str
    buffers: tuple[ScheduleBuffer, ...]
    steps: tuple[Step, ...]
    sizes: tuple[str, ...] = ()
    constraints: tuple[SizeConstraint, ...] = ()
    checks: tuple[CheckSite, ...] = ()
    stacks: tuple[str, ...] = ()
    plan: MemoryPlan | None = None
    prints: tuple[loader.Print, ...] = ()
    calls: tuple[HostCall, ...] = ()
    numbers: tuple[SizeNumber, ...] = ()
    extents: tuple[DimLike, ...] = ()


# ----------------------------------------------------------------------
# The steps of a schedule in one row, those inside of branches and loops included.


def all_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, those inside of others too; branches and loops themselves come before what is in them."""
    for step in steps:
        yield step
        if isinstance(step, Branch | While):
            yield from all_steps(inner_steps(step))


def inner_steps(step: Branch | While) -> tuple[Step, ...]:
    """The steps that stand in a branch or loop."""
    return (*step.then, *step.otherwise) if isinstance(step, Branch) else (*step.condition, *step.body)


def copied(step: Step) -> tuple[str, str] | None:
    """Source and target of a launch that copies all of one buffer to another and does nothing else."""
    if isinstance(step, Launch) and len(step.buffers) == 2 and _is_copy(step.kernel):
        return step.buffers[0], step.buffers[1]
    return None


def _is_copy(kernel: Kernel) -> bool:
    first, second = kernel.params
    inner = [statement for statement in statements_of(kernel.body) if not isinstance(statement, Loop)]
    if (first.access, second.access) != ("read", "write") or len(inner) != 2 or first.size != second.size:
        return False
    load, store = inner
    return (
        isinstance(load, Load)
        and isinstance(store, Store)
        and (load.buffer, store.buffer) == (first.name, second.name)
        and (load.index, load.mask, store.mask) == (store.index, None, None)
        and store.value == load.var
    )


def exchanged_together(steps: Sequence[Step]) -> list[frozenset[str]]:
    """The sets of buffers that exchange their memory with one another, directly or by way of others."""
    together: list[frozenset[str]] = []
    for step in all_steps(steps):
        if isinstance(step, Exchange):
            joined = frozenset(step.buffers).union(*(one for one in together if not one.isdisjoint(step.buffers)))
            together = [*(one for one in together if one.isdisjoint(joined)), joined]
    return together


def extents_of(schedule: Schedule) -> list[DimLike]:
    """The extents of arrays and loops that follow from the sizes alone, each once."""
    extents: dict[DimLike, None] = {}
    for buffer in schedule.buffers:
        extents.update(dict.fromkeys(buffer.type.shape))
    kernels = {id(step.kernel): step.kernel for step in all_steps(schedule.steps) if isinstance(step, Launch)}
    for kernel in kernels.values():
        for statement in statements_of(kernel.body):
            if isinstance(statement, Loop | Contract | Attend):
                extents.update(dict.fromkeys(dims_of(statement)))
    for step in all_steps(schedule.steps):
        if isinstance(step, While) and step.count is not None:
            extents[step.count] = None
    sizes = set(schedule.sizes)
    return [dim for dim in extents if not isinstance(dim, int) and dims.names(dim) <= sizes]
