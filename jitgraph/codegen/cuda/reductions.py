"""Reduce loops: what one step contributes, those of one thread, and the rows that a team reduces together.

A team keeps to the order of the loop (``kernel.Loop``) by giving slots to lanes and chunks to warps: lane j has the
slots j, j + 32, ..., and each warp an aligned run of 2**q chunks, which is a node of the tree. Where the order is free
every thread has an accumulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from jitgraph.codegen.cuda import thread_memory
from jitgraph.codegen.cuda.warp import WARP, from_below, from_first
from jitgraph.codegen.kernels.kernel import CheckStatement, Contract, Loop
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import LlvmScalar
from jitgraph.codegen.llvm.environment import Environment, combined, constant_of, integer
from jitgraph.codegen.llvm.index import add, least, multiply, subtract
from jitgraph.codegen.llvm.loops import length
from jitgraph.dtypes import int64
from jitgraph.errors import CompileError

if TYPE_CHECKING:
    from jitgraph.codegen.cuda.team import Team

FEW: Final = 8
"""Elements up to which a row is one thread's."""

_ACCUMULATORS: Final = 4
"""Of a thread, where the order is free."""


_AT_ONCE: Final = 16
"""Steps whose loads a thread has on their way at a time, so that it waits for memory once."""

_SHORT: Final = 32
"""Instructions of a step up to which several are written out."""


class StepReduction:
    """A reduce loop at one place: its window, what stands before it, and one step of it."""

    def __init__(self, loop: Loop, env: Environment) -> None:
        if loop.combine is None:
            raise CompileError(f"kernel {env.kernel.name}: the reduce loop {loop.axis} has no combine")
        self.loop, self.outer = loop, env
        self.begin, self.end = loops.window(loop, env)
        self.env = env.inner()
        self.init = [env[carry.init.name] for carry in loop.carries]
        self.count = subtract(env, self.end, self.begin)
        known = constant_of(self.count)
        self.most = loop.span if known is None else known
        """Steps that there are at most, where that is known."""
        self._rest = loops.hoist(loop, self.env, self.count)
        self.is_short = length(self._rest) <= _SHORT and not any(
            isinstance(statement, Loop | Contract | CheckStatement) for statement in self._rest
        )
        """Whether several steps may be written out."""

    def fold(self, step: LlvmScalar, slots: Sequence[LlvmScalar]) -> list[LlvmScalar]:
        """``slots`` with what ``step`` contributes."""
        here = self.env.at({self.loop.axis: step})
        here.emit(self._rest)
        assert self.loop.combine is not None
        return combined(here, self.loop.combine, slots, [here[carry.next.name] for carry in self.loop.carries])

    def merge(self, left: Sequence[LlvmScalar], right: Sequence[LlvmScalar]) -> list[LlvmScalar]:
        """Two sets of accumulators as one."""
        assert self.loop.combine is not None
        return combined(self.env, self.loop.combine, left, right)

    def bind(self, env: Environment, values: Sequence[LlvmScalar]) -> None:
        """Define the results of the loop."""
        for carry, value in zip(self.loop.carries, values, strict=True):
            env.bind(carry.result.name, value)


def emit_reduce(loop: Loop, env: Environment) -> None:
    """Emit a reduce loop that one thread runs, or every thread of a team alike."""
    reduction = StepReduction(loop, env)
    if loop.lanes > 1 and loop.chain:
        values = _few_slots(reduction)
    elif loop.chain:
        values = _chunks(reduction)
    else:
        values = loops.counted(reduction.env, reduction.begin, reduction.end, 1, reduction.init, reduction.fold)
    reduction.bind(env, values)


def is_few(loop: Loop) -> bool:
    """Whether one thread can keep the order of a loop with several slots: each of them has one element at most."""
    return isinstance(loop.extent, int) and loop.is_whole and loop.extent <= min(FEW, loop.lanes) and not loop.slots


def _few_slots(reduction: StepReduction) -> list[LlvmScalar]:
    loop, count = reduction.loop, constant_of(reduction.count)
    if not is_few(loop) or count is None:
        raise CompileError(f"the reduce loop {loop.axis} has {loop.lanes} slots in one thread")
    slots = [
        reduction.fold(integer(slot), reduction.init) if slot < count else reduction.init for slot in range(loop.lanes)
    ]
    return thread_memory.folded(slots, reduction.merge)


def _chunks(reduction: StepReduction) -> list[LlvmScalar]:
    """One slot, in chunks that merge."""
    env, chain = reduction.env, integer(reduction.loop.chain)

    def chunk(number: LlvmScalar) -> list[LlvmScalar]:
        first = add(env, reduction.begin, multiply(env, number, chain))
        last = least(env, add(env, first, chain), reduction.end)
        return loops.counted(env, first, last, 1, reduction.init, reduction.fold)

    def whole(number: LlvmScalar) -> list[LlvmScalar]:
        first = add(env, reduction.begin, multiply(env, number, chain))

        def step(number: LlvmScalar, slot: list[LlvmScalar]) -> list[LlvmScalar]:
            return reduction.fold(add(env, first, number), slot)

        return several_at_a_time(env, reduction.loop.chain, _AT_ONCE, reduction.init, step)

    count = _quotient_up(env, reduction.count, reduction.loop.chain)
    steps = reduction.loop.chain
    return in_runs(reduction, integer(0), count, reduction.init, chunk, whole, reduction.merge, slots=1, steps=steps)


def several_at_a_time(
    env: Environment, count: int, several: int, init: Sequence[LlvmScalar], step: loops.Emit
) -> list[LlvmScalar]:
    """``count`` steps, a power of two, of which ``several`` are written out.

    An assembler that chose for itself would take the registers of half a processor for it.
    """
    several = max(1, min(several, count))

    def steps(first: LlvmScalar, carries: list[LlvmScalar]) -> list[LlvmScalar]:
        for each in range(several):
            carries = step(add(env, first, integer(each)), carries)
        return carries

    return loops.counted(env, integer(0), integer(count), several, init, steps, rolled=True)


def in_runs(
    reduction: StepReduction,
    begin: LlvmScalar,
    end: LlvmScalar,
    init: Sequence[LlvmScalar],
    chunk: thread_memory.Chunk,
    whole: thread_memory.Chunk,
    merge: thread_memory.Merge,
    slots: int,
    steps: int,
    most_chunks: int | None = None,
) -> list[LlvmScalar]:
    """Chunks ``begin .. end`` of ``steps`` steps each as one, of which a thread has ``slots`` slots.

    There are ``most_chunks`` of them or fewer, where that is known.
    """
    env = reduction.env
    if most_chunks is None and reduction.most is not None:
        most_chunks = -(-reduction.most // steps)
    if not reduction.is_short or most_chunks == 0:
        return thread_memory.merged(env, begin, end, init, chunk, merge, most_chunks)
    run = max(1, _AT_ONCE // (slots * reduction.loop.chain))
    while most_chunks is not None and run > max(1, most_chunks):
        run //= 2
    count = constant_of(reduction.count)
    even = count is not None and count % (steps * run) == 0
    if count is not None and count < steps:
        return thread_memory.merged(env, begin, end, init, chunk, merge, most_chunks)
    wholes = _quotient(env, reduction.count, steps)
    return thread_memory.merged_in_runs(env, begin, end, wholes, init, chunk, whole, merge, run, most_chunks, even=even)


def _quotient(env: Environment, x: LlvmScalar, y: int) -> LlvmScalar:
    """``x / y`` rounded down, of what is at least 0; 0 of what is less."""
    known = constant_of(x)
    if known is not None:
        return integer(max(0, known // y))
    return env.ops.make(f"udiv {env.ops.max(x, integer(0))}, {y}", int64, 1)


def _quotient_up(env: Environment, x: LlvmScalar, y: int) -> LlvmScalar:
    """``x / y`` rounded up, of what is at least 0; 0 of what is less."""
    known = constant_of(x)
    if known is not None:
        return integer(max(0, -(-known // y)))
    up = add(env, env.ops.max(x, integer(0)), integer(y - 1))
    return env.ops.make(f"udiv {up}, {y}", int64, 1)


class TeamReduction(StepReduction):
    """A reduce loop that the threads of a team share; its steps are run by one thread each."""

    def __init__(self, loop: Loop, env: Environment, team: Team) -> None:
        super().__init__(loop, env)
        self.team = team

    def in_any_order(self) -> list[LlvmScalar]:
        """The accumulators of all threads together, in each of them."""
        team, env = self.team, self.env
        first, values = add(env, self.begin, team.thread), self.init
        known = constant_of(self.count)
        several = _ACCUMULATORS * team.threads
        if self.is_short and (known is None or known >= several):
            turns = _quotient(env, self.count, several)

            def turn(number: LlvmScalar, flat: list[LlvmScalar]) -> list[LlvmScalar]:
                at = add(env, first, multiply(env, number, integer(several)))
                parts = zip(range(_ACCUMULATORS), self._each(flat), strict=True)
                return [x for part, old in parts for x in self.fold(add(env, at, integer(part * team.threads)), old)]

            flat = loops.counted(env, integer(0), turns, 1, self.init * _ACCUMULATORS, turn)
            values = thread_memory.folded(self._each(flat), self.merge)
            first = add(env, first, multiply(env, turns, integer(several)))
        values = loops.counted(env, first, self.end, team.threads, values, self.fold)
        values = self._across_lanes(values, WARP)
        if team.warps == 1:
            return values
        parts = team.exchanged(env, [values], one_lane=True)
        return thread_memory.folded([part[0] for part in parts], self.merge)

    def _each(self, flat: Sequence[LlvmScalar]) -> list[list[LlvmScalar]]:
        """Accumulators one after another as those of each slot."""
        each = len(self.init)
        return [list(flat[at : at + each]) for at in range(0, len(flat), each)]

    def in_order(self) -> list[list[LlvmScalar]]:
        """The slots of a lane, the same in each warp of the team: slots lane, lane + 32, ..."""
        env, team, loop = self.env, self.team, self.loop
        of_lane = max(1, loop.lanes // WARP)
        init = self.init * of_lane
        chunks = _quotient_up(env, self.count, loop.lanes * loop.chain)

        def merge(left: Sequence[LlvmScalar], right: Sequence[LlvmScalar]) -> list[LlvmScalar]:
            pairs = zip(self._each(left), self._each(right), strict=True)
            return [value for one, other in pairs for value in self.merge(one, other)]

        steps = loop.lanes * loop.chain
        most = None if self.most is None else -(-self.most // steps)
        known = constant_of(chunks)
        whole = partial(self._chunk, whole=True)
        parts = partial(in_runs, self, init=init, chunk=self._chunk, whole=whole, merge=merge, slots=of_lane)
        if team.warps == 1 or known == 0:
            return self._each(parts(begin=integer(0), end=chunks, steps=steps))
        run, shift = self._run_of_a_warp(chunks if most is None else integer(most))
        first = env.ops.make(f"shl {team.warp}, {shift.name}", int64, 1)
        last = least(env, add(env, first, run), chunks)
        flat = parts(begin=first, end=last, steps=steps, most_chunks=constant_of(run))
        up = subtract(env, add(env, chunks, run), integer(1))
        runs = integer(-(-known // _known(run))) if known is not None else env.ops.make(
            f"lshr {up}, {shift.name}", int64, 1
        )  # fmt: skip
        others = team.exchanged(env, self._each(flat), one_lane=False)
        together = thread_memory.merged_chunks(
            env, [[value for slot in part for value in slot] for part in others], runs, merge
        )
        if known is None:  # of no steps at all no part is there
            together = [
                env.ops.select(env.ops.cmp("gt", chunks, integer(0)), x, y) for x, y in zip(together, init, strict=True)
            ]
        return self._each(together)

    def folded(self, slots: list[list[LlvmScalar]]) -> list[LlvmScalar]:
        """The slots in halves: first those of a lane, then across lanes."""
        return self._across_lanes(thread_memory.folded(slots, self.merge), min(self.loop.lanes, WARP))

    def _across_lanes(self, values: list[LlvmScalar], width: int) -> list[LlvmScalar]:
        half = width // 2
        while half:
            values = self.merge(values, [from_below(self.env, value, half) for value in values])
            half //= 2
        return [from_first(self.env, value) for value in values]

    def _run_of_a_warp(self, chunks: LlvmScalar) -> tuple[LlvmScalar, LlvmScalar]:
        """The chunks of a warp's run, a power of two, and its logarithm: as few as are enough for all."""
        env, s = self.env, self.env.ops
        each = _quotient_up(env, chunks, self.team.warps)
        known = constant_of(each)
        if known is not None:
            shift = max(0, known - 1).bit_length()
            return integer(1 << shift), integer(shift)
        below = s.max(subtract(env, each, integer(1)), integer(0))
        zeros = s.make(f"call i64 @llvm.ctlz.i64({below}, i1 false)", int64, 1)
        exponent = s.sub(integer(64), zeros)
        return s.make(f"shl i64 1, {exponent.name}", int64, 1), exponent

    def _chunk(self, number: LlvmScalar, *, whole: bool = False) -> list[LlvmScalar]:
        """The slots of a lane after one chunk, which may be known to have all of its steps."""
        env, s, loop, lane = self.env, self.env.ops, self.loop, self.team.lane
        steps = loop.lanes * loop.chain
        first = add(env, self.begin, multiply(env, number, integer(steps)))
        last = least(env, add(env, first, integer(steps)), self.end)
        slots: list[LlvmScalar] = []
        of_lane = max(1, loop.lanes // WARP)
        idle = loop.lanes < WARP
        total = integer(steps) if whole else subtract(env, last, first)
        fixed = constant_of(total)
        full = integer(fixed // loop.lanes) if fixed is not None else s.make(f"udiv {total}, {loop.lanes}", int64, 1)
        rows = s.select(s.cmp("lt", lane, integer(loop.lanes)), full, integer(0)) if idle else full
        offsets = [add(env, lane, integer(WARP * index)) for index in range(of_lane)]
        each = len(self.init)

        def row(number: LlvmScalar, flat: list[LlvmScalar]) -> list[LlvmScalar]:
            at = add(env, first, multiply(env, number, integer(loop.lanes)))
            folded: list[LlvmScalar] = []
            for index, offset in enumerate(offsets):
                folded += self.fold(add(env, at, offset), flat[each * index : each * (index + 1)])
            return folded

        if whole and self.is_short and not idle:
            return several_at_a_time(env, loop.chain, _AT_ONCE // of_lane, self.init * of_lane, row)
        flat = loops.counted(env, integer(0), rows, 1, self.init * of_lane, row)
        if fixed is not None and fixed % loop.lanes == 0:
            return flat
        at = add(env, first, multiply(env, full, integer(loop.lanes)))
        for index, offset in enumerate(offsets):
            step = add(env, at, offset)
            inside = s.cmp("lt", step, last)
            if idle:
                inside = s.and_(inside, s.cmp("lt", lane, integer(loop.lanes)))
            before = flat[each * index : each * (index + 1)]
            slots += _where(env, inside, before, self, step)
        return slots


def _known(x: LlvmScalar) -> int:
    value = constant_of(x)
    assert value is not None
    return value


def _where(
    env: Environment, condition: LlvmScalar, slots: list[LlvmScalar], reduction: StepReduction, step: LlvmScalar
) -> list[LlvmScalar]:
    """``slots`` with one more step where ``condition`` holds."""
    function, outside = env.function, env.function.known
    before, inside, after = function.block, function.label("inside"), function.label("after")
    function.branch(condition.name, inside, after)
    function.start_block(inside, outside)
    values = reduction.fold(step, slots)
    end = function.block
    function.jump(after)
    function.start_block(after, outside)
    return loops.joined(function, (before, slots), (end, values))
