"""What a kernel becomes: functions of PTX, one for each top-level loop nest, and how each is launched."""

from __future__ import annotations

from collections.abc import Iterable

from jitgraph.codegen.kernels.kernel import (
    Attend,
    Body,
    CheckStatement,
    Contract,
    IndexValue,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Statement,
    Store,
    dims_of,
    statements_of,
)
from jitgraph.codegen.llvm.loops import defined
from jitgraph.ir.dims import DimLike, names
from jitgraph.records import dataclass
from jitgraph.runtime.device_payload import LibraryProduct

# ----------------------------------------------------------------------
# What a kernel becomes: functions of PTX, and how each is launched.

Grid = tuple[DimLike, DimLike, DimLike]


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A product of a library: the buffers of its factors and of the result, by their places among the launch's, and
    how many bytes behind their begins the matrices lie."""

    product: LibraryProduct
    buffers: tuple[int, int, int]
    offsets: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Shape:
    """How a function of PTX is launched: blocks along three axes, threads of each, and its static shared memory.

    Where a library does its work there is no such function.
    """

    function: str
    grid: Grid
    block: tuple[int, int, int]
    shared_bytes: int
    call: LibraryCall | None = None


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch of a schedule: its function, extents over named sizes, and what it is passed.

    ``arguments`` are names of the schedule's buffers (their addresses) and then of sizes (int64). Where ``reports`` is
    true the address of the error record and the launch's order (``failures.py``) follow; where ``can_fail`` is true it
    may write that record. Last comes, where ``most_turns`` is not 0, how many turns of a loop it is to run, so many at
    most. A grid without blocks is not launched. ``step`` is the place in the schedule, that of the outermost branch or
    loop around it. With ``call`` a library is called in place of all that.
    """

    function: str
    grid: Grid
    block: tuple[int, int, int]
    shared_bytes: int
    buffers: tuple[str, ...]
    sizes: tuple[str, ...]
    reports: bool
    can_fail: bool
    step: int
    most_turns: int = 0
    call: LibraryCall | None = None


Launches = dict[int, tuple[KernelLaunch, ...]]
"""The launches of a schedule's steps in order, by the identity of the step: a ``Launch``, or a branch or loop that is
one launch as a whole."""


# ----------------------------------------------------------------------
# The top-level nests of a kernel, each of which is a launch: what one of them stores the next may read.
#
# Statements without effects that stand before a nest are repeated in each launch that needs them. What is computed in
# loops outside of nests goes no further than its block, so a nest that uses it, or stands before what uses it, is part
# of the same launch.


@dataclass(frozen=True)
class LaunchNest:
    """One launch: parallel loops ``levels``, outermost first, around ``body``; ``before`` is computed at their axes."""

    levels: tuple[Loop, ...]
    before: Body
    body: Body

    @property
    def statements(self) -> Body:
        return (*self.before, *self.body)

    @property
    def can_fail(self) -> bool:
        """Whether a check stands in it."""
        return any(isinstance(s, CheckStatement) for s in statements_of(self.statements))


def launch_nests_of(kernel: Kernel) -> list[LaunchNest]:
    """The launches of a kernel, in order."""
    nests: list[LaunchNest] = []
    pure: list[Statement] = []
    group: list[Statement] = []

    def close() -> None:
        if any(has_effects(statement) for statement in group):
            nests.append(_peeled(needed(pure, group), tuple(group)))
        known = {var.name for var in defined(tuple(pure))}
        for statement in group:
            if is_pure(statement) and (_used(statement) & set(map(str, _values(group)))) <= known:
                pure.append(statement)
                known |= {var.name for var in defined((statement,))}
        group.clear()

    later = _used_behind(kernel.body)
    for statement, used in zip(kernel.body, later, strict=True):
        if _is_nest(statement) and not (_used(statement) | used) & _bound(group):
            close()
            group.append(statement)
            close()
        else:
            group.append(statement)
    close()
    return nests


def _used_behind(body: Body) -> list[set[str]]:
    """The names and buffers that are mentioned behind each statement."""
    behind: list[set[str]] = []
    used: set[str] = set()
    for statement in reversed(body):
        behind.append(used)
        used = used | _used(statement)
    return behind[::-1]


def _values(body: Iterable[Statement]) -> set[str]:
    return {var.name for var in defined(tuple(body))}


def _bound(group: list[Statement]) -> set[str]:
    """The names and buffers that a group alone knows: what its loops gave, what follows from that, and its memory."""
    bound: set[str] = set()
    for statement in group:
        if isinstance(statement, Local):
            bound.add(statement.buffer)
        elif not is_pure(statement) or _used(statement) & bound:
            bound |= _values((statement,))
    return bound


def _is_nest(statement: Statement) -> bool:
    independent = isinstance(statement, Loop) and statement.kind in ("parallel", "vector")
    return independent or isinstance(statement, Contract | Attend)


def is_pure(statement: Statement) -> bool:
    """Whether a statement may be repeated."""
    return isinstance(statement, Let | IndexValue | Load)


def has_effects(statement: Statement) -> bool:
    """Whether a statement stores or checks anything."""
    return any(isinstance(s, Store | CheckStatement) for s in statements_of((statement,)))


def needed(pure: Iterable[Statement], body: Iterable[Statement]) -> Body:
    """Those of ``pure`` that ``body`` uses, and what they use in turn."""
    live: set[str] = set().union(*map(_used, body))
    retained: list[Statement] = []
    for statement in reversed(list(pure)):
        if _values((statement,)) & live:
            live |= _used(statement)
            retained.append(statement)
    return tuple(reversed(retained))


def _used(statement: Statement) -> set[str]:
    """The names and buffers that a statement mentions, those of what stands inside it included."""
    used: set[str] = set()
    for inner in statements_of((statement,)):
        for dim in dims_of(inner):
            used |= names(dim)
        match inner:
            case Let():
                used |= {arg.name for arg in inner.args}
            case Load():
                used.add(inner.buffer)
            case Store():
                used |= {inner.buffer, inner.value.name}
            case CheckStatement():
                used |= {var.name for var in (inner.ok, inner.value, inner.bound) if var is not None}
            case Loop():
                used |= {carry.init.name for carry in inner.carries}
                used |= {carry.next.name for carry in inner.carries}
            case Contract():
                used |= {inner.left.value.name, inner.right.value.name}
            case Attend():
                used |= {factor.operand.value.name for factor in (*inner.rows, *inner.columns)}
                used |= {inner.score.value.name, *(one.weight.name for one in inner.sums)}
        if isinstance(inner, Load | Store) and inner.mask is not None:
            used.add(inner.mask.name)
    return used


def _peeled(before: Body, body: Body) -> LaunchNest:
    """The parallel loops around everything that has an effect, which become the grid."""
    levels: list[Loop] = []
    while body:
        *outside, last = body
        if not (isinstance(last, Loop) and last.kind == "parallel" and last.is_whole and all(map(is_pure, outside))):
            break
        if names(last.extent) & {level.axis for level in levels} or any(n.startswith("_v") for n in names(last.extent)):
            break
        before, body = (*before, *outside), last.body
        levels.append(last)
    return LaunchNest(tuple(levels), before, body)
