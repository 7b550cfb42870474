"""What a recorded function changes: each thing as it was before, to be undone, done again at each call, or refused."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from jitgraph.errors import TraceError
from jitgraph.location import Location
from jitgraph.tracing.capture.identity import IdentityTable
from jitgraph.tracing.capture.kinds import is_a
from jitgraph.tracing.capture.position import Position, RecordingLimits
from jitgraph.tracing.source import Slot, Step, item_step
from jitgraph.tracing.storage import MISSING, contents_of
from jitgraph.tracing.symbolic.number import resolved
from jitgraph.tracing.undo_log import Change, UndoEntry, UndoLog, later_keys


class EffectLog:
    """What the function sets, deletes and changes in place.

    Invariant: everything from outside that the function changes stands in ``log`` as it was before the first change;
    ``writes`` has those entries of it whose places the function sets or clears by themselves.
    """

    def __init__(self, position: Position, limits: RecordingLimits, identities: IdentityTable) -> None:
        self.log = UndoLog()
        self.writes: dict[tuple[Any, ...], UndoEntry] = {}  # by the identity of the slot
        self._position = position
        self._limits = limits
        self._identities = identities
        self._watches: list[UndoLog] = []

    def record_write(self, slot: Slot, before: Any) -> None:
        """A place of an object from outside is about to be set or cleared."""
        entry = self.touch(slot, slot.text, resolved(before))
        self.writes.setdefault(slot.identity, entry._replace(text=slot.text, location=self._position.line))

    def touch(self, target: Any, text: str, *before: Any) -> UndoEntry:
        """``target`` is about to be changed, perhaps: what it holds, or ``before``, is saved."""
        for log in self._watches:
            log.save(target, text, self._position.line, *before)
        if is_a(target, dict) and self.log.entry(target) is None:
            before = (self._at_first(target),)
        elif isinstance(target, Slot):  # a method of the dict may have put another value there meanwhile
            holder = target.owner if is_a(target.owner, dict) else target.storage
            if holder is not None and (saved := self.log.entry(holder)) is not None:
                before = (saved.before.get(target.key, MISSING),)
        return self.log.save(target, text, self._position.line, *before)

    def _at_first(self, mapping: dict[Any, Any]) -> dict[Any, Any]:
        """What a mapping held before the function assigned its keys, or the attributes of its owner."""
        original, owner = dict(contents_of(mapping)), self._identities.owner_of(mapping)
        for write in self.writes.values():
            slot = write.target
            if slot.owner is mapping or (slot.owner is owner and slot.storage is mapping):
                if write.before is MISSING:
                    original.pop(slot.key, None)
                else:
                    original[slot.key] = write.before
        return original

    def is_written(self, slot: Slot) -> bool:
        """Whether the function set or cleared a place."""
        return slot.identity in self.writes

    def has_assigned_items(self, container: Any) -> bool:
        """Whether the function assigned items of a container by themselves."""
        return any(write.target.owner is container for write in self.writes.values())

    def is_subsumed(self, container: Any) -> bool:
        """Whether what was done to a sequence is known from what it held at first, not from its indices."""
        return is_a(container, list | deque) and self._identities.is_whole(container)

    @contextmanager
    def watching(self, log: UndoLog) -> Iterator[None]:
        """Note in ``log``, too, what is changed in the block, as it was at its beginning."""
        self._watches.append(log)
        count = self._identities.created_count()
        try:
            yield
        finally:
            self._watches.remove(log)
            log.forget(self._identities.created_since(count))

    # --- the end of the trace ---------------------------------------------------------------------------------------

    def assigned(self) -> list[tuple[UndoEntry, Any]]:
        """The places of outer objects that hold something new now, with what they hold (``MISSING`` for nothing)."""
        assigned = []
        for write in self.writes.values():
            owner = write.target.owner
            if self._identities.is_own(owner) or self.is_subsumed(owner):
                continue
            after = write.target.own_value()
            if after is not write.before or is_plain(after):  # what it held already, too: a later call may differ
                assigned.append((write, after))
        return assigned

    def changes(self) -> list[tuple[UndoEntry, list[Change]]]:
        """What was done to containers from outside besides; TraceError where no later call can do that again."""
        mutations = []
        for entry in self.log:
            target = entry.target
            if isinstance(target, Slot) or (self._identities.is_own(target) and not is_a(target, np.ndarray)):
                continue
            changes = entry.changes()
            if changes is None:
                raise changed_unseen(entry.text, entry.location)
            moved: list[Change] = []
            if not self.is_subsumed(target):
                assigned = self._assigned_keys(target, len(entry.before) if is_a(target, list) else 0)
                changes = [change for change in changes if change.step is None or change.step.key not in assigned]
                moved = _moved(target, entry.before, assigned) if is_a(target, dict) else []
            if not changes and not moved:
                continue
            known = self._identities.known(target)
            used = None if known is None else known.contents
            if known is not None and used is not None and not known.is_whole:  # library code keeps it for itself
                self._limits.cannot_guard(f"what library code keeps in {used.text}", used.location)
            elif used is None and any(change.operation != "append" for change in changes):
                raise changed_unseen(entry.text, entry.location)
            mutations.append((entry, changes + moved))
        return mutations

    def _assigned_keys(self, container: Any, length: int) -> set[Any]:
        """The keys, attributes or indices of a container that the function assigned or deleted by themselves."""
        owner = self._identities.owner_of(container)
        writes = [write.target for write in self.writes.values()]
        keys = {slot.key for slot in writes if slot.owner is owner or slot.owner is container}
        return keys | {key + length for key in keys if length and type(key) is int and key < 0}

    def without_added(self, container: Any) -> Any:
        """What a container holds; of a mapping without the keys, or attributes, that the function itself added."""
        if not is_a(container, dict):
            return contents_of(container)
        owner = self._identities.owner_of(container)
        added = {w.target.key for w in self.writes.values() if w.target.owner is owner and w.before is MISSING}
        contents = contents_of(container)
        return {key: value for key, value in contents.items() if key not in added} if added else contents

    def undo(self) -> None:
        """Put back what the function changed."""
        self.log.undo()


def _moved(mapping: dict[Any, Any], before: dict[Any, Any], assigned: set[Any]) -> list[Change]:
    """What gives the keys that were assigned by themselves their places among those that were not, or put in anew."""
    later = later_keys(mapping, before)
    if assigned.isdisjoint(later) or not any(key in before or key not in assigned for key in later):
        return []
    kind = item_step(mapping)
    steps = {key: Step(kind, key) for key in later}
    return [
        *(Change("delete", step) for step in steps.values()),
        *(Change("set", step, mapping[key]) for key, step in steps.items()),
    ]


def is_plain(value: Any) -> bool:
    """Whether setting a place to ``value`` again makes no other object of it."""
    return value is None or is_a(value, bool | int | float | complex | str | bytes | enum.Enum)


def changed_unseen(text: str, location: Location | None) -> TraceError:
    """The error for a change that no later call repeats."""
    return TraceError(
        f"{text} was changed while the function was traced, by more than an assignment; no later call repeats that",
        location=location,
        hint="return the new value instead, or change it outside of the traced function",
    )
