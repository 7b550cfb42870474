"""Memory of a schedule: which buffers may share memory, and where each temporary lies in the one arena.

Steps are numbered in the order in which they stand, the condition of a loop before its body. A buffer that only one
turn of a loop uses lives from its first to its last use; one that is also used outside the loop, or read in a turn
before it is written, lives for the whole loop. Buffers whose lives do not meet may share memory. A written buffer may
also take the memory of one that the same launch reads last, where the kernel can do with both being one
(``aliasing_pairs``).

Buffers of static size are placed best-fit by size; a buffer of symbolic size shares only with buffers of the same size
expression, so that offsets are sums of expressions and that nothing overlaps follows by algebra alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

import numpy as np

from jitgraph.codegen.kernels.aliasing import aliasing_pairs
from jitgraph.codegen.kernels.kernel import CheckStatement, Kernel, statements_of
from jitgraph.codegen.kernels.schedule import (
    Branch,
    Exchange,
    HostStep,
    Launch,
    MemoryPlan,
    Pop,
    PrintStep,
    Push,
    Schedule,
    ScheduleBuffer,
    Step,
    While,
    aligned,
)
from jitgraph.ir.dims import DimLike
from jitgraph.records import dataclass
from jitgraph.runtime import loader

_Allowed = Callable[[Launch | None, str, str], tuple[str, str] | None]


@dataclass(frozen=True)
class Access:
    """One use of a buffer by the step with this number."""

    number: int
    buffer: str
    reads: bool
    writes: bool


@dataclass
class _Flat:
    """The steps in a row: every access, every loop as (first, last) number, and the launches by number.

    ``prints`` are the steps that the host may end the call in: prints and calls of Python. ``together`` are for each
    buffer that exchanges its memory those that this may be the memory of, itself among them.
    """

    accesses: list[Access] = field(default_factory=list)
    loops: list[tuple[int, int]] = field(default_factory=list)
    launches: dict[int, Launch] = field(default_factory=dict)
    prints: list[int] = field(default_factory=list)
    together: dict[str, set[str]] = field(default_factory=dict)
    count: int = 0

    def walk(self, steps: Iterable[Step]) -> None:
        for step in steps:
            match step:
                case Launch(kernel, buffers):
                    number = self._next()
                    self.launches[number] = step
                    for param, buffer in zip(kernel.params, buffers, strict=True):
                        self._use(number, buffer, "read" in param.access, "write" in param.access)
                case Branch(predicate, then, otherwise):
                    self._use(self._next(), predicate, True, False)
                    self.walk(then)
                    self.walk(otherwise)
                case While(condition, predicate, body):
                    first = self.count
                    self.walk(condition)
                    self._use(self._next(), predicate, True, False)
                    self.walk(body)
                    self.loops.append((first, self.count - 1))
                case Push(_, buffer):
                    self._use(self._next(), buffer, True, False)
                case Pop(_, buffer):
                    self._use(self._next(), buffer, False, True)
                case PrintStep(_, buffers):
                    number = self._next()
                    self.prints.append(number)
                    for buffer in buffers:
                        self._use(number, buffer, True, False)
                case HostStep(_, reads, writes):
                    number = self._next()
                    self.prints.append(number)
                    for buffer in reads:
                        self._use(number, buffer, True, False)
                    for buffer in writes:
                        self._use(number, buffer, False, True)
                case Exchange(names, _):
                    number = self._next()
                    for buffer in names:
                        self._use(number, buffer, True, True)
                    joined = {*names}.union(*(self.together.get(name, ()) for name in names))
                    self.together.update(dict.fromkeys(joined, joined))

    def _next(self) -> int:
        self.count += 1
        return self.count - 1

    def _use(self, number: int, buffer: str, reads: bool, writes: bool) -> None:
        self.accesses.append(Access(number, buffer, reads, writes))


def lifetimes(steps: Iterable[Step]) -> dict[str, tuple[int, int]]:
    """For each buffer the first and the last step between which its memory is its own."""
    flat = _Flat()
    flat.walk(steps)
    return _lifetimes(flat)


def launches(steps: Iterable[Step]) -> dict[int, Launch]:
    """The launches by the numbers that ``lifetimes`` counts in."""
    flat = _Flat()
    flat.walk(steps)
    return flat.launches


def _lifetimes(flat: _Flat) -> dict[str, tuple[int, int]]:
    uses: dict[str, list[Access]] = {}
    for access in flat.accesses:
        uses.setdefault(access.buffer, []).append(access)
    for names in {id(names): names for names in flat.together.values()}.values():
        # each may lie where any of them does
        some = [access for access in flat.accesses if access.buffer in names]
        uses.update(dict.fromkeys(names, some))
    spans = {}
    for buffer, accesses in uses.items():
        first, last = accesses[0].number, accesses[-1].number
        # inner loops come before the loops around them, so that a span grows outwards
        for start, end in flat.loops:
            if last < start or first > end:
                continue
            inside = [access for access in accesses if start <= access.number <= end]
            if first < start or last > end or inside[0].reads:
                first, last = min(first, start), max(last, end)
        spans[buffer] = (first, last)
    return spans


def plan_memory(
    schedule: Schedule,
    donate: Sequence[int | tuple[int, int]] = (),
    alignment: int = loader.ALIGNMENT,
    *,
    reads_again: bool = False,
) -> Schedule:
    """The schedule with a plan, and with the aliases that the plan uses on its kernels.

    Temporaries begin at multiples of ``alignment`` bytes.

    ``donate`` lists inputs whose memory an output may take over, by position, or pairs (output, input); those that are
    not safe are left out: a later step reads the old value, a check or a print can fail or a loop be interrupted once
    the memory is written, or the kernel cannot work in place. ``reads_again``: the code of a kernel may read what
    stands outside of its loops more than once, so a single element is never written in place of another.
    """
    flat = _Flat()
    flat.walk(schedule.steps)
    spans = _lifetimes(flat)
    # what was made for a result that nobody reads
    retained = tuple(buffer for buffer in schedule.buffers if buffer.role != "temporary" or buffer.name in spans)
    schedule = replace(schedule, buffers=retained)
    buffers = {buffer.name: buffer for buffer in retained}
    pairs: dict[int, tuple[tuple[str, str], ...]] = {}
    allowed = partial(_allowed, reads_again=reads_again)
    donations = _donations(schedule, flat, spans, buffers, donate, pairs, allowed)
    root = _in_place(flat, spans, buffers, pairs, allowed)
    offsets, arena = _place(schedule, spans, root, alignment)
    temporaries = [buffer for buffer in schedule.buffers if buffer.role == "temporary"]
    unplanned: DimLike = 0
    for buffer in temporaries:
        unplanned = unplanned + aligned(buffer.bytes, alignment)
    plan = MemoryPlan(offsets, arena, unplanned, donations, alignment)
    steps = _with_aliases(schedule.steps, pairs, [0])
    return replace(schedule, steps=steps, plan=plan)


def _donations(
    schedule: Schedule,
    flat: _Flat,
    spans: Mapping[str, tuple[int, int]],
    buffers: Mapping[str, ScheduleBuffer],
    donate: Sequence[int | tuple[int, int]],
    pairs: dict[int, tuple[tuple[str, str], ...]],
    allowed: _Allowed,
) -> dict[str, str]:
    by_role = {(buffer.role, buffer.position): buffer.name for buffer in buffers.values()}
    outputs = [buffer.position for buffer in buffers.values() if buffer.role == "output"]
    last_check = max((n for n, launch in flat.launches.items() if _checks(launch.kernel)), default=-1)
    last_check = max(last_check, *flat.prints) if flat.prints else last_check
    last_loop = max((end for _, end in flat.loops), default=-1)  # loops may be interrupted: nothing is written by then
    donations: dict[str, str] = {}
    for wish in donate:
        donor = wish if isinstance(wish, int) else wish[1]
        takers = outputs if isinstance(wish, int) else [wish[0]]
        source = by_role["input", donor]
        for position in takers:
            target = by_role["output", position]
            if target in donations or source in donations.values() or target not in spans:
                continue
            if buffers[target].type != buffers[source].type:
                continue
            start = spans[target][0]
            if start <= max(last_check, last_loop) or (source in spans and spans[source][1] > start):
                continue
            if source in spans and spans[source][1] == start:
                pair = allowed(flat.launches.get(start), target, source)
                if pair is None:
                    continue
                pairs[start] = (*pairs.get(start, ()), pair)
            elif isinstance(wish, int):
                continue  # an output that has nothing to do with the input: only the pair asks for that
            donations[target] = source
            break
    return donations


def _checks(kernel: Kernel) -> bool:
    return any(isinstance(statement, CheckStatement) for statement in statements_of(kernel.body))


def _allowed(launch: Launch | None, written: str, read: str, *, reads_again: bool) -> tuple[str, str] | None:
    """The pair of params by which a launch can take both buffers as one; None where it cannot."""
    if launch is None or launch.buffers.count(written) != 1 or launch.buffers.count(read) != 1:
        return None
    names = [param.name for param in launch.kernel.params]
    if reads_again and launch.kernel.params[launch.buffers.index(read)].size == 1:
        return None
    pair = names[launch.buffers.index(written)], names[launch.buffers.index(read)]
    return pair if pair in aliasing_pairs(launch.kernel) else None


def _in_place(
    flat: _Flat,
    spans: Mapping[str, tuple[int, int]],
    buffers: Mapping[str, ScheduleBuffer],
    pairs: dict[int, tuple[tuple[str, str], ...]],
    allowed: _Allowed,
) -> dict[str, str]:
    """For each temporary that takes over another's memory, the first one in that chain."""
    root: dict[str, str] = {}
    taken: set[str] = {*flat.together}
    for number, launch in sorted(flat.launches.items()):
        for written in dict.fromkeys(launch.buffers):
            if buffers[written].role != "temporary" or written in root or written in flat.together:
                continue
            if spans[written][0] != number:
                continue
            for read in dict.fromkeys(launch.buffers):
                if buffers[read].role != "temporary" or read in taken or spans[read][1] != number:
                    continue
                if buffers[read].bytes != buffers[written].bytes or spans[read][0] == number:
                    continue
                pair = allowed(launch, written, read)
                if pair is not None:
                    root[written] = root.get(read, read)
                    taken.add(read)
                    pairs[number] = (*pairs.get(number, ()), pair)
                    break
    return root


def _place(
    schedule: Schedule, spans: Mapping[str, tuple[int, int]], root: Mapping[str, str], alignment: int
) -> tuple[dict[str, DimLike], DimLike]:
    sizes: dict[str, DimLike] = {}
    lives: dict[str, list[tuple[int, int]]] = {}
    for buffer in schedule.buffers:
        if buffer.role == "temporary":
            block = root.get(buffer.name, buffer.name)
            sizes[block] = aligned(buffer.bytes, alignment)
            if buffer.name in spans:
                lives.setdefault(block, []).append(spans[buffer.name])
    static = [block for block in sizes if isinstance(sizes[block], int)]
    starts: dict[str, DimLike] = {}
    end = _place_static(static, sizes, lives, starts)
    total: DimLike = end
    slots: list[tuple[DimLike, DimLike, list[str]]] = []
    for block, size in sizes.items():
        if isinstance(size, int):
            continue
        for slot_size, at, holders in slots:
            if slot_size == size and not any(_meet(lives.get(block, []), lives.get(other, [])) for other in holders):
                holders.append(block)
                starts[block] = at
                break
        else:
            starts[block] = total
            slots.append((size, total, [block]))
            total = total + size
    offsets = {
        buffer.name: starts[root.get(buffer.name, buffer.name)]
        for buffer in schedule.buffers
        if buffer.role == "temporary"
    }
    return offsets, total


def _place_static(
    blocks: Sequence[str],
    sizes: Mapping[str, DimLike],
    lives: Mapping[str, list[tuple[int, int]]],
    offsets: dict[str, DimLike],
) -> int:
    """Best fit, the largest first: each block into the smallest gap between those that live at the same time.

    A row of the arrays is a span of a placed block: its steps. One comparison of arrays finds what lives
    at the same time, as there may be thousands of blocks.
    """
    end = 0
    rows = sum(len(lives.get(block, ())) for block in blocks)
    first, last = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    spans: list[tuple[int, int]] = []  # bytes, of which there may be more than 64 bits hold
    for block in sorted(blocks, key=lambda block: -_int(sizes[block])):
        size = _int(sizes[block])
        own = lives.get(block, ())
        count = len(spans)
        meets = np.zeros(count, bool)
        for begin, until in own:
            meets |= (first[:count] <= until) & (last[:count] >= begin)
        busy = sorted(spans[i] for i in np.flatnonzero(meets).tolist())
        best: tuple[int, int] | None = None
        at = 0
        for start, stop in busy:
            if start - at >= size and (best is None or start - at < best[0]):
                best = (start - at, at)
            at = max(at, stop)
        offset = best[1] if best is not None else at
        for begin, until in own:
            first[len(spans)], last[len(spans)] = begin, until
            spans.append((offset, offset + size))
        offsets[block] = offset
        end = max(end, offset + size)
    return end


def _int(size: DimLike) -> int:
    assert isinstance(size, int)
    return size


def _meet(left: Sequence[tuple[int, int]], right: Sequence[tuple[int, int]]) -> bool:
    return any(a <= d and c <= b for a, b in left for c, d in right)


def _with_aliases(
    steps: Sequence[Step], pairs: Mapping[int, tuple[tuple[str, str], ...]], number: list[int]
) -> tuple[Step, ...]:
    """The steps with the alias pairs of each launch noted on its kernel, numbered as ``_Flat`` numbers them."""
    result: list[Step] = []
    for step in steps:
        match step:
            case Launch(kernel):
                chosen = pairs.get(number[0], ())
                number[0] += 1
                result.append(
                    replace(step, kernel=replace(kernel, aliases=tuple(sorted({*kernel.aliases, *chosen}))))
                    if chosen
                    else step
                )
            case Branch(predicate, then, otherwise):
                number[0] += 1
                first = _with_aliases(then, pairs, number)
                result.append(Branch(predicate, first, _with_aliases(otherwise, pairs, number)))
            case While(condition, _, body):
                asking = _with_aliases(condition, pairs, number)
                number[0] += 1
                result.append(replace(step, condition=asking, body=_with_aliases(body, pairs, number)))
            case _:
                number[0] += 1
                result.append(step)
    return tuple(result)
