"""Which objects the variables of a staged loop are: another variable's, or one from before the loop.

The body is recorded once, with an object of its own for each tensor and container that the loop carries. In Python such
a variable is in the first turn the object that it was before the loop, and in a later turn what the turn before left in
it: another variable's object, one from outside, or one that the turn made. So the loop carries, for each pair of
objects that may be one, a bool that says whether they are; a turn computes it for the next one. Objects that no
variable and nothing outside refers to are gone, so that these pairs are all there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from jitgraph.tensor import Tensor, wrap
from jitgraph.tracing.record.aliases import Condition, value_of
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.script.aliasing import Outside, outlives, relations
from jitgraph.tracing.script.variables import Name

Position: TypeAlias = "tuple[Name, int]"  # of an object in a carried variable
Identity: TypeAlias = "tuple[Position, Position | Outside]"  # of two objects
Objects: TypeAlias = "Mapping[Position, Any]"


class UnforeseenIdentityError(Exception):
    """The body was recorded without an identity that a turn brings about for the next one."""


class KnownIdentities:
    """The identities that recordings of one body brought about, with those that the last one added; and the positions
    in which each recording leaves an object that it makes where none can tell: each turn makes one of its own."""

    def __init__(self) -> None:
        self.every: dict[Identity, None] = {}
        self.latest: list[Identity] = []
        self.transient: set[Position] = set()

    def require(self, left: dict[Identity, Condition], foreseen: Sequence[Identity]) -> dict[Identity, Condition]:
        """``left`` without what a turn makes; UnforeseenIdentityError where a recording has to foresee more."""
        self.transient |= {identity[0] for identity in self.latest if _is_outer(identity) and identity not in left}
        known = dict.fromkeys(foreseen)
        left = {
            identity: condition
            for identity, condition in left.items()
            if identity in known or not (_is_outer(identity) and identity[0] in self.transient)
        }
        self.latest = [identity for identity in left if identity not in known]
        if self.latest:
            self.every.update(dict.fromkeys(self.latest))
            raise UnforeseenIdentityError
        return left


def _is_outer(identity: Identity) -> bool:
    return isinstance(identity[1], Outside)


class CarriedObjects:
    """The objects that a loop carries, with the conditions under which two of them are one."""

    def __init__(self, known: KnownIdentities) -> None:
        self._known = known
        self._identities: list[Identity] = []
        self._before: Mapping[Identity, Condition] = {}
        self._entered: dict[Identity, Condition] = {}
        self._left: Mapping[Identity, Condition] = {}

    def start(self, trace: Recorder, objects: Objects) -> list[Tensor]:
        """The conditions before the loop, of the objects with which it starts."""
        self._before = relations(trace, objects, lambda _: True)
        self._identities = [*dict.fromkeys((*self._before, *self._known.every))]
        return [wrap(value_of(self._before.get(identity, False))) for identity in self._identities]

    def enter(self, body: Recorder, objects: Objects, conditions: Sequence[Tensor]) -> None:
        """Let the body know which of its objects may be one."""
        for identity, condition in zip(self._identities, conditions, strict=True):
            self._entered[identity] = partial(_itself, condition.value)
            _note(body, identity, objects, self._entered[identity])

    def leave(self, body: Recorder, objects: Objects) -> list[Tensor]:
        """The conditions of the next turn; UnforeseenIdentityError where the body has to be recorded again."""
        left = relations(body, objects, partial(outlives, body))
        self._left = self._known.require(left, self._identities)
        return [wrap(value_of(self._left.get(identity, False))) for identity in self._identities]

    def join(self, trace: Recorder, objects: Objects, conditions: Sequence[Tensor], *, runs: bool) -> None:
        """Let the trace know which of the objects that the variables are after the loop may be one; ``runs`` where the
        body runs at least once."""
        for identity, condition in zip(self._identities, conditions, strict=True):
            before, left = self._before.get(identity, False), self._left.get(identity, False)
            if left is self._entered[identity]:  # no turn changes it
                left = before
            sides = {left} if runs else {before, left}
            if sides != {False}:
                _note(trace, identity, objects, True if sides == {True} else partial(_itself, condition.value))


def _note(trace: Recorder, identity: Identity, objects: Objects, condition: Condition) -> None:
    position, target = identity
    other = target.value if isinstance(target, Outside) else objects.get(target)
    if position in objects and other is not None:
        trace.aliases.add(objects[position], other, condition)


def _itself(value: Any) -> Any:
    return value
