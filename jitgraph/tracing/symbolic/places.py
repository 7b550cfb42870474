"""Numbers that vary in their places: put there while a trace records, and taken away after it."""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitgraph.runtime import forks
from jitgraph.tracing.guard import Equals, Guard
from jitgraph.tracing.source import Place
from jitgraph.tracing.symbolic.number import SymbolicNumber
from jitgraph.tracing.symbolic.numbers import Numbers


def is_numeric(guard: Guard) -> bool:
    """Whether a guard holds a place to the value of a Python int or float."""
    return isinstance(guard.predicate, Equals) and guard.predicate.plain.kind in ("int", "float")


def varies(guard: Guard, place: Place) -> bool:
    """Whether a number of the same kind and another value stands at the place of the guard now."""
    predicate, now = guard.predicate, place.get_or(None)
    return isinstance(predicate, Equals) and type(now).__name__ == predicate.plain.kind and not predicate.holds(now)


@contextmanager
def standing_in(places: Sequence[Place], numbers: Numbers) -> Iterator[None]:
    """Inside the block, numbers that vary stand at ``places``, where that can be without running code of the user's."""
    undo: list[tuple[Callable[[Any], None], Place, SymbolicNumber]] = []

    def put_back() -> None:
        for put, place, number in reversed(undo):
            if place.get_or(None) is number:
                put(number.plain)

    with forks.unfinished(put_back):
        try:
            for place in places:
                plain = place.get_or(None)
                put = _setter(place)
                if put is not None and type(plain) in (int, float):
                    number = numbers.at_place(place, plain)
                    undo.append((put, place, number))
                    put(number)
            yield
        finally:
            put_back()


def can_stand_in(place: Place) -> bool:
    """Whether a number that varies can take the place."""
    return _setter(place) is not None


def _setter(place: Place) -> Callable[[Any], None] | None:
    """What puts a value at a place and runs no code of the user's; None where that cannot be."""
    owner, key = place.owner, place.key
    if place.kind == "cell":
        return place.set
    if place.kind == "item":
        return place.set if type(owner) in (dict, list, OrderedDict) else None
    own = getattr(owner, "__dict__", None)
    if isinstance(owner, type):
        return (lambda value: type.__setattr__(owner, key, value)) if key in vars(owner) else None
    if isinstance(owner, types.ModuleType) or type(own) is dict:
        return (lambda value: own.__setitem__(key, value)) if own is not None and key in own else None
    slot = getattr(type(owner), str(key), None)
    if isinstance(slot, types.MemberDescriptorType):
        return lambda value: slot.__set__(owner, value)
    return None
