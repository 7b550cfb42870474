"""What a kernel becomes: functions of PTX, and how each is launched."""

from __future__ import annotations

from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass

Grid = tuple[DimLike, DimLike, DimLike]


@dataclass(frozen=True, slots=True)
class Shape:
    """How a function of PTX is launched: blocks along three axes, threads of each, and its static shared memory."""

    function: str
    grid: Grid
    block: tuple[int, int, int]
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch of a schedule: its function, extents over named sizes, and what it is passed.

    ``arguments`` are names of the schedule's buffers (their addresses) and then of sizes (int64). Where ``reports`` is
    true the address of the error record and the launch's order (``failures.py``) follow; where ``can_fail`` is true it
    may write that record. Last comes, where ``most_turns`` is not 0, how many turns of a loop it is to run, so many at
    most. A grid without blocks is not launched. ``step`` is the place in the schedule, that of the outermost branch or
    loop around it.
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


Launches = dict[int, tuple[KernelLaunch, ...]]
"""The launches of a schedule's steps in order, by the identity of the step: a ``Launch``, or a branch or loop that is
one launch as a whole."""
