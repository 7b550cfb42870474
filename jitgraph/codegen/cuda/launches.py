"""What a kernel becomes: functions of PTX, and how each is launched."""

from __future__ import annotations

from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass
from jitgraph.runtime.device_payload import LibraryProduct

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
