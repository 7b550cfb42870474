"""Proof that a coalesced schedule computes what the schedule with all of its copies does.

Both schedules are walked at once, forwards, and what each buffer contains gets a number: a launch that writes gives a
new one, a copy passes one on, and where control flow joins a buffer that contains one of two gets one for the pair. At
the head of a loop buffers contain one value as long as nothing shows otherwise: they are told apart by their contents
before the loop and after a turn, until that tells no more of them apart. Every step has to read the same numbers in
both.

Liveness is asked nowhere, and nothing but the form of schedules is shared with ``coalescing``, so that a fault of the
one does not hide in the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jitgraph.codegen.kernels.aliasing import aliasing_pairs
from jitgraph.codegen.kernels.kernel import Kernel, Load, Loop, Store, statements_of
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
    Step,
    While,
)
from jitgraph.errors import GraphError

Values = dict[tuple[bool, str], int]
"""The number of what a buffer contains: of the schedule with all copies, or (True) of the coalesced one."""

_UNDEFINED: Final = 0  # in the schedule with all copies: whatever the other one contains


def verify_coalescing(before: Schedule, after: Schedule, names: Mapping[str, str]) -> None:
    """GraphError, naming step and buffer, unless ``after`` is ``before`` by the ``names`` of its buffers, as proved."""
    prover = _Prover(before.name, names, {("undefined",): _UNDEFINED})
    values: Values = {}
    for new in (False, True):
        for buffer in before.buffers:
            if buffer.role in ("input", "constant"):
                values[new, buffer.name] = prover.number("given", buffer.name)
            else:
                values[new, buffer.name] = prover.number("memory of", buffer.name) if new else _UNDEFINED
    roles = {buffer.name: buffer.role for buffer in (*after.buffers, *before.buffers)}
    for name, role in roles.items():
        if role != "temporary" and name in names:
            raise GraphError(f"{before.name}: {name}, the caller's memory, goes by the name {names[name]}")
    for name in sorted(_written(after.steps)):
        if roles[name] in ("input", "constant"):
            raise GraphError(f"{before.name}: the {roles[name]} {name} is written")
    for buffer in after.buffers:
        values.setdefault((True, buffer.name), prover.number("memory of", buffer.name))
    prover.steps(before.steps, after.steps, values, ())
    for name, role in roles.items():
        if role == "output":
            prover.same("the caller", name, name, values)


class _Prover:
    def __init__(self, name: str, names: Mapping[str, str], numbers: dict[tuple[Any, ...], int]) -> None:
        self.name = name
        self.names = names
        self.numbers = numbers

    def number(self, *what: Any) -> int:
        """One number for one description of contents."""
        return self.numbers.setdefault(what, len(self.numbers))

    def same(self, what: str, old: str, new: str, values: Values) -> None:
        """Require that a step reads one value in both schedules."""
        if values[False, old] not in (_UNDEFINED, values[True, new]):
            raise GraphError(f"{self.name}: {what} reads {new}, which does not contain the value of {old}")

    def steps(self, before: Sequence[Step], after: Sequence[Step], values: Values, at: tuple[int, ...]) -> None:
        """Walk both, changing ``values``; ``at`` is where the steps stand.

        What moves contents alone needs no counterpart: a copy, and an exchange of memory.
        """
        rest = list(reversed(after))
        for position, step in enumerate(before):
            here = (*at, position)
            if self._moves(step, values, new=False):
                continue
            while rest and self._moves(rest[-1], values, new=True):
                rest.pop()
            if self._vanishes(step):
                self._step(step, step, values, here, copies_alone=True)
            elif rest:
                self._step(step, rest.pop(), values, here)
            else:
                raise GraphError(f"{self.name}: a step is missing behind the last")
        while rest and self._moves(rest[-1], values, new=True):
            rest.pop()
        if rest:
            raise GraphError(f"{self.name}: there is a step more than before")

    def _moves(self, step: Step, values: Values, *, new: bool) -> bool:
        """Whether a step of one schedule moves contents from buffer to buffer and does nothing else; does it."""
        match step:
            case Launch(kernel, (source, target)) if _copies_all(kernel):
                pairs = [(source, target)]
            case ParallelCopy(copies) if not new and all(_copies_all(copy.kernel) for copy in copies):
                pairs = [(copy.buffers[0], copy.buffers[1]) for copy in copies]
            case Exchange(names, _):
                pairs = list(zip((*names[1:], names[0]), names, strict=True))
            case _:
                return False
        values |= {(new, target): contents for target, contents in [(b, values[new, a]) for a, b in pairs]}
        return True

    def _vanishes(self, step: Step) -> bool:
        """Whether a step is a copy of a buffer to itself by its new name, or a branch with no more than such copies."""
        match step:
            case Launch(kernel, (source, target)):
                return self.names.get(source, source) == self.names.get(target, target) and _copies_all(kernel)
            case ParallelCopy(copies):
                return all(map(self._vanishes, copies))
            case Branch(_, then, otherwise):
                return all(map(self._vanishes, (*then, *otherwise)))
        return False

    def _step(self, old: Step, new: Step, values: Values, at: tuple[int, ...], *, copies_alone: bool = False) -> None:
        match old, new:
            case Launch(), Launch():
                self._launch(old, new, values, at)
            case Branch(predicate, then, otherwise), Branch():
                if not copies_alone:
                    self.same("a branch", predicate, new.predicate, values)
                left, right = dict(values), dict(values)
                self.steps(then, () if copies_alone else new.then, left, (*at, 0))
                self.steps(otherwise, () if copies_alone else new.otherwise, right, (*at, 1))
                self._settle(left)
                self._settle(right)
                for key in values:
                    one, other = left[key], right[key]
                    values[key] = one if one == other else self.number("either", at, one, other)
            case While(), While():
                self._loop(old, new, values, at)
            case (Push(stack, a), Push(other, b)) if stack == other:
                self.same("a push", a, b, values)
            case (Pop(stack, a), Pop(other, b)) if stack == other:
                values[False, a] = values[True, b] = self.number("popped", at)
            case (PrintStep(site, shown), PrintStep(other, others)) if site == other:
                for a, b in zip(shown, others, strict=True):
                    self.same("a print", a, b, values)
            case (HostStep(site), HostStep(other)) if site == other:
                for a, b in zip(old.reads, new.reads, strict=True):
                    self.same("a call of Python", a, b, values)
                if len({*new.writes}) < len(new.writes) or not {*new.writes}.isdisjoint(new.reads):
                    raise GraphError(f"{self.name}: a call of Python is given one buffer twice")
                for index, (a, b) in enumerate(zip(old.writes, new.writes, strict=True)):
                    values[False, a] = values[True, b] = self.number("called", at, index)
            case _:
                raise GraphError(f"{self.name}: {type(old).__name__} has become {type(new).__name__}")

    def _launch(self, old: Launch, new: Launch, values: Values, at: tuple[int, ...]) -> None:
        kernel = new.kernel
        if (old.kernel.body, old.kernel.params) != (kernel.body, kernel.params):
            raise GraphError(f"{self.name}: the kernel {old.kernel.name} has become {kernel.name}")
        params = list(zip(kernel.params, old.buffers, new.buffers, strict=True))
        for param, a, b in params:
            if param.access != "write":
                self.same(kernel.name, a, b, values)
        written = {param.name: b for param, _, b in params if param.access != "read"}
        for name, buffer in written.items():
            for param, _, b in params:
                if b != buffer or param.name == name:
                    continue
                pair = name, param.name
                if param.name in written or pair not in kernel.aliases or pair not in aliasing_pairs(kernel):
                    raise GraphError(f"{self.name}: {kernel.name} is given {b} twice and cannot be in place")
        for index, (param, a, b) in enumerate(params):
            if param.access == "read":
                continue
            values[False, a] = values[True, b] = self.number("computed", at, index)

    def _settle(self, values: Values) -> None:
        """Decide that what is undefined is what the coalesced schedule contains there."""
        for (new, name), number in list(values.items()):
            if not new and number == _UNDEFINED:
                values[new, name] = values[True, self.names.get(name, name)]

    def _loop(self, old: While, new: While, values: Values, at: tuple[int, ...]) -> None:
        """Tell the contents apart at the head of every turn, then require that one turn reads the same."""
        if old.count != new.count:
            raise GraphError(f"{self.name}: a loop of {old.count} turns has become one of {new.count}")
        self._settle(values)
        classes = dict(values)
        while True:
            head = {key: self.number("turn", at, kind) for key, kind in classes.items()}
            turned = dict(head)
            _Follower(self.name, self.names, self.numbers).turn(old, new, turned, at)
            refined = {key: self.number("class", kind, turned[key]) for key, kind in classes.items()}
            if len({*refined.values()}) == len({*classes.values()}):
                break
            classes = refined
        self.turn(old, new, dict(head), at)
        values.update(head)
        self._condition(old, new, values, at)  # the last one, which is like all others

    def _condition(self, old: While, new: While, values: Values, at: tuple[int, ...]) -> None:
        self.steps(old.condition, new.condition, values, (*at, 0))
        self.same("a loop", old.predicate, new.predicate, values)

    def turn(self, old: While, new: While, values: Values, at: tuple[int, ...]) -> None:
        """Walk the condition and the body once."""
        self._condition(old, new, values, at)
        self.steps(old.body, new.body, values, (*at, 1))


class _Follower(_Prover):
    """Follows the contents while they are told apart, when what differs is no fault yet."""

    def same(self, what: str, old: str, new: str, values: Values) -> None:
        pass


def _copies_all(kernel: Kernel) -> bool:
    """Whether the kernel is a load of each element of one param, and a store of it at the same index of another."""
    inner = [statement for statement in statements_of(kernel.body) if not isinstance(statement, Loop)]
    match kernel.params, inner:
        case (read, written), (Load(var, source, index, None), Store(target, same, value, None, None)):
            sizes = read.size == written.size and (read.access, written.access) == ("read", "write")
            return sizes and (source, target, same, value) == (read.name, written.name, index, var)
    return False


def _written(steps: Sequence[Step]) -> set[str]:
    """Every buffer that the steps may write."""
    written: set[str] = set()
    for step in steps:
        match step:
            case Launch(kernel, buffers):
                written |= {name for param, name in zip(kernel.params, buffers, strict=True) if param.access != "read"}
            case Branch(_, then, otherwise):
                written |= _written((*then, *otherwise))
            case While(condition, _, body):
                written |= _written((*condition, *body))
            case Pop(_, buffer):
                written.add(buffer)
            case HostStep():
                written |= {*step.writes}
            case Exchange(names, _):
                written |= {*names}
    return written
