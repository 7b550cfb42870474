"""At the end of a trace: what must be true of what was read, so that the recording serves another call."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from jitgraph.tracing.capture.observations import FirstRead, Observations, UsedContainer, changed_unseen, is_plain
from jitgraph.tracing.guards.guard import Assumption
from jitgraph.tracing.guards.predicate import Absent, HasContents, Predicate
from jitgraph.tracing.guards.source import Slot
from jitgraph.tracing.guards.storage import MAX_BYTES, MISSING, same_extent
from jitgraph.tracing.symbolic.number import SymbolicNumber


class GuardCollection:
    """Turns what was read and written into assumptions.

    Invariant: what was read is assumed, or the function wrote there, or it is an input, or a reason why the recording
    serves one call alone says so.
    """

    def __init__(self, seen: Observations) -> None:
        self._limits = seen.limits
        self._identities = seen.identities
        self._effects = seen.effects
        self._reads = seen.reads
        self._objects = seen.objects

    def assumptions(self, lifted: Collection[int] = ()) -> list[Assumption]:
        """What must be true of what was read; TraceError where the function changed it in a way not seen.

        ``lifted`` are the ids of arrays that are inputs. Elements that Python or NumPy used are guarded where they are
        few.
        """
        assumptions: list[Assumption] = []
        hard = [used.container for used in self._reads.contents if not used.soft]
        whole = {id(owner) for container in hard for owner in (container, self._identities.owner_of(container))}
        for location, read in self._reads.by_location():
            rebound = location in self._effects.writes  # perhaps to what follows of the value that was read
            if rebound or not self._reads.is_released(location, read):
                # of an owner that is guarded as a whole ``changes`` sees what was done
                owner = read.slot.owner
                changed = rebound or id(owner) in whole or self._identities.is_mutated(owner)
                assumptions += self._of_read(read, changed, lifted)
        assumptions += self._of_writes()
        for slot, handle in self._reads.tensors:
            if self._identities.entry(handle).identity_used:
                first = self._reads.first(slot)
                assert first is not None
                assumptions.append(Assumption(slot, self._objects.same(handle), first.location))
        for used in (*self._reads.contents, *self._reads.extents):
            assumptions += self._of_contents(used)
        return [*assumptions, *self._reads.of_arguments()]

    def _of_read(self, read: FirstRead, written: bool, lifted: Collection[int]) -> Iterator[Assumption]:
        slot, value, location = read.slot, read.value, read.location
        if type(value) is SymbolicNumber:  # read again at each call
            if not written and slot.get_or(None) is not value:
                raise changed_unseen(slot.text, location)
            return
        predicate = Absent() if value is MISSING else self._objects.value(value)
        assumption = Assumption(slot.as_own, predicate, location)
        if issubclass(type(value), np.ndarray) and (
            id(value) not in lifted or self._identities.is_read_by_numpy(value)
        ):
            if value.dtype.hasobject:
                self._limits.cannot_guard(f"the objects in the array {slot.text}", location)
            elif value.nbytes <= MAX_BYTES:
                yield assumption._replace(predicate=HasContents.of(value))
            else:
                what = f"the {value.nbytes} bytes of the array {slot.text}, used by NumPy"
                self._limits.cannot_guard(what, location)
        if written or assumption.holds(self._objects.values):
            yield assumption
        elif not read.soft:
            raise changed_unseen(slot.text, location)
        else:
            self._limits.cannot_guard(f"what library code keeps in {slot.text}", location)

    def _of_writes(self) -> Iterator[Assumption]:
        """What a write that leaves things as they were, or deletes, needs of the place."""
        for write in self._effects.writes.values():
            slot, after = write.target, write.target.own_value()
            if after is write.before and not is_plain(after) and not self._identities.is_own(slot.owner):
                predicate: Predicate = Absent() if after is MISSING else self._objects.same(after)
                yield Assumption(slot.as_own, predicate, write.location)
            elif after is MISSING and self._reads.first(slot) is None and slot.storage is not None:
                kind = self._objects.kind(type(write.before))  # it is deleted, which another call cannot do without it
                yield Assumption(slot.as_own, kind, write.location)

    def _of_contents(self, used: UsedContainer) -> Iterator[Assumption]:
        container, before = used.container, used.before
        soft = used.soft and not self._identities.is_mutated(container)
        if soft and not same_extent(self._effects.without_added(container), before):
            self._limits.cannot_guard(f"what library code keeps in {used.text}", used.location)
            return
        slot = Slot("object", container, None, used.text)
        yield Assumption(slot, self._objects.extent(before, container), used.location)
        if used.by_identity:
            yield Assumption(slot, self._objects.elements(before, container), used.location)
