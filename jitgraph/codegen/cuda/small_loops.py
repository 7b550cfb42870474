"""Which branches and loops become one launch of one block, and how many turns of them a launch runs.

Why. A launch costs a GPU 2 to 4 us, a predicate that the host waits for about 10 us. A block issues roughly one
instruction of a warp a cycle, so 2**17 statements of threads, 4096 of warps, take it about 2.5 us: a kernel of no more
runs in one block as fast as the next launch would begin. A nest takes one block a microsecond at least, for memory and
a barrier, so a launch of 2**14 nests is over after some 40 ms, and the host gets to look for signals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jitgraph.codegen.cuda.grid import wants_team
from jitgraph.codegen.cuda.launch_nests import LaunchNest, launch_nests_of
from jitgraph.codegen.kernels.kernel import Attend, Body, Contract, Kernel, Let, Local, Loop, Statement
from jitgraph.codegen.kernels.schedule import Branch, Exchange, Launch, Step, While
from jitgraph.codegen.kernels.traversal import statements_of
from jitgraph.ir import dims

MOST_STATEMENTS: Final = 1 << 17
"""Of a kernel, each counted as often as it runs."""

MOST_NESTS: Final = 1 << 14
"""That one launch runs."""

MOST_LOCAL_BYTES: Final = 4096
"""Of a nest's own memory: a block has the nests of a whole loop in the shared memory of one kernel."""

_CALL: Final = 20
"""Statements that a math function stands for."""


def turns_of_launch(step: Branch | While) -> int | None:
    """The turns of a loop that one launch of one block may run, 1 for a branch; None where it is not for one block."""
    nest_count = _nests_of_turn(step)
    if nest_count is None or isinstance(step, Branch):
        return None if nest_count is None else 1
    return max(1, MOST_NESTS // max(1, nest_count))


def _nests_of_turn(step: Branch | While) -> int | None:
    """The nests that a branch, or one turn of a loop, runs at most; None where one is not for one block."""
    if isinstance(step, Branch):
        return _nests((*step.then, *step.otherwise))
    return _nests(step.body if step.count is not None else (*step.condition, *step.body))


def _nests(steps: Sequence[Step]) -> int | None:
    """The nests that steps run; None where one is large, or holds something that the host has to do or to end."""
    total = 0
    for step in steps:
        match step:
            case Launch(kernel):
                nest_count = len(launch_nests_of(kernel)) if _is_small(kernel) else None
            case Branch():
                nest_count = _nests_of_turn(step)
            case Exchange(names, bytes):  # whose contents a block moves
                nest_count = 1 if isinstance(bytes, int) and len(names) * bytes <= MOST_STATEMENTS else None
            case While(_, _, _, int(count)):
                turn = _nests_of_turn(step)
                nest_count = None if turn is None else turn * count
            case _:
                nest_count = None
        if nest_count is None:
            return None
        total += nest_count
    return total if total <= MOST_NESTS else None


def _is_small(kernel: Kernel) -> bool:
    nests = launch_nests_of(kernel)
    if any(_local_bytes(nest) > MOST_LOCAL_BYTES or not _is_simple(nest) for nest in nests):
        return False
    runs = [_runs(tuple(_as_loops(nest))) for nest in nests]
    return sum(run or 0 for run in runs) <= MOST_STATEMENTS and None not in runs


def _is_simple(nest: LaunchNest) -> bool:
    """Whether contractions stand alone in their nests, and no thread has more of a row than in a grid; attention is
    a block's."""
    statements = [*statements_of(nest.body)]
    contracts = [s for s in statements if isinstance(s, Contract)]
    if any(isinstance(s, Attend) for s in statements):
        return False
    return not contracts or (contracts == [nest.body[-1]] and not wants_team(nest))


def _local_bytes(nest: LaunchNest) -> int:
    return sum(s.size * s.dtype.itemsize for s in statements_of(nest.statements) if isinstance(s, Local))


def _as_loops(nest: LaunchNest) -> Sequence[Statement]:
    """A nest as the loops that it was made of."""
    body = nest.statements
    for level in reversed(nest.levels):
        body = (Loop(level.axis, level.extent, "parallel", body),)
    return body


def _runs(body: Body) -> int | None:
    """How many statements run in a body, all turns of its loops counted; None where an extent has a name."""
    total = 0
    for statement in body:
        run: int | None = _CALL if isinstance(statement, Let) and statement.op == "call" else 1
        if isinstance(statement, Loop):
            run = _times(statement.extent if statement.span is None else statement.span, statement.body)
            if statement.slots is not None and run is not None:
                each = _runs(statement.slots.body)
                run = None if each is None else run + statement.lanes * each
        if isinstance(statement, Contract):
            m, n = statement.extents[:2]
            k = statement.extents[2] if statement.span is None else statement.span
            steps = _times(dims.product((m, n, k)), (*statement.left.body, *statement.right.body), more=1)
            ends = _times(dims.product((m, n)), statement.epilogue)
            run = None if steps is None or ends is None else steps + ends
        if run is None:
            return None
        total += run
    return total


def _times(count: object, body: Body, more: int = 0) -> int | None:
    """Statements of a body, and ``more``, that run so many times."""
    each = _runs(body)
    return count * (each + more) if isinstance(count, int) and each is not None else None
