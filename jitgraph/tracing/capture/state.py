"""What one trace has read and changed: the places, their values, and the guards and effects that follow from them."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from jitgraph import foreign
from jitgraph.errors import TraceError
from jitgraph.location import Location
from jitgraph.records import NamedTuple, dataclass
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture import impure
from jitgraph.tracing.capture.events import Activation, InstructionSite
from jitgraph.tracing.capture.followed import PACKAGE
from jitgraph.tracing.capture.kinds import is_a
from jitgraph.tracing.containers import MAX_BYTES, same_extent
from jitgraph.tracing.guard import Assumption
from jitgraph.tracing.objects import Objects
from jitgraph.tracing.predicate import Absent, HasContents, Predicate
from jitgraph.tracing.source import Slot, Step, item_step
from jitgraph.tracing.staged.number import StagedNumber
from jitgraph.tracing.storage import MISSING, class_entry, contents_of
from jitgraph.tracing.symbolic.number import SymbolicNumber, resolved
from jitgraph.tracing.undo_log import Change, UndoEntry, UndoLog, later_keys


@dataclass(slots=True)
class FirstRead:
    """A value found at a place when it was first read; ``MISSING`` for nothing."""

    slot: Slot
    value: Any
    location: Location
    by_user: bool = False  # read by code outside of this package, too
    soft: bool = False  # library code may change it for its own purposes: then the recording serves once


class UsedContainer(NamedTuple):
    """A container that was used, with what it held at first: its extent is guarded, or all that it held.

    ``by_identity`` says that the very elements are guarded at once, since they are many.
    """

    container: Any
    before: Any
    text: str
    location: Location
    soft: bool = False
    by_identity: bool = False


class State:
    """Objects by where they come from, and what was read of them and written to them.

    An object is steady where guarded steps lead to it, keyed where it is a container among the arguments, whose
    contents are in the key of a call, and made by the function otherwise.
    """

    def __init__(self, known: Iterable[Any], arguments: Iterable[Any]) -> None:
        self.objects = Objects()
        self.reads: dict[tuple[Any, ...], FirstRead] = {}
        self.tensors: list[tuple[Slot, Tensor]] = []  # the guarded places at which a tensor was read
        self.sources: dict[int, Slot] = {}  # of them the first of each handle, by the id of that
        self.log = UndoLog()
        self.writes: dict[tuple[Any, ...], UndoEntry] = {}  # of the log, those of places that the function rebinds
        self.unguarded: dict[str, Location] = {}
        self.bound: dict[str, Location] = {}  # what another process may answer otherwise
        self.steady: dict[int, Any] = {id(value): value for value in known}
        self.keyed: dict[int, Any] = {id(value): value for value in arguments}
        self.fresh: dict[int, Any] = {}  # instances of classes that the function made
        self.instances: dict[int, Any] = {}  # owners of ``__dict__``s, by the id of that
        self.attributes: dict[tuple[int, str], Assumption] = {}  # of containers among the arguments
        self.by_numpy: set[int] = set()  # ids of arrays whose elements Python or NumPy read
        self.texts: dict[int, str] = {}  # how an object was reached first
        self.with_attributes: dict[int, Tensor] = {}  # handles that have to stay the same
        self.whole: dict[int, UsedContainer] = {}  # containers used as a whole
        self.extents: dict[int, UsedContainer] = {}  # those of which the extent alone was used
        self.compared: list[tuple[Any, Any]] = []  # by ``is``, one of them a container of the arguments
        self.mutated: dict[int, Any] = {}  # containers that a method changed
        self._watches: list[UndoLog] = []
        self._harmless: dict[int, Any] = {}  # callables that were looked at
        self._released: set[tuple[Any, ...]] = set()
        self._view: Activation | None = None
        self._site: InstructionSite | None = None
        self.for_package = False  # what is read now is read by this package

    # --- where the function is --------------------------------------------------------------------------------------

    @property
    def line(self) -> Location:
        """The line of the user's code that is being run."""
        if self._view is None or self._site is None:
            return Location("", 0)
        if not self._view.in_package:
            return Location(self._view.frame.f_code.co_filename, self._site.line)
        frame = self._view.frame.f_back
        while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        if frame is None:
            return Location(self._view.frame.f_code.co_filename, self._site.line)
        return Location(frame.f_code.co_filename, frame.f_lineno)

    @property
    def in_package(self) -> bool:
        """Whether the code being run is this package's own."""
        return self._view is not None and self._view.in_package

    def text_of(self, value: Any) -> str:
        """How people would write an object."""
        text = self.texts.get(id(value))
        if text is not None:
            return text
        names = self._view.frame.f_locals if self._view is not None else {}
        return next((name for name, local in names.items() if local is value), type(value).__name__)

    def cannot_guard(self, what: str) -> None:
        """Note what no guard can see, with the line being run: the recording serves this call alone."""
        self.unguarded.setdefault(what, self.line)

    def bind_to_process(self, why: str) -> None:
        """Note what another process may answer otherwise, where ``why`` says that: the trace is not kept on disk."""
        if why and not self.in_package:
            self.bound.setdefault(why, self.line)

    # --- reads and writes -------------------------------------------------------------------------------------------

    def record_read(self, slot: Slot, value: Any, *, soft: bool = False, at_first: bool = False) -> None:
        """``value`` was found at a place of a steady object; ``at_first`` before the function wrote there."""
        value = resolved(value)
        identity = slot.identity
        if identity in self.writes and not at_first:
            return
        known = self.reads.get(identity)
        if known is None:
            if value is not MISSING:
                self.refuse(value, slot.text)
                if soft and impure.is_unseen_iterator(value):
                    self.cannot_guard(f"what {slot.text} gives, an iterator that library code keeps")
                else:
                    impure.refuse_iterator(value, slot.text, self.line)
            known = self.reads[identity] = FirstRead(slot, value, self.line, False, soft)
            if value is not MISSING:
                self.settle(value, slot.text)
            if is_a(value, Tensor):
                self.tensors.append((slot, value))
                self.sources.setdefault(id(value), slot)
        known.by_user = known.by_user or not (self.in_package or self.for_package)

    def settle(self, value: Any, text: str) -> None:
        """``value`` is reached by guarded steps, so what is read from it later is, too."""
        if type(value) in (int, float, str, bytes, bool, type(None)):
            return
        if type(value) not in (SymbolicNumber, StagedNumber) and not is_a(value, Tensor):
            foreign.refuse(value, text, self.line)
        if is_a(value, np.ndarray) and self.log.entry(value) is None:
            foreign.require_plain(value, text)
            self.touch(value, text)
        if id(value) not in self.fresh and not is_a(value, Tensor):
            self.steady[id(value)] = value
            self.texts.setdefault(id(value), text)

    def refuse(self, value: Any, text: str) -> None:
        """TraceError for what gives something new at each call; what asks of the world outside is not guarded."""
        if self._harmless.get(id(value), MISSING) is value:
            return
        impure.refuse(value, text, self.line)
        if not self.in_package and (what := impure.outside_state(value)) is not None:
            self.cannot_guard(f"what {text} says about {what}")
        elif callable(value):
            self._harmless[id(value)] = value

    def record_write(self, slot: Slot, before: Any) -> None:
        """A place of a steady object is about to be set or cleared."""
        entry = self.touch(slot, slot.text, resolved(before))
        self.writes.setdefault(slot.identity, entry._replace(text=slot.text, location=self.line))

    def touch(self, target: Any, text: str, *before: Any) -> UndoEntry:
        """``target`` is about to be changed, perhaps: what it holds, or ``before``, is kept."""
        for log in self._watches:
            log.save(target, text, self.line, *before)
        if is_a(target, dict) and self.log.entry(target) is None:
            before = (self._at_first(target),)
        elif isinstance(target, Slot):  # a method of the dict may have put another value there meanwhile
            holder = target.owner if is_a(target.owner, dict) else target.storage
            if holder is not None and (saved := self.log.entry(holder)) is not None:
                before = (saved.before.get(target.key, MISSING),)
        return self.log.save(target, text, self.line, *before)

    def _at_first(self, mapping: dict[Any, Any]) -> dict[Any, Any]:
        """What a mapping held before the function assigned its keys, or the attributes of its owner."""
        original, owner = dict(contents_of(mapping)), self.instances.get(id(mapping), mapping)
        for write in self.writes.values():
            slot = write.target
            if slot.owner is mapping or (slot.owner is owner and slot.storage is mapping):
                if write.before is MISSING:
                    original.pop(slot.key, None)
                else:
                    original[slot.key] = write.before
        return original

    def is_whole(self, container: Any) -> bool:
        """Whether all that a container held at first is guarded, so that no item of it needs a guard of its own."""
        used = self.whole.get(id(container))
        return used is not None and (not used.soft or id(container) in self.mutated)

    def has_written(self, container: Any) -> bool:
        """Whether the function assigned items of a container by themselves."""
        return any(write.target.owner is container for write in self.writes.values())

    def is_subsumed(self, container: Any) -> bool:
        """Whether what was done to a sequence is known from what it held at first, not from its indices."""
        return is_a(container, list | deque) and self.is_whole(container)

    def entry(self, container: Any, key: Any, text: str) -> Slot:
        """``container[key]``; in the ``__dict__`` of an object that is the attribute."""
        if id(container) in self.instances and is_a(key, str):
            text = text.replace(f".__dict__[{key!r}]", f".{key}")
            owner = self.instances[id(container)]
            if hasattr(type(class_entry(type(owner), key)), "__set__"):
                return Slot("own", owner, key, text)  # a property, say, hides it
            return Slot.of_attribute(owner, key, text)
        return Slot("item", container, key, text)

    def release(self, mapping: Any, key: Any) -> None:
        """Guard ``mapping[key]`` no more where it is read by this package alone: it is an input."""
        self._released.add(Slot("item", mapping, key, "").identity)

    # --- what objects are -------------------------------------------------------------------------------------------

    def is_reachable(self, value: Any) -> bool:
        """Whether ``value`` was reached by guarded steps, or is an argument."""
        return id(value) in self.steady or id(value) in self.keyed

    def is_outside(self, value: Any) -> bool:
        """Whether ``value`` was reached by guarded steps, and is no container of the arguments."""
        return id(value) in self.steady and id(value) not in self.keyed

    def is_fresh(self, value: Any) -> bool:
        """Whether ``value`` is an instance that the function made."""
        return id(value) in self.fresh

    def is_own(self, owner: Any) -> bool:
        """Whether an object was made by the call, or is a container of its arguments."""
        return id(owner) in self.fresh or id(owner) in self.keyed

    def outside(self) -> tuple[Any, ...]:
        """Every object from outside that the function reached."""
        return (*self.steady.values(), *self.keyed.values())

    def know_arguments(self, containers: Iterable[tuple[Any, str]]) -> None:
        """Say that these are containers of the arguments, by these names: their changes are seen without this."""
        for container, text in containers:
            self.keyed[id(container)] = container
            self.texts.setdefault(id(container), text)

    @contextmanager
    def watching(self, log: UndoLog) -> Iterator[None]:
        """Note in ``log``, too, what is changed in the block, as it was at its beginning."""
        self._watches.append(log)
        before = frozenset(self.fresh)
        try:
            yield
        finally:
            self._watches.remove(log)
            log.forget(self.fresh.keys() - before)

    # --- the end of the trace ---------------------------------------------------------------------------------------

    def assumptions(self, lifted: Collection[int] = ()) -> list[Assumption]:
        """What must be true of what was read; TraceError where the function changed it in a way not seen.

        ``lifted`` are the ids of arrays that are inputs. Elements that Python or NumPy used are guarded where they are
        few.
        """
        assumptions: list[Assumption] = []
        guarded = {at for at, used in self.whole.items() if not used.soft}
        guarded |= {id(self.instances[at]) for at in guarded if at in self.instances} | self.mutated.keys()
        for identity, read in self.reads.items():
            rebound = identity in self.writes  # perhaps to what follows of the value that was read
            if identity not in self._released or read.by_user or rebound:
                own = rebound or id(read.slot.owner) in guarded  # for ``changes`` sees what was done
                assumptions += self._of_read(read, own, lifted)
        for write in self.writes.values():
            after = write.target.own_value()
            if after is write.before and not _is_value(after) and not self.is_own(write.target.owner):
                predicate: Predicate = Absent() if after is MISSING else self.objects.same(after)
                assumptions.append(Assumption(write.target.as_own, predicate, write.location))
            elif after is MISSING and write.target.identity not in self.reads and write.target.storage is not None:
                kind = self.objects.kind(type(write.before))  # it is deleted, which another call cannot do without it
                assumptions.append(Assumption(write.target.as_own, kind, write.location))
        for slot, handle in self.tensors:
            if id(handle) in self.with_attributes:
                assumptions.append(Assumption(slot, self.objects.same(handle), self.reads[slot.identity].location))
        for used in (*self.whole.values(), *self.extents.values()):
            assumptions += self._of_contents(used)
        return [*assumptions, *self.attributes.values()]

    def _of_read(self, read: FirstRead, written: bool, lifted: Collection[int]) -> Iterator[Assumption]:
        slot, value, location = read.slot, read.value, read.location
        if type(value) is SymbolicNumber:  # read again at each call
            if not written and slot.get_or(None) is not value:
                raise _changed(slot.text, location)
            return
        predicate = Absent() if value is MISSING else self.objects.value(value)
        assumption = Assumption(slot.as_own, predicate, location)
        if issubclass(type(value), np.ndarray) and (id(value) not in lifted or id(value) in self.by_numpy):
            if value.dtype.hasobject:
                self.unguarded.setdefault(f"the objects in the array {slot.text}", location)
            elif value.nbytes <= MAX_BYTES:
                yield assumption._replace(predicate=HasContents.of(value))
            else:
                what = f"the {value.nbytes} bytes of the array {slot.text}, used by NumPy"
                self.unguarded.setdefault(what, location)
        if written or assumption.holds(self.objects.values):
            yield assumption
        elif not read.soft:
            raise _changed(slot.text, location)
        else:
            self.unguarded.setdefault(f"what library code keeps in {slot.text}", location)

    def _of_contents(self, used: UsedContainer) -> Iterator[Assumption]:
        container, before = used.container, used.before
        soft = used.soft and id(container) not in self.mutated
        if soft and not same_extent(self._without_own(container), before):
            self.unguarded.setdefault(f"what library code keeps in {used.text}", used.location)
            return
        slot = Slot("object", container, None, used.text)
        yield Assumption(slot, self.objects.extent(before, container), used.location)
        if used.by_identity:
            yield Assumption(slot, self.objects.elements(before, container), used.location)

    def _without_own(self, container: Any) -> Any:
        """What a container holds; of a mapping without the keys, or attributes, that the function itself added."""
        if not is_a(container, dict):
            return contents_of(container)
        owner = self.instances.get(id(container), container)
        added = {w.target.key for w in self.writes.values() if w.target.owner is owner and w.before is MISSING}
        contents = contents_of(container)
        return {key: value for key, value in contents.items() if key not in added} if added else contents

    def effects(self) -> list[tuple[UndoEntry, Any]]:
        """The places of outer objects that hold something new now, with what they hold (``MISSING`` for nothing)."""
        effects = []
        for write in self.writes.values():
            owner = write.target.owner
            if self.is_own(owner) or self.is_subsumed(owner):
                continue
            after = write.target.own_value()
            if after is not write.before or _is_value(after):  # what it held already, too: a later call may differ
                effects.append((write, after))
        return effects

    def changes(self) -> list[tuple[UndoEntry, list[Change]]]:
        """What was done to containers from outside besides; TraceError where no later call can do that again."""
        mutations = []
        for entry in self.log:
            target = entry.target
            if isinstance(target, Slot) or (self.is_own(target) and not is_a(target, np.ndarray)):
                continue
            changes = entry.changes()
            if changes is None:
                raise _changed(entry.text, entry.location)
            moved: list[Change] = []
            if not self.is_subsumed(target):
                assigned = self._assigned(target, len(entry.before) if is_a(target, list) else 0)
                changes = [change for change in changes if change.step is None or change.step.key not in assigned]
                moved = _moved(target, entry.before, assigned) if is_a(target, dict) else []
            used = self.whole.get(id(target))
            if not changes and not moved:
                continue
            if used is not None and not self.is_whole(target):  # what library code keeps there for its own purposes
                self.unguarded.setdefault(f"what library code keeps in {used.text}", used.location)
            elif used is None and any(change.operation != "append" for change in changes):
                raise _changed(entry.text, entry.location)
            mutations.append((entry, changes + moved))
        return mutations

    def _assigned(self, container: Any, length: int) -> set[Any]:
        """The keys, attributes or indices of a container that the function assigned or deleted by themselves."""
        owner = self.instances.get(id(container), container)
        writes = [write.target for write in self.writes.values()]
        keys = {slot.key for slot in writes if slot.owner is owner or slot.owner is container}
        return keys | {key + length for key in keys if length and type(key) is int and key < 0}

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


def _is_value(value: Any) -> bool:
    """Whether setting a place to ``value`` again makes no other object of it."""
    return value is None or is_a(value, bool | int | float | complex | str | bytes | enum.Enum)


def _changed(text: str, location: Location | None) -> TraceError:
    return TraceError(
        f"{text} was changed while the function was traced, by more than an assignment; no later call repeats that",
        location=location,
        hint="return the new value instead, or change it outside of the traced function",
    )
