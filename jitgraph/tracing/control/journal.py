"""Journal: the Python objects that the body of a staged statement makes, and the entries of outer ones that it changes.

A body is recorded once and runs as often as tensors say, so what it sets is put back when it has been recorded: an
element of a list or dict, or an attribute, that holds something else afterwards is a result of the statement, as a
variable is. What changes the extent of a container is no such result and raises.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from jitgraph.errors import ScriptError
from jitgraph.location import Location

UNBOUND: Final[Any] = object()  # the value of a variable or entry that has none
CHANGERS: Final = frozenset(
    [
        *("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update", "setdefault", "popitem"),
        *("add", "discard", "appendleft", "popleft", "extendleft", "rotate", "move_to_end"),
        *("difference_update", "intersection_update", "symmetric_difference_update"),
        *("__setitem__", "__delitem__", "__iadd__", "__ior__", "__imul__", "__isub__", "__iand__", "__ixor__"),
    ]
)
CONTAINERS: Final = (list, dict, set, deque, bytearray)


class Entry:
    """Where a value stands in a Python object: an element of a list, deque or dict, or an attribute."""

    __slots__ = ("attribute", "key", "location", "owner")

    def __init__(self, owner: Any, key: Any, *, attribute: bool, location: Location | None = None) -> None:
        self.owner = owner
        self.key = key
        self.attribute = attribute
        self.location = location  # of the first change

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[int, bool, Any]:
        return id(self.owner), self.attribute, self.key

    def __str__(self) -> str:
        kind = type(self.owner).__name__
        return f"the attribute {self.key!r} of a {kind}" if self.attribute else f"the item {self.key!r} of a {kind}"

    def get(self) -> Any:
        """What stands there, for an attribute also by the class, or UNBOUND."""
        if self.attribute:
            return getattr(self.owner, self.key, UNBOUND)
        if isinstance(self.owner, dict):
            return dict.get(self.owner, self.key, UNBOUND)
        return self.owner[self.key] if self.key < len(self.owner) else UNBOUND

    def stored(self) -> Any:
        """As ``get``, but UNBOUND for an attribute that the object has by its class alone."""
        own = _attributes(self.owner, self.key) if self.attribute else None
        return self.get() if own is None else own.get(self.key, UNBOUND)

    def put(self, value: Any) -> None:
        """Set the entry, or with UNBOUND remove it; no ``__setattr__`` of the user's is run."""
        own = _attributes(self.owner, self.key) if self.attribute else self.owner
        if value is not UNBOUND:
            setattr(self.owner, self.key, value) if own is None else own.__setitem__(self.key, value)
        elif self.stored() is not UNBOUND:
            delattr(self.owner, self.key) if own is None else own.__delitem__(self.key)


class Changed(NamedTuple):
    """What stood at an entry before the body, and what stands there after it."""

    before: Any
    after: Any


class _Object(NamedTuple):
    """An outer object, or one attribute of it, before its first change; the line of that; and what puts it back."""

    target: Any
    attribute: str | None
    before: Any
    location: Location | None
    undo: Callable[[], None]


class Journal:
    """What one body makes and changes."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._objects: dict[tuple[int, str | None], _Object] = {}

    def make(self, value: Any) -> None:
        """``value`` was made by the body: changing it changes nothing outside."""
        self._made[id(value)] = value

    def change(self, target: Any, attribute: str | None) -> None:
        """``target`` is about to be changed: its attribute of that name, or its contents."""
        key = id(target), attribute
        if id(target) in self._made or key in self._objects:
            return
        if attribute is not None:
            entry = Entry(target, attribute, attribute=True)
            stored = entry.stored()
            found = _Object(target, attribute, entry.get(), Location.of_user(), lambda: entry.put(stored))
        else:
            copy = target.copy()
            found = _Object(target, None, copy, Location.of_user(), lambda: _restore(target, copy))
        self._objects[key] = found

    def set(self, entry: Entry, value: Any) -> None:
        """Set an entry as the body does."""
        self.change(entry.owner, entry.key if entry.attribute else None)
        entry.put(value)

    def covers(self, owner: Any, key: Any, *, attribute: bool) -> bool:
        """Whether a change of this entry is noted here, or is one of an object that the body made."""
        return id(owner) in self._made or (id(owner), key if attribute else None) in self._objects

    def changes(self) -> dict[Entry, Changed]:
        """The entries that hold something else now; ScriptError where a container has another extent."""
        return {
            Entry(found.target, key, attribute=found.attribute is not None, location=found.location): changed
            for found in self._objects.values()
            for key, changed in _differences(found)
            if changed.after is not changed.before
        }

    def undo(self) -> None:
        """Put all changes back."""
        for found in reversed(self._objects.values()):
            found.undo()


def _differences(found: _Object) -> Iterator[tuple[Any, Changed]]:
    target, before = found.target, found.before
    if found.attribute is not None:
        yield found.attribute, Changed(before, Entry(target, found.attribute, attribute=True).get())
    elif isinstance(target, dict):
        if [key for key in target if key in before] != list(before):
            raise _other_extent(found)
        for key, value in target.items():
            yield key, Changed(before.get(key, UNBOUND), value)
    elif isinstance(target, list | deque):
        if len(target) != len(before):
            raise _other_extent(found)
        for key, value in enumerate(target):
            yield key, Changed(before[key], value)
    elif target != before:
        raise _other_extent(found)


def _other_extent(found: _Object) -> ScriptError:
    kind = type(found.target).__name__
    what = "in its elements" if isinstance(found.target, set | bytearray) else "in its length or keys"
    return ScriptError(
        f"a {kind} from outside is changed {what} by code that runs depending on a tensor, which no graph can do",
        location=found.location,
        hint="set elements that are there already, write into a tensor (t[...] = value), collect results with jg.scan, "
        "or loop over a Python range, which is unrolled",
    )


def _attributes(target: Any, name: str) -> dict[str, Any] | None:
    """The dict in which an object keeps this attribute; None where a slot or a property does."""
    own = getattr(target, "__dict__", None)
    return own if type(own) is dict and not hasattr(getattr(type(target), name, None), "__set__") else None


def _restore(target: Any, before: Any) -> None:
    target.clear()
    target.update(before) if isinstance(target, dict | set) else target.extend(before)
