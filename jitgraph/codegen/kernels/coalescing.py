"""Copy coalescing: buffers that a copy joins become one, or exchange their memory, where no wanted value is lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from jitgraph.codegen.kernels.aliasing import aliasing_pairs
from jitgraph.codegen.kernels.kernel import Loop
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
    copied,
    exchanged_together,
)
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# Copies in loops become exchanges of memory where what is copied is wanted in one buffer alone.
#
# ``a, b = b, f(a)`` gives a turn's values to the next one by copies of whole arrays, as each carry lives in a buffer.
# But ``b`` is wanted no more where its value has become that of ``a``, so that ``a`` may take its memory, and ``b``
# that of what the turn computed: a step ``Exchange`` of three buffers, which moves no byte. Rotations of any number of
# buffers, exchanges in a branch, and an array that each turn computes anew are the same.
#
# A run of copies is taken as one: what each buffer that is wanted behind it then contains, by what buffers contained
# before. Where a value goes to one buffer, is wanted in no other, and both are temporaries of one size, the buffer
# takes the other's memory. What is left is copied behind the exchanges, in an order in which no copy overwrites what
# another one reads; a cycle of copies goes by way of a buffer more.

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


# ----------------------------------------------------------------------
# Copy coalescing: two buffers that a copy joins become one where neither is written while the other's value is wanted.
#
# Lowering copies freely: the first value of a carry to where the carry lives, what a turn gives back to it, what a
# branch gives to its result, the operand of a partial write to the result. Here the schedule is searched for copies
# that can be done without. What remains of a write of one element is then a store, at whatever depth of loops and
# branches.
#
# Two buffers interfere where one is written while the other holds a value that is wanted later, but for a copy of one
# to the other: then both hold the same. A kernel that reads the one and writes the other may have both in one memory
# where it can work in place (``aliasing_pairs``). Classes of buffers that do not interfere merge along the copies,
# those of the innermost loops first. After G. J. Chaitin et al., "Register allocation via coloring" (1981).
#
# ``coalescing_verifier`` proves each result by other means.


@dataclass(frozen=True, slots=True)
class Coalesced:
    """A schedule without the copies that it can do without, and the name that each buffer goes by in it."""

    schedule: Schedule
    names: Mapping[str, str]


def coalesce_copies(schedule: Schedule) -> Coalesced:
    """``schedule`` with buffers merged along copies, and the copies of a buffer to itself left out.

    Copies that stay in loops are replaced by exchanges of memory (``coalescing.py``). What exchanges its memory is not
    the caller's: it is found first which buffers do where no buffer is merged with an output.
    """
    copies = sorted(_copies(schedule.steps, 0), key=lambda copy: -copy[0])
    if not copies:
        return Coalesced(_without_unused(schedule), {})
    classes = _Classes(schedule, copies)
    classes.interference(schedule.steps)
    exchanged: list[str] = []
    if copies[0][0]:  # there are loops
        names = classes.merged(copies, classes.number)
        together = frozenset[str]().union(*exchanged_together(_coalesced(schedule, names).steps))
        exchanged = [name for name in classes.number if names.get(name, name) in together]
    names = classes.merged(copies, exchanged)
    return Coalesced(_coalesced(schedule, names), names)


def _coalesced(schedule: Schedule, names: Mapping[str, str]) -> Schedule:
    steps = _renamed(schedule.steps, names) if names else schedule.steps
    return _without_unused(exchange_copies(replace(schedule, steps=steps)))


def _copies(steps: Iterable[Step], depth: int) -> Iterator[tuple[int, str, str]]:
    """Every copy of one buffer to another, with the number of loops around it."""
    for step in steps:
        match step:
            case Branch(_, then, otherwise):
                yield from _copies((*then, *otherwise), depth)
            case While(condition, _, body):
                yield from _copies((*condition, *body), depth + 1)
            case ParallelCopy(parts):
                yield from _copies(parts, depth)
            case _:
                pair = copied(step)
                if pair is not None and pair[0] != pair[1]:
                    yield depth, *pair


@dataclass
class _Use:
    """What one step reads and writes of the buffers that copies join, as sets of bits."""

    reads: int = 0
    writes: int = 0
    whole: int = 0  # of what is written, that of which nothing remains
    in_place: tuple[tuple[int, int], ...] = ()  # pairs written, read that may be one memory
    copies: tuple[tuple[int, int], ...] = ()  # pairs written, read of which the first becomes what the second is
    at_once: bool = False  # all is read before anything is written


class _Classes:
    """The buffers that copies join, by number, and which of them interfere; sets of buffers are bits of an int."""

    def __init__(self, schedule: Schedule, copies: Sequence[tuple[int, str, str]]) -> None:
        targets = [target for _, _, target in copies]
        joined = dict.fromkeys((*targets, *(source for _, source, _ in copies)))
        self.number = {name: i for i, name in enumerate(joined)}
        self.buffers = {buffer.name: buffer for buffer in schedule.buffers if buffer.name in joined}
        self.root = list(range(len(joined)))
        self.members = [1 << i for i in range(len(joined))]
        self.meets = [0] * len(joined)
        self.computed = 0  # those that something else than a copy writes
        self.sources = [0] * len(joined)  # the buffers that are copied to this one
        self.uses: dict[int, _Use] = {}
        self.outputs = self._bits(name for name, buffer in self.buffers.items() if buffer.role == "output")
        self.given = self._bits(name for name, buffer in self.buffers.items() if buffer.role in ("input", "constant"))
        self.private = 0  # those that are not merged with memory of the caller

    def _bits(self, names: Iterable[str]) -> int:
        bits = 0
        for name in names:
            number = self.number.get(name)
            if number is not None:
                bits |= 1 << number
        return bits

    # --- who interferes with whom

    def interference(self, steps: Sequence[Step]) -> None:
        """Walk the steps back, with the buffers whose values are wanted."""
        self._steps(steps, self.outputs, self.given)

    def _steps(self, steps: Sequence[Step], live: int, filled: int) -> int:
        """What is wanted before ``steps``, of which ``live`` is behind them; ``filled`` may hold a value before."""
        before = []
        for step in steps:
            before.append(filled)
            filled |= self._written(step)
        for step, filled_before in zip(reversed(steps), reversed(before), strict=True):
            live = self._step(step, live, filled_before)
        return live

    def _step(self, step: Step, live: int, filled: int) -> int:
        match step:
            case Branch(predicate, then, otherwise):
                sides = self._steps(then, live, filled) | self._steps(otherwise, live, filled)
                return sides | self._bits((predicate,))
            case While(condition, predicate, body):
                filled |= self._written(step)
                decides = self._bits((predicate,))
                turn = 0
                while True:
                    before = self._steps(condition, live | turn | decides, filled)
                    again = turn | self._steps(body, before, filled)
                    if again == turn:
                        return before
                    turn = again
        use = self._use(step)
        writes = use.writes
        while writes:
            one = writes & -writes
            writes ^= one
            copied_from = sum({read for written, read in use.copies if written == one})
            conflicts = (live & filled & ~copied_from) | (use.writes & ~one)
            if not use.at_once:
                in_place = sum({read for written, read in use.in_place if written == one})
                conflicts |= use.reads & ~(copied_from | in_place)
            self._meet(one, conflicts & ~one)
        return (live & ~use.whole) | use.reads

    def _meet(self, one: int, others: int) -> None:
        number = one.bit_length() - 1
        new = others & ~self.meets[number]
        self.meets[number] |= new
        while new:
            other = new & -new
            new ^= other
            self.meets[other.bit_length() - 1] |= one

    def _written(self, step: Step) -> int:
        match step:
            case Branch(_, then, otherwise):
                inner: tuple[Step, ...] = (*then, *otherwise)
            case While(condition, _, body):
                inner = (*condition, *body)
            case _:
                return self._use(step).writes
        written = 0
        for one in inner:
            written |= self._written(one)
        return written

    def _use(self, step: Step) -> _Use:
        known = self.uses.get(id(step))
        if known is None:
            known = self.uses[id(step)] = self._use_of(step)
        return known

    def _use_of(self, step: Step) -> _Use:
        match step:
            case Launch():
                return self._launch(step)
            case ParallelCopy(copies):
                uses = [self._launch(copy) for copy in copies]
                reads = writes = 0
                for use in uses:
                    reads, writes = reads | use.reads, writes | use.writes
                pairs = tuple(pair for use in uses for pair in use.copies)
                return _Use(reads, writes, writes, copies=pairs, at_once=True)
            case Push(_, buffer):
                return _Use(reads=self._bits((buffer,)))
            case Pop(_, buffer):
                written = self._bits((buffer,))
                self.computed |= written
                return _Use(writes=written, whole=written)
            case PrintStep(_, buffers):
                return _Use(reads=self._bits(buffers))
            case HostStep(_, reads, writes):
                written = self._bits(writes)
                self.computed |= written
                return _Use(self._bits(reads), written, written)
        raise AssertionError(step)

    def _launch(self, launch: Launch) -> _Use:
        kernel = launch.kernel
        pairs = list(zip(kernel.params, launch.buffers, strict=True))
        reads = self._bits(name for param, name in pairs if param.access != "write")
        writes = self._bits(name for param, name in pairs if param.access != "read")
        copy = copied(launch)
        if copy is not None:
            target = self.number.get(copy[1])
            source = self._bits((copy[0],))
            if target is not None:
                self.sources[target] |= source
            return _Use(reads, writes, writes, copies=((writes, source),) if writes and source else ())
        self.computed |= writes
        in_place = tuple(self._in_place(launch)) if reads and writes else ()
        return _Use(reads, writes, writes & ~reads, in_place)

    def _in_place(self, launch: Launch) -> Iterator[tuple[int, int]]:
        kernel = launch.kernel
        positions = {param.name: number for number, param in enumerate(kernel.params)}
        looping = any(isinstance(statement, Loop) for statement in kernel.body)
        for written, read in aliasing_pairs(kernel):
            names = [launch.buffers[positions[param]] for param in (written, read)]
            if any(name not in self.number or launch.buffers.count(name) != 1 for name in names):
                continue
            if looping and kernel.params[positions[read]].size == 1:
                continue  # what stands before a loop may be read once by each of many threads
            yield self._bits(names[:1]), self._bits(names[1:])

    # --- merging

    def merged(self, copies: Sequence[tuple[int, str, str]], private: Iterable[str]) -> dict[str, str]:
        """The names that buffers go by once merged along copies in this order, ``private`` with no output."""
        known = self.root, self.members, self.meets, self.sources
        self.root, self.members, self.meets, self.sources = map(list, known)
        self.private = self._bits(private) & ~self.outputs & ~self.given
        for _, source, target in copies:
            self.merge(source, target)
        names = self.names()
        self.root, self.members, self.meets, self.sources = known
        return names

    def _find(self, number: int) -> int:
        while self.root[number] != number:
            number = self.root[number]
        return number

    def merge(self, source: str, target: str) -> None:
        """Make one class of those of two buffers, where the classes do not interfere and their memory may be one."""
        left, right = self._find(self.number[source]), self._find(self.number[target])
        if left == right or self.meets[left] & self.members[right]:
            return
        members = self.members[left] | self.members[right]
        if not self._may_be_one(members, self.sources[left] | self.sources[right]):
            return
        self.root[right] = left
        self.members[left] = members
        self.meets[left] |= self.meets[right]
        self.sources[left] |= self.sources[right]

    def _may_be_one(self, members: int, sources: int) -> bool:
        """Whether memory of the caller is at most one of them, and an input or constant is written by no one."""
        if (members & (self.given | self.outputs)).bit_count() > 1:
            return False
        if members & self.outputs and members & self.private:
            return False
        return not members & self.given or not (members & self.computed or sources & ~members)

    def names(self) -> dict[str, str]:
        """For each buffer that goes by another's name, that name: the caller's memory, or else the first copied to."""
        chosen: dict[int, str] = {}
        for name, number in self.number.items():
            root = self._find(number)
            if root not in chosen or self.buffers[name].role != "temporary":
                chosen[root] = name
        new_names = {name: chosen[self._find(number)] for name, number in self.number.items()}
        return {name: new for name, new in new_names.items() if new != name}


def _renamed(steps: Sequence[Step], names: Mapping[str, str]) -> tuple[Step, ...]:
    """The steps with buffers by their new names, without the copies of a buffer to itself."""
    result: list[Step] = []
    for step in steps:
        match step:
            case Launch():
                launch = _renamed_launch(step, names)
                if launch is not None:
                    result.append(launch)
            case Branch(predicate, then, otherwise):
                sides = _renamed(then, names), _renamed(otherwise, names)
                if sides[0] or sides[1]:
                    result.append(Branch(names.get(predicate, predicate), *sides))
            case While(condition, predicate, body):
                asking, turning = _renamed(condition, names), _renamed(body, names)
                result.append(replace(step, condition=asking, predicate=names.get(predicate, predicate), body=turning))
            case ParallelCopy(copies):
                left = [launch for launch in (_renamed_launch(copy, names) for copy in copies) if launch is not None]
                if left:
                    result.append(ParallelCopy(tuple(left)))
            case Push(_, buffer) | Pop(_, buffer):
                result.append(replace(step, buffer=names.get(buffer, buffer)))
            case PrintStep(_, buffers):
                result.append(replace(step, buffers=tuple(names.get(name, name) for name in buffers)))
            case HostStep(_, reads, writes):
                reads, writes = (tuple(names.get(name, name) for name in some) for some in (reads, writes))
                result.append(replace(step, reads=reads, writes=writes))
    return tuple(result)


def _renamed_launch(launch: Launch, names: Mapping[str, str]) -> Launch | None:
    buffers = tuple(names.get(name, name) for name in launch.buffers)
    if buffers == launch.buffers:
        return launch
    if copied(launch) is not None and buffers[0] == buffers[1]:
        return None
    kernel = launch.kernel
    params = list(zip(kernel.params, buffers, strict=True))
    pairs = {
        (written.name, read.name)
        for written, to in params
        if written.access != "read"
        for read, source in params
        if read.access != "write" and read is not written and to == source
    }
    if pairs:
        kernel = replace(kernel, aliases=tuple(sorted({*kernel.aliases, *pairs})))
    return replace(launch, kernel=kernel, buffers=buffers)


def _without_unused(schedule: Schedule) -> Schedule:
    """The schedule without the temporaries that no step uses."""
    used = set(_mentioned(schedule.steps))
    retained = tuple(buffer for buffer in schedule.buffers if buffer.role != "temporary" or buffer.name in used)
    return schedule if len(retained) == len(schedule.buffers) else replace(schedule, buffers=retained)


def _mentioned(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        match step:
            case Launch(_, buffers) | PrintStep(_, buffers):
                yield from buffers
            case HostStep():
                yield from step.buffers
            case Branch(predicate, then, otherwise):
                yield predicate
                yield from _mentioned((*then, *otherwise))
            case While(condition, predicate, body):
                yield predicate
                yield from _mentioned((*condition, *body))
            case ParallelCopy(copies):
                yield from _mentioned(copies)
            case Exchange(buffers, _):
                yield from buffers
            case Push(_, buffer) | Pop(_, buffer):
                yield buffer
