"""Numbers that vary in their places: put there while a trace records, and taken away after it."""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph.tracing.guard import Guard
from jitgraph.tracing.predicate import Equals
from jitgraph.tracing.source import Slot
from jitgraph.tracing.symbolic.numbers import Numbers
from jitgraph.tracing.undo_log import UndoLog


def is_numeric(guard: Guard) -> bool:
    """Whether a guard holds a place to the value of a Python int or float."""
    return isinstance(guard.predicate, Equals) and guard.predicate.plain.kind in ("int", "float")


def varies(guard: Guard, slot: Slot) -> bool:
    """Whether a number of the same kind and another value stands at the place of the guard now."""
    predicate, now = guard.predicate, slot.get_or(None)
    return isinstance(predicate, Equals) and type(now).__name__ == predicate.plain.kind and not predicate.holds(now)


def stand_in(slots: Sequence[Slot], numbers: Numbers, log: UndoLog) -> None:
    """Put numbers that vary at ``slots``, where that can be without running code of the user's."""
    for slot in slots:
        plain, put = slot.get_or(None), slot.setter
        if put is not None and type(plain) in (int, float):
            log.save(slot, slot.text)
            put(numbers.at_slot(slot, plain))
