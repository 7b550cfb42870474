"""Copies in loops become exchanges of memory where what is copied is wanted in one buffer alone.

``a, b = b, f(a)`` gives a turn's values to the next one by copies of whole arrays, as each carry lives in a buffer. But
``b`` is wanted no more where its value has become that of ``a``, so that ``a`` may take its memory, and ``b`` that of
what the turn computed: a step ``Exchange`` of three buffers, which moves no byte. Rotations of any number of buffers,
exchanges in a branch, and an array that each turn computes anew are the same.

A run of copies is taken as one: what each buffer that is wanted behind it then contains, by what buffers contained
before. Where a value goes to one buffer, is wanted in no other, and both are temporaries of one size, the buffer takes
the other's memory. What is left is copied behind the exchanges, in an order in which no copy overwrites what another
one reads; a cycle of copies goes by way of a buffer more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from jitgraph.codegen.kernels.schedule import (
    Branch,
    Exchange,
    HostStep,
    Launch,
    ParallelCopy,
    Pop,
    PrintStep,
    Push,
    Schedule,
    ScheduleBuffer,
    Step,
    While,
)
from jitgraph.codegen.kernels.steps import copied

LEAST_BYTES: Final = 256
"""Of buffers that exchange their memory: what is smaller lies in registers, or is copied as fast as it is found."""

Names = frozenset[str]


def exchange_copies(schedule: Schedule) -> Schedule:
    """``schedule`` with exchanges of memory in place of copies in loops, and without parallel copies."""
    rewriter = _ExchangeRewriter(schedule)
    outputs = frozenset(buffer.name for buffer in schedule.buffers if buffer.role == "output")
    steps = rewriter.steps(schedule.steps, outputs, looping=False)
    buffers = (*schedule.buffers, *rewriter.added)
    return replace(schedule, steps=steps, buffers=buffers) if rewriter.changed else schedule


class _ExchangeRewriter:
    def __init__(self, schedule: Schedule) -> None:
        self.buffers = {buffer.name: buffer for buffer in schedule.buffers}
        self.added: list[ScheduleBuffer] = []
        self.changed = False

    def steps(self, steps: Sequence[Step], live: Names, *, looping: bool) -> tuple[Step, ...]:
        """The steps rewritten, where the values of ``live`` are wanted behind them."""
        result: list[Step] = []
        position = len(steps)
        while position:
            run: list[Step] = []
            behind = live
            while position and _is_copying(steps[position - 1]):
                position -= 1
                run.insert(0, steps[position])
                live = _live_before(steps[position], live)
            if run:
                result += reversed(self._run(run, behind, looping=looping))
                continue
            position -= 1
            step = steps[position]
            result.append(self._inner(step, live, looping=looping))
            live = _live_before(step, live)
        return tuple(reversed(result))

    def _inner(self, step: Step, live: Names, *, looping: bool) -> Step:
        match step:
            case Branch(predicate, then, otherwise):
                sides = [self.steps(side, live, looping=looping) for side in (then, otherwise)]
                return Branch(predicate, sides[0], sides[1])
            case While(condition, predicate, body):
                head = _live_before(step, live)
                decided = live | {predicate} | _live_before_all(body, head)
                asking = self.steps(condition, decided, looping=True)
                return replace(step, condition=asking, body=self.steps(body, head, looping=True))
        return step

    def _run(self, run: Sequence[Step], live: Names, *, looping: bool) -> list[Step]:
        """The steps for a run of copies, where ``live`` is wanted behind it."""
        moves, kernels = _moves(run, live)
        exchanges = list(self._exchanges(moves, live)) if looping else []
        if not exchanges and not any(isinstance(step, ParallelCopy) for step in run):
            return list(run)
        self.changed = True
        moved_to = {name: name for name in {*moves, *moves.values()}}
        for exchange in exchanges:
            names = exchange.buffers
            moved_to |= dict(zip((*names[1:], names[0]), names, strict=True))
        taken = {target for target, source in moves.items() if moved_to[source] == target}
        left = {target: moved_to[source] for target, source in moves.items() if target not in taken}
        return [*exchanges, *self._in_order(left, kernels)]

    def _exchanges(self, moves: Mapping[str, str], live: Names) -> Iterator[Exchange]:
        taken: dict[str, str] = {}  # for each source the buffer that takes its memory
        for target, source in moves.items():
            is_live = source in live and source not in moves
            if source not in taken and not is_live and self._may_exchange(target, source):
                taken[source] = target
        sources = {target: source for source, target in taken.items()}
        while sources:
            names = [next((name for name in sources if name not in taken), next(iter(sources)))]
            while names[-1] in sources:
                source = sources.pop(names[-1])
                if source != names[0]:
                    names.append(source)
            yield Exchange(tuple(names), self.buffers[names[0]].bytes)

    def _may_exchange(self, target: str, source: str) -> bool:
        one, other = self.buffers[target], self.buffers[source]
        roles = one.role == other.role == "temporary"
        return roles and one.bytes == other.bytes and (not isinstance(one.bytes, int) or one.bytes >= LEAST_BYTES)

    def _in_order(self, moves: Mapping[str, str], kernels: Mapping[str, Launch]) -> Iterator[Launch]:
        """Copies that do all ``moves`` as if at once."""
        left = dict(moves)
        while left:
            needed = {source for target, source in left.items() if source != target}
            free = [target for target in left if target not in needed]
            for target in free:
                yield replace(kernels[target], buffers=(left.pop(target), target))
            if left and not free:  # cycles are left: one target's value goes by way of a buffer more
                target = next(iter(left))
                aside = replace(self.buffers[target], name=f"{target}_aside{len(self.added)}", role="temporary")
                self.added.append(aside)
                self.buffers[aside.name] = aside
                reader = next(one for one, source in left.items() if source == target)
                yield replace(kernels[reader], buffers=(target, aside.name))
                left = {one: aside.name if source == target else source for one, source in left.items()}


def _is_copying(step: Step) -> bool:
    return isinstance(step, ParallelCopy) or copied(step) is not None


def _moves(run: Iterable[Step], live: Names) -> tuple[dict[str, str], dict[str, Launch]]:
    """For each buffer that is written and wanted then, the one whose value it takes, and a launch that copies so."""
    contents: dict[str, str] = {}
    kernels: dict[str, Launch] = {}
    for step in run:
        copies = step.copies if isinstance(step, ParallelCopy) else (step,)
        new = {}
        for copy in copies:
            assert isinstance(copy, Launch)
            source, target = copy.buffers
            new[target] = contents.get(source, source)
            kernels[target] = copy
        contents |= new
    return {target: source for target, source in contents.items() if target in live and target != source}, kernels


def _live_before_all(steps: Sequence[Step], live: Names) -> Names:
    for step in reversed(steps):
        live = _live_before(step, live)
    return live


def _live_before(step: Step, live: Names) -> Names:
    """What is wanted before a step, where ``live`` is behind it."""
    match step:
        case Launch(kernel, buffers):
            params = list(zip(kernel.params, buffers, strict=True))
            replaced = frozenset(name for param, name in params if param.access == "write")
            return (live - replaced) | frozenset(name for param, name in params if param.access != "write")
        case ParallelCopy(copies):
            pairs = [copy.buffers for copy in copies]
            return (live - {target for _, target in pairs}) | {source for source, _ in pairs}
        case Branch(predicate, then, otherwise):
            return _live_before_all(then, live) | _live_before_all(otherwise, live) | {predicate}
        case While(condition, predicate, body):
            head: Names = frozenset()
            while True:
                before = _live_before_all(condition, live | {predicate} | _live_before_all(body, head))
                if before <= head:
                    return head
                head |= before
        case Push(_, buffer):
            return live | {buffer}
        case Pop(_, buffer):
            return live - {buffer}
        case PrintStep(_, buffers):
            return live | {*buffers}
        case HostStep(_, reads, writes):
            return (live - {*writes}) | {*reads}
        case Exchange(buffers, _):
            moved = dict(zip(buffers, (*buffers[1:], buffers[0]), strict=True))
            return frozenset(moved.get(name, name) for name in live)
    raise AssertionError(step)
