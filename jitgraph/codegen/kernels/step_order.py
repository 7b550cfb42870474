"""The order of a schedule's steps, by what is alive: a step that frees memory runs as soon as it can.

Fusion puts a group where its last node stood. In a training step the gradient of a weight is fused with the update of
that weight, whose line stands behind the whole backward part, and every activation that such a gradient reads would be
alive until then. Here steps are listed again: the next is the first in the old order among those that free more
temporary memory than they take, or take next to none (a learning rate's cast, for which an update waits), or else the
first that is ready.

An order is kept unless the new one lowers the peak by ``LEAST_GAIN`` bytes. What can raise, print, call Python or be
interrupted keeps its order, and what is written in memory that the caller gave away stays behind it, and behind what
reads that memory: donations are as many as before.

Where an output may begin as the memory of an input, all that can raise stands before what writes there, as far as it
does not need it: an index of the last layer's cache is checked before the first layer's is written.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from jitgraph.codegen.kernels.kernel import CheckStatement, statements_of
from jitgraph.codegen.kernels.schedule import (
    Branch,
    Exchange,
    HostStep,
    Launch,
    Pop,
    PrintStep,
    Push,
    Schedule,
    ScheduleBuffer,
    Step,
    While,
    copied,
)
from jitgraph.ir import dims
from jitgraph.records import dataclass

LEAST_GAIN: Final = 1 << 20  # bytes: below a megabyte caches hold it all, and a donated write ends interruptibility


@dataclass
class _Uses:
    """What a step, with the steps inside it, reads and writes, and whether it stands in the order of effects."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    is_effect: bool = False

    @property
    def all(self) -> set[str]:
        return self.reads | self.writes


def order_steps(
    schedule: Schedule, donate: Sequence[int | tuple[int, int]] = (), *, least: int = LEAST_GAIN
) -> Schedule:
    """The schedule with its steps, those of loops and branches too, in the order that needs less memory.

    ``donate`` is what ``plan_memory`` takes.
    """
    sizes = {buffer.name: _bytes(buffer) for buffer in schedule.buffers if buffer.role == "temporary"}
    if sum(sizes.values()) < least:
        return schedule
    steps = _ordered(schedule.steps, sizes, _takers(schedule.buffers, donate), least)
    return replace(schedule, steps=steps)


def checks_first(schedule: Schedule, donate: Sequence[int | tuple[int, int]]) -> Schedule:
    """The schedule with what can raise, and what that needs, first, where inputs are copied to outputs to be written.

    Everything else, and those among themselves, are in the order in which they are. ``donate`` is what ``plan_memory``
    takes.
    """
    takers = _takers(schedule.buffers, donate)
    copies = filter(None, map(copied, schedule.steps))
    if not any(source in takers.get(target, ()) for source, target in copies):
        return schedule
    uses = [_uses((step,)) for step in schedule.steps]
    behind = _dependencies(uses, takers)
    first = [one.is_effect for one in uses]
    for i in reversed(range(len(uses))):
        if first[i]:
            for before in behind[i]:
                first[before] = True
    order = sorted(range(len(uses)), key=lambda i: not first[i])
    return replace(schedule, steps=tuple(_each_check_once([schedule.steps[i] for i in order])))


def _each_check_once(steps: Sequence[Step]) -> Iterator[Step]:
    """The steps without launches that only check, of what one before them has checked."""
    checked: list[Launch] = []
    for step in steps:
        uses = _uses((step,))
        if isinstance(step, Launch) and not uses.writes:
            if any(step.kernel == one.kernel and step.buffers == one.buffers for one in checked):
                continue
            checked.append(step)
        else:
            checked = [one for one in checked if uses.writes.isdisjoint(one.buffers)]
        yield step


def peak_bytes(steps: Sequence[Step], sizes: Mapping[str, int]) -> int:
    """The greatest sum of the ``sizes`` of buffers alive during one of ``steps``, each from its first to its last use.

    The steps inside loops and branches count as one with theirs.
    """
    return _peak([_uses((step,)) for step in steps], range(len(steps)), sizes)


def _bytes(buffer: ScheduleBuffer) -> int:
    return max(0, dims.assumed(buffer.bytes))


def _takers(buffers: Sequence[ScheduleBuffer], donate: Sequence[int | tuple[int, int]]) -> dict[str, set[str]]:
    """For each output that may take over memory the inputs that it may be that of."""
    inputs = {buffer.position: buffer for buffer in buffers if buffer.role == "input"}
    outputs = {buffer.position: buffer for buffer in buffers if buffer.role == "output"}
    donors: dict[str, set[str]] = {}
    for wish in donate:
        donor = inputs[wish if isinstance(wish, int) else wish[1]]
        takers = outputs.values() if isinstance(wish, int) else (outputs[wish[0]],)
        for taker in takers:
            if taker.type == donor.type:
                donors.setdefault(taker.name, set()).add(donor.name)
    return donors


def _ordered(
    steps: Sequence[Step], sizes: Mapping[str, int], takers: Mapping[str, set[str]], least: int
) -> tuple[Step, ...]:
    inner = [_with_inner(step, sizes, takers, least) for step in steps]
    uses = [_uses((step,)) for step in inner]
    own = _own_sizes(uses, sizes)
    if len(inner) < 3 or sum(own.values()) < least:
        return tuple(inner)
    order = _listed(uses, _dependencies(uses, takers), own, least // (4 * len(uses)))
    if _peak(uses, order, own) > _peak(uses, range(len(uses)), own) - least:
        return tuple(inner)
    return tuple([inner[i] for i in order])


def _with_inner(step: Step, sizes: Mapping[str, int], takers: Mapping[str, set[str]], least: int) -> Step:
    match step:
        case Branch(predicate, then, otherwise):
            sides = [_inner(side, sizes, takers, least) for side in (then, otherwise)]
            return Branch(predicate, sides[0], sides[1])
        case While(condition, predicate, body):
            return replace(
                step,
                condition=_inner(condition, sizes, takers, least),
                body=_inner(body, sizes, takers, least, {predicate, *_uses(condition).all}),
            )
    return step


def _inner(
    steps: Sequence[Step],
    sizes: Mapping[str, int],
    takers: Mapping[str, set[str]],
    least: int,
    outside: set[str] | None = None,
) -> tuple[Step, ...]:
    """Steps of a loop or branch: what they read before they write it is alive before and behind them."""
    alive = set(outside or ())
    written: set[str] = set()
    for step in steps:
        uses = _uses((step,))
        alive |= uses.reads - written
        written |= uses.writes
    return _ordered(steps, {name: size for name, size in sizes.items() if name not in alive}, takers, least)


def _own_sizes(uses: Sequence[_Uses], sizes: Mapping[str, int]) -> dict[str, int]:
    used: set[str] = set().union(*(one.all for one in uses))
    return {name: sizes[name] for name in used if name in sizes}


def _uses(steps: Sequence[Step]) -> _Uses:
    uses = _Uses()
    for step in steps:
        match step:
            case Launch(kernel, buffers):
                for param, buffer in zip(kernel.params, buffers, strict=True):
                    if "read" in param.access:
                        uses.reads.add(buffer)
                    if "write" in param.access:
                        uses.writes.add(buffer)
                uses.is_effect |= any(isinstance(s, CheckStatement) for s in statements_of(kernel.body))
                continue
            case Branch(predicate, then, otherwise):
                parts = [_uses(then), _uses(otherwise)]
                uses.reads.add(predicate)
            case While(condition, predicate, body):
                parts = [_uses(condition), _uses(body)]
                uses.reads.add(predicate)
            case Push(_, buffer):
                parts = []
                uses.reads.add(buffer)
            case Pop(_, buffer):
                parts = []
                uses.writes.add(buffer)
            case PrintStep(_, buffers):
                parts = []
                uses.reads.update(buffers)
            case HostStep(_, reads, writes):
                parts = []
                uses.reads.update(reads)
                uses.writes.update(writes)
            case Exchange(buffers, _):
                parts = []
                uses.reads.update(buffers)
                uses.writes.update(buffers)
        for part in parts:
            uses.reads |= part.reads
            uses.writes |= part.writes
        uses.is_effect = True
    return uses


def _dependencies(uses: Sequence[_Uses], takers: Mapping[str, set[str]]) -> list[set[int]]:
    """For each step the earlier ones that it stays behind."""
    behind: list[set[int]] = []
    writer: dict[str, int] = {}
    readers: dict[str, set[int]] = {}  # since the last write
    effect: int | None = None
    for i, one in enumerate(uses):
        before = {writer[name] for name in one.all if name in writer}
        for name in one.writes:
            before |= readers.get(name, set())
            for donor in takers.get(name, ()):
                before |= readers.get(donor, set())
            if effect is not None and name in takers:
                before.add(effect)
        if one.is_effect and effect is not None:
            before.add(effect)
        before.discard(i)
        behind.append(before)
        for name in one.writes:
            writer[name] = i
            readers[name] = set()
        for name in one.reads:
            readers.setdefault(name, set()).add(i)
        if one.is_effect:
            effect = i
    return behind


def _listed(uses: Sequence[_Uses], behind: Sequence[set[int]], sizes: Mapping[str, int], small: int) -> list[int]:
    """The steps by number in a new order; taking up to ``small`` bytes counts as taking none."""
    temporary = [one.all & sizes.keys() for one in uses]
    remaining: dict[str, set[int]] = {}
    for i, names in enumerate(temporary):
        for name in names:
            remaining.setdefault(name, set()).add(i)
    alive: set[str] = set()
    waiting = [len(before) for before in behind]
    followers: dict[int, list[int]] = {}
    for i, before in enumerate(behind):
        for j in before:
            followers.setdefault(j, []).append(i)

    def frees(i: int) -> bool:
        """Whether the step takes little, or less than it is the last to use."""
        taken = sum(sizes[name] for name in temporary[i] if name not in alive)
        return taken <= small or taken < sum(sizes[name] for name in temporary[i] if len(remaining[name]) == 1)

    ready: list[int] = []
    freeing: list[int] = []
    done = [False] * len(uses)

    def offer(i: int) -> None:
        heapq.heappush(ready, i)
        if frees(i):
            heapq.heappush(freeing, i)

    for i, count in enumerate(waiting):
        if not count:
            offer(i)
    order: list[int] = []
    while len(order) < len(uses):
        i = heapq.heappop(freeing or ready)
        if done[i]:
            continue
        done[i] = True
        order.append(i)
        for name in temporary[i]:
            users = remaining[name]
            users.discard(i)
            came_alive = name not in alive
            alive.add(name)
            if len(users) == 1 or (came_alive and users):
                # what uses it may take or free less or more now; a buffer comes alive once
                for user in users:
                    if not waiting[user] and not done[user] and frees(user):
                        heapq.heappush(freeing, user)
        for j in followers.get(i, ()):
            waiting[j] -= 1
            if not waiting[j]:
                offer(j)
    return order


def _peak(uses: Sequence[_Uses], order: Sequence[int], sizes: Mapping[str, int]) -> int:
    last: dict[str, int] = {}
    for position, i in enumerate(order):
        last.update(dict.fromkeys(uses[i].all & sizes.keys(), position))
    ends: dict[int, int] = {}
    for name, position in last.items():
        ends[position] = ends.get(position, 0) + sizes[name]
    alive = peak = 0
    begun: set[str] = set()
    for position, i in enumerate(order):
        new = (uses[i].all & sizes.keys()) - begun
        begun |= new
        alive += sum(sizes[name] for name in new)
        peak = max(peak, alive)
        alive -= ends.get(position, 0)
    return peak
