"""The objects that a recorded function meets, each known by its identity."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.tracing.source import Slot
from jitgraph.tracing.storage import MISSING


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
