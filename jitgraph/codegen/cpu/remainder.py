"""The last steps of a chunk, fewer than it has slots: one register of slots after another, under masks.

This is all of a short row whose length is not known, and so it is short code without loops. Loads under masks do not
set off the processor's own prefetching, and the next rows are asked for here.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Final, NamedTuple

from jitgraph.codegen.cpu import prefetching, vectors
from jitgraph.codegen.cpu.accumulators import joined_lanes, lanes_from
from jitgraph.codegen.kernels.kernel import Body, Loop
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.environment import Environment, integer
from jitgraph.codegen.llvm.index import add, subtract
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.codegen.llvm.structure import length
from jitgraph.dtypes import int32

_MOST_CODE: Final = 64
"""Instructions that the remainder may become; where there are more, a loop goes over the registers."""

_FIRST: Final = 2
"""Registers that are done without asking whether so many steps are left."""

Fold = Callable[[Environment, list[LlvmScalar]], list[LlvmScalar]]


class Window(NamedTuple):
    """The steps ``begin .. end`` of a chunk, of which ``rest .. end`` remain after the whole ones."""

    begin: LlvmScalar
    rest: LlvmScalar
    end: LlvmScalar


def is_short(body: Body, env: Environment, registers: int) -> bool:
    """Whether the code of so many steps, each for a register of slots, is short and its masks cheap."""
    return length(body) * registers <= _MOST_CODE and vectors.can_mask(body, env)


def fold_remainder(
    env: Environment, loop: Loop, body: Body, window: Window, slots: list[LlvmScalar], width: int, fold: Fold
) -> list[LlvmScalar]:
    """``slots`` after the last steps of a chunk, no more than there are slots; a register holds ``width`` of them.

    Memory is asked for ahead only where these are all steps: whole steps before them have set off the processor's own
    prefetching, which further requests would disturb.
    """
    begin, end = window.rest, window.end
    function, lanes = env.function, slots[0].lanes
    left = subtract(env, end, begin)
    starts = range(0, lanes, width)
    ahead = integer(prefetching.AHEAD_BYTES)
    if begin.name != window.begin.name:
        ahead = env.ops.select(env.ops.cmp("eq", begin, window.begin), ahead, integer(0))
    parts = [[lanes_from(env, slot, start, width) for slot in slots] for start in starts]

    def folded(part: int) -> list[LlvmScalar]:
        first = add(env, begin, integer(starts[part]))
        if part % _FIRST == 0:
            for load in prefetching.contiguous_loads(body, loop.axis, body):
                prefetching.prefetch(env.at({loop.axis: first}), load, [ahead])
        mask = _between(env, left, starts[part], width, lanes)
        return fold(env.across(loop.axis, first, width, mask), parts[part])

    first = [folded(part) for part in range(min(_FIRST, len(parts)))]
    rest = parts[len(first) :]
    if rest:
        more = env.ops.cmp("gt", left, integer(starts[len(first)]))
        before = function.block
        with loops.only_if(env, more):
            others = [folded(part) for part in range(len(first), len(parts))]
            ends = function.block
        flat = loops.joined(function, (before, list(chain(*rest))), (ends, list(chain(*others))))
        rest = [flat[start : start + len(slots)] for start in range(0, len(flat), len(slots))]
    return [joined_lanes(env, pieces) for pieces in zip(*first, *rest, strict=True)]


def _between(env: Environment, left: LlvmScalar, start: int, width: int, most: int) -> LlvmScalar:
    """The mask of those of ``width`` steps from ``start`` on that are before ``left``, at most ``most``."""
    s = env.ops
    steps = ", ".join(f"i32 {start + lane}" for lane in range(width))
    few = s.splat(s.cast(s.min(left, integer(most)), int32), width)
    return s.cmp("lt", LlvmScalar(f"<{steps}>", f"<{width} x i32>", int32, width), few)
