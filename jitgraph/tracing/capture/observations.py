"""What one recording writes down about the Python state that the function reads and changes, by identity of objects."""

from __future__ import annotations

import enum
import types
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from jitgraph import foreign
from jitgraph.errors import TraceError
from jitgraph.location import Location
from jitgraph.own_code import PACKAGE
from jitgraph.records import NamedTuple, dataclass
from jitgraph.tensor import Tensor, scalars
from jitgraph.tracing.call.undo_log import Change, UndoEntry, UndoLog, later_keys
from jitgraph.tracing.capture import impure
from jitgraph.tracing.capture.events import FAILED, Activation, Finish, InstructionSite
from jitgraph.tracing.capture.kinds import is_a, may_change
from jitgraph.tracing.guards.guard import Assumption, Objects, Predicate
from jitgraph.tracing.guards.source import Slot, Step, item_step
from jitgraph.tracing.guards.storage import MISSING, class_entry, contents_of
from jitgraph.tracing.symbolic.number import SymbolicNumber, resolved

if TYPE_CHECKING:
    from jitgraph.tracing.symbolic.numbers import Numbers

# ----------------------------------------------------------------------
# The objects that a recorded function meets, each known by its identity.


class UsedContainer(NamedTuple):
    """A container that was used, with what it held at first: its extent is guarded, or all that it held.

    ``by_identity`` says that the very elements are guarded at once, since they are many.
    """

    container: Any
    before: Any
    text: str
    location: Location | None
    soft: bool = False
    by_identity: bool = False


class ObjectEntry:
    """What is known of one object. The defaults are those of an object that nothing is known of."""

    guarded = False  # guarded steps lead to it
    argument = False  # it is a container among the arguments, whose contents are in the key of a call
    created = False  # it is an instance that the function made
    defined = False  # it is a function or a class that the function made
    text: str | None = None  # how it was reached first
    owner: Any = MISSING  # it is the ``__dict__`` of this object

    contents: UsedContainer | None = None  # it was used as a whole
    extent: UsedContainer | None = None  # its extent was used
    mutated = False  # a method changed it, or an operator in place

    source: Slot | None = None  # it is a tensor: the first place where it was read
    identity_used = False  # it is a tensor, and has to stay the same object

    class_guarded = False  # its class is guarded
    harmless = False  # it is a callable that gives nothing new at each call
    entered = False  # it is a function whose code and defaults are guarded
    older_cell = False  # it is a cell of a function that is older than the call
    rewritten_from: Any = MISSING  # a script calls it in the place of this function
    replaces: Any = MISSING  # it stands among the builtins in the place of this object

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def is_whole(self) -> bool:
        """Whether all that it held at first is guarded, so that no item of it needs a guard of its own."""
        return self.contents is not None and (not self.contents.soft or self.mutated)


class IdentityTable:
    """An entry for each object that something is known of.

    Invariant: an entry holds its object, so that no other object has its ``id`` while the table lives. Asking about an
    object adds no entry and runs none of its code.
    """

    def __init__(self, known: Iterable[Any], arguments: Iterable[Any]) -> None:
        self._entries: dict[int, ObjectEntry] = {}
        self._created: list[int] = []
        self._read_arrays: dict[int, weakref.ref[Any]] = {}  # weak: the function may make many
        for value in known:
            self.mark_guarded(value)
        for value in arguments:
            self.entry(value).argument = True

    def entry(self, value: Any) -> ObjectEntry:
        """The entry of an object; a new one where it has none."""
        entry = self._entries.get(id(value))
        if entry is None:
            entry = self._entries[id(value)] = ObjectEntry(value)
        return entry

    def known(self, value: Any) -> ObjectEntry | None:
        """The entry of an object, if it has one."""
        return self._entries.get(id(value))

    def original_of(self, value: Any) -> Any:
        """The object in whose place another stands among the builtins meanwhile; any other object itself."""
        entry = self._entries.get(id(value))
        return value if entry is None or entry.replaces is MISSING else entry.replaces

    # --- where an object comes from ---------------------------------------------------------------------------------

    def mark_guarded(self, value: Any) -> None:
        """Guarded steps lead to ``value``."""
        self.entry(value).guarded = True

    def mark_created(self, value: Any) -> None:
        """The function made the instance ``value``."""
        entry = self.entry(value)
        if not entry.created:
            entry.created = True
            self._created.append(id(value))

    def mark_defined(self, value: Any) -> None:
        """The function made the function or class ``value``."""
        self.entry(value).defined = True

    def is_guarded(self, value: Any) -> bool:
        """Whether guarded steps lead to ``value``."""
        entry = self._entries.get(id(value))
        return entry is not None and entry.guarded

    def is_argument(self, value: Any) -> bool:
        """Whether ``value`` is a container among the arguments."""
        entry = self._entries.get(id(value))
        return entry is not None and entry.argument

    def is_reachable(self, value: Any) -> bool:
        """Whether guarded steps lead to ``value``, or it is a container among the arguments."""
        entry = self._entries.get(id(value))
        return entry is not None and (entry.guarded or entry.argument)

    def is_outside(self, value: Any) -> bool:
        """Whether guarded steps lead to ``value``, and it is no container among the arguments."""
        entry = self._entries.get(id(value))
        return entry is not None and entry.guarded and not entry.argument

    def is_created(self, value: Any) -> bool:
        """Whether ``value`` is an instance that the function made."""
        entry = self._entries.get(id(value))
        return entry is not None and entry.created

    def is_own(self, value: Any) -> bool:
        """Whether ``value`` is an instance that the function made, or a container among the arguments."""
        entry = self._entries.get(id(value))
        return entry is not None and (entry.created or entry.argument)

    def is_defined(self, value: Any) -> bool:
        """Whether ``value`` is a function or a class that the function made."""
        entry = self._entries.get(id(value))
        return entry is not None and entry.defined

    def guarded(self) -> Iterator[Any]:
        """The objects to which guarded steps lead."""
        return (entry.value for entry in self._entries.values() if entry.guarded)

    def outside(self) -> tuple[Any, ...]:
        """Every object from outside that the function reached, and the containers among the arguments."""
        arguments = (entry.value for entry in self._entries.values() if entry.argument)
        return (*self.guarded(), *arguments)

    def created_count(self) -> int:
        """How many instances the function has made."""
        return len(self._created)

    def created_since(self, count: int) -> frozenset[int]:
        """The ids of the instances that it made after the first ``count``."""
        return frozenset(self._created[count:])

    # --- what was done to it ----------------------------------------------------------------------------------------

    def owner_of(self, mapping: Any) -> Any:
        """The object whose ``__dict__`` a mapping is, or else the mapping."""
        entry = self._entries.get(id(mapping))
        return mapping if entry is None or entry.owner is MISSING else entry.owner

    def set_owner(self, mapping: Any, owner: Any) -> None:
        """A mapping is the ``__dict__`` of ``owner``."""
        self.entry(mapping).owner = owner

    def is_namespace(self, mapping: Any) -> bool:
        """Whether a mapping is known to be the ``__dict__`` of an object."""
        entry = self._entries.get(id(mapping))
        return entry is not None and entry.owner is not MISSING

    def mark_mutated(self, container: Any) -> None:
        """A method or an operator changes a container."""
        self.entry(container).mutated = True

    def is_mutated(self, container: Any) -> bool:
        """Whether a method or an operator changed a container."""
        entry = self._entries.get(id(container))
        return entry is not None and entry.mutated

    def is_whole(self, container: Any) -> bool:
        """Whether all that a container held at first is guarded."""
        entry = self._entries.get(id(container))
        return entry is not None and entry.is_whole

    def mark_read_by_numpy(self, array: Any) -> None:
        """Python or NumPy reads elements of an array."""
        self._read_arrays[id(array)] = weakref.ref(array)

    def is_read_by_numpy(self, array: Any) -> bool:
        """Whether Python or NumPy read elements of an array."""
        reference = self._read_arrays.get(id(array))
        return reference is not None and reference() is array


# ----------------------------------------------------------------------
# Where the recorded function is, and what limits the recording there: what no guard sees, or one process alone.


class Position:
    """The instruction that is being looked at, for the lines of errors and for what depends on who reads.

    Invariant: ``view`` and ``site`` are those of the last instruction that was looked at, and None before the first
    and after the last.
    """

    def __init__(self) -> None:
        self.view: Activation | None = None
        self.site: InstructionSite | None = None
        self.in_package = False  # the code being run is this package's own
        self.for_package = False  # what is read now is read on behalf of this package

    def move(self, view: Activation | None, site: InstructionSite | None) -> None:
        """The function is at ``site`` of the frame of ``view``; at none before it begins and after it has ended."""
        self.view, self.site = view, site
        self.in_package = view is not None and view.in_package

    @property
    def line(self) -> Location | None:
        """The line of the user's code that is being run; None before the first and after the last."""
        if self.view is None or self.site is None:
            return None
        if not self.view.in_package:
            return Location(self.view.frame.f_code.co_filename, self.site.line)
        frame = self.view.frame.f_back
        while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        if frame is None:
            return Location(self.view.frame.f_code.co_filename, self.site.line)
        return Location(frame.f_code.co_filename, frame.f_lineno)

    @property
    def by_user(self) -> bool:
        """Whether what is read now is read by code outside of this package."""
        return not (self.in_package or self.for_package)

    def local_name(self, value: Any) -> str | None:
        """The local variable of the frame that holds an object."""
        names = self.view.frame.f_locals if self.view is not None else {}
        return next((name for name, local in names.items() if local is value), None)


class RecordingLimits:
    """Why a recording serves one call alone, or one process alone.

    Invariant: each reason has the line that gave it first. Where ``unguarded`` is empty, the guards say all that the
    recording depends on; where ``bound`` is empty, they do so in any process.
    """

    def __init__(self, position: Position) -> None:
        self.unguarded: dict[str, Location | None] = {}
        self.bound: dict[str, Location | None] = {}
        self._position = position

    def cannot_guard(self, what: str, location: Location | None = None) -> None:
        """No guard sees ``what``, on the line being run or at ``location``: the recording serves this call alone."""
        self.unguarded.setdefault(what, location or self._position.line)

    def bind_to_process(self, why: str) -> None:
        """Another process may answer otherwise, where ``why`` says that: the trace is not stored on disk."""
        if why and not self._position.in_package:
            self.bound.setdefault(why, self._position.line)

    def expect(self, value: Any) -> Finish:
        """Compares what was found by storage with what Python finds; where they differ, nothing is known."""
        site = self._position.site
        name = site.value if site is not None else "a value"
        what = f"{name}, which is found in another way than by storage"

        def finish(after: Activation | None) -> None:
            if after is FAILED:
                return
            if after.at(-1) is not value and after.at(-2) is not value:
                self.cannot_guard(what)

        return finish


# ----------------------------------------------------------------------
# What a recorded function changes: each thing as it was before, to be undone, done again at each call, or refused.


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

    def written_after(self, slot: Slot) -> Finish:
        """Notes, behind an instruction, that Python put something where nothing stood; not where it raised."""

        def finish(after: Activation | None) -> None:
            if after is not FAILED:
                self.record_write(slot, MISSING)

        return finish

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


# ----------------------------------------------------------------------
# What a recorded function reads, and the objects that it reaches by that.


@dataclass(slots=True)
class FirstRead:
    """A value found at a place when it was first read; ``MISSING`` for nothing."""

    slot: Slot
    value: Any
    location: Location | None
    by_user: bool = False  # read by code outside of this package, too
    soft: bool = False  # library code may change it for its own purposes: then the recording serves once


class ReadLog:
    """What the function read of objects from outside before it wrote there, and what it reaches by that.

    Invariant: an object that the table of identities has as guarded is the value of a recorded place, or a part of such
    a value that a guard on it fixes, or in the key of a call.
    """

    def __init__(
        self, position: Position, limits: RecordingLimits, identities: IdentityTable, effects: EffectLog
    ) -> None:
        self.tensors: list[tuple[Slot, Tensor]] = []  # the guarded places at which a tensor was read
        self.contents: list[UsedContainer] = []  # containers used as a whole
        self.extents: list[UsedContainer] = []  # those of which the extent was used
        self.compared: list[tuple[Any, Any]] = []  # by ``is``, one of them a container of the arguments
        self._position = position
        self._limits = limits
        self._identities = identities
        self._effects = effects
        self._first: dict[tuple[Any, ...], FirstRead] = {}  # by the identity of the slot
        self._released: set[tuple[Any, ...]] = set()
        self._of_arguments: dict[tuple[ObjectEntry, Any], Assumption] = {}
        self._by_code: dict[CodeType, types.FunctionType] = {}

    def __iter__(self) -> Iterator[FirstRead]:
        return iter(self._first.values())

    def by_location(self) -> Iterable[tuple[tuple[Any, ...], FirstRead]]:
        """The identity of each place, with what was read there first."""
        return self._first.items()

    # --- places -----------------------------------------------------------------------------------------------------

    def record(self, slot: Slot, value: Any, *, soft: bool = False, at_first: bool = False) -> None:
        """``value`` was found at a place of a guarded object; ``at_first`` before the function wrote there."""
        value = self._identities.original_of(resolved(value))
        identity = slot.identity
        if identity in self._effects.writes and not at_first:
            return
        known = self._first.get(identity)
        if known is None:
            if value is not MISSING:
                self.refuse(value, slot.text)
                if soft and impure.is_unseen_iterator(value):
                    self._limits.cannot_guard(f"what {slot.text} gives, an iterator that library code keeps")
                else:
                    impure.refuse_iterator(value, slot.text, self._position.line)
            known = self._first[identity] = FirstRead(slot, value, self._position.line, False, soft)
            if value is not MISSING:
                self.reach(value, slot.text)
            if is_a(value, Tensor):
                self.tensors.append((slot, value))
                entry = self._identities.entry(value)
                entry.source = entry.source or slot
        known.by_user = known.by_user or self._position.by_user

    def first(self, slot: Slot) -> FirstRead | None:
        """The first read of a place."""
        return self._first.get(slot.identity)

    def release(self, mapping: Any, key: Any) -> None:
        """Guard ``mapping[key]`` no more where it is read by this package alone: it is an input."""
        self._released.add(Slot("item", mapping, key, "").identity)

    def is_released(self, location: tuple[Any, ...], read: FirstRead) -> bool:
        """Whether what was read at a place is an input, which needs no guard."""
        return not read.by_user and location in self._released

    def assume_of_argument(self, slot: Slot, predicate: Predicate) -> None:
        """An attribute of an argument that is not in the key of a call was read."""
        assumption = Assumption(slot, predicate, self._position.line)
        self._of_arguments.setdefault((self._identities.entry(slot.owner), slot.key), assumption)

    def of_arguments(self) -> Iterable[Assumption]:
        """What was read of arguments and is not in the key of a call."""
        return self._of_arguments.values()

    def record_contents(self, container: Any, used: UsedContainer) -> None:
        """A container, or a class, was used as a whole."""
        self._identities.entry(container).contents = used
        self.contents.append(used)

    def record_extent(self, container: Any, used: UsedContainer) -> None:
        """The extent of a container was used."""
        self._identities.entry(container).extent = used
        self.extents.append(used)

    def source_of(self, handle: Tensor) -> Slot | None:
        """The first guarded place at which a tensor was read."""
        entry = self._identities.known(handle)
        return None if entry is None else entry.source

    def use_identity(self, handle: Tensor) -> None:
        """A tensor from outside has to stay the same object at each call."""
        self._identities.entry(handle).identity_used = True

    def item_slot(self, container: Any, key: Any, text: str) -> Slot:
        """``container[key]``; in the ``__dict__`` of an object that is the attribute."""
        if self._identities.is_namespace(container) and is_a(key, str):
            text = text.replace(f".__dict__[{key!r}]", f".{key}")
            owner = self._identities.owner_of(container)
            if hasattr(type(class_entry(type(owner), key)), "__set__"):
                return Slot("own", owner, key, text)  # a property, say, hides it
            return Slot.of_attribute(owner, key, text)
        return Slot("item", container, key, text)

    # --- objects ----------------------------------------------------------------------------------------------------

    def text_of(self, value: Any) -> str:
        """How people would write an object."""
        entry = self._identities.known(value)
        text = None if entry is None else entry.text
        return text if text is not None else self._position.local_name(value) or type(value).__name__

    def known_text(self, value: Any) -> str | None:
        """How an object was reached first."""
        entry = self._identities.known(value)
        return None if entry is None else entry.text

    def know_arguments(self, containers: Iterable[tuple[Any, str]]) -> None:
        """Say that these are containers of the arguments, by these names: their changes are seen without this."""
        for container, text in containers:
            entry = self._identities.entry(container)
            entry.argument, entry.text = True, text if entry.text is None else entry.text

    def reach(self, value: Any, text: str) -> None:
        """``value`` is reached by guarded steps, so what is read from it later is, too."""
        if type(value) in (int, float, str, bytes, bool, type(None)):
            return
        if type(value) is not SymbolicNumber and not scalars.is_computed(value) and not is_a(value, Tensor):
            foreign.refuse(value, text, self._position.line)
        if is_a(value, np.ndarray) and self._effects.log.entry(value) is None:
            foreign.require_plain(value, text)
            self._effects.touch(value, text)
        if is_a(value, Tensor):
            return
        if not self._identities.is_created(value):
            entry = self._identities.entry(value)
            entry.guarded = True
            if entry.text is None:
                entry.text = text
        self._reach_parts(value, text)

    def _reach_parts(self, value: Any, text: str) -> None:
        """Of a function the variables that it closes over and its globals are guarded, too; of a method its parts."""
        if is_a(value, types.FunctionType):
            if self._identities.is_defined(value):
                return
            for cell in value.__closure__ or ():
                self._identities.entry(cell).older_cell = True
            self._by_code.setdefault(value.__code__, value)
            self._identities.mark_guarded(value.__globals__)
        elif is_a(value, types.MethodType):
            self.reach(value.__self__, text)
            self.reach(value.__func__, text)
        elif is_a(value, staticmethod | classmethod):
            self.reach(value.__func__, text)
        elif is_a(value, enum.EnumMeta) and may_change(value):  # its members may have attributes besides
            for name, member in value.__members__.items():
                self.reach(member, f"{text}.{name}")
        elif is_a(value, property):
            for part in (value.fget, value.fset, value.fdel):
                self.reach(part, text)

    def function_of(self, code: CodeType) -> types.FunctionType | None:
        """The first function with this code that was reached."""
        return self._by_code.get(code)

    def refuse(self, value: Any, text: str) -> None:
        """TraceError for what gives something new at each call; what asks of the world outside is not guarded."""
        entry = self._identities.known(value)
        if entry is not None and entry.harmless:
            return
        impure.refuse(value, text, self._position.line)
        if not self._position.in_package and (what := impure.outside_state(value)) is not None:
            self._limits.cannot_guard(f"what {text} says about {what}")
        elif callable(value):
            self._identities.entry(value).harmless = True


# ----------------------------------------------------------------------
# What one recording writes down about the Python state that the function reads and changes.


class Observations:
    """The objects that the rules of a recording write to; each is built on those before it.

    Invariant: a rule changes them by their methods alone, so that each of them answers for its own invariant.
    """

    def __init__(self, known: Iterable[Any] = (), arguments: Iterable[Any] = ()) -> None:
        self.position = Position()
        self.limits = RecordingLimits(self.position)
        self.identities = IdentityTable(known, arguments)
        self.effects = EffectLog(self.position, self.limits, self.identities)
        self.reads = ReadLog(self.position, self.limits, self.identities, self.effects)
        self.objects = Objects()
        self.numbers: Numbers | None = None  # of the trace: they are told what is compared and what calls are passed


class Observer:
    """The base of what reads and adds to the observations of one recording."""

    def __init__(self, seen: Observations) -> None:
        self._seen = seen
        self._position = seen.position
        self._limits = seen.limits
        self._identities = seen.identities
        self._effects = seen.effects
        self._reads = seen.reads
        self._objects = seen.objects
