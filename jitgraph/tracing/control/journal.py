"""Journal: the Python objects that the body of a staged statement makes, and the outer ones that it changes.

A graph holds no change of a Python object, so a body that makes one cannot be staged; the change is put back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from jitgraph.errors import ScriptError
from jitgraph.location import Location

_ABSENT: Final = object()
CHANGERS: Final = frozenset(
    [
        *("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update", "setdefault", "popitem"),
        *("add", "discard", "appendleft", "popleft", "extendleft", "rotate", "move_to_end"),
        *("difference_update", "intersection_update", "symmetric_difference_update"),
    ]
)
CONTAINERS: Final = (list, dict, set, deque, bytearray)


class Change(NamedTuple):
    """An outer object before its first change, the line of that change, and what puts it back."""

    target: Any
    location: Location | None
    undo: Callable[[], None]


class Journal:
    """What one body makes and changes."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._changes: dict[tuple[int, str | None], Change] = {}

    def make(self, value: Any) -> None:
        """``value`` was made by the body: changing it changes nothing outside."""
        self._made[id(value)] = value

    def change(self, target: Any, attribute: str | None) -> None:
        """``target`` is about to be changed: its attribute of that name, or its contents."""
        key = id(target), attribute
        if id(target) not in self._made and key not in self._changes:
            undo = _attribute_undo(target, attribute) if attribute is not None else _contents_undo(target)
            self._changes[key] = Change(target, Location.of_user(), undo)

    def undo(self) -> None:
        """Put all changes back."""
        for change in reversed(list(self._changes.values())):
            change.undo()

    def settle(self) -> None:
        """Put all changes back; ScriptError at the first where there are any."""
        self.undo()
        if not self._changes:
            return
        (_, attribute), change = next(iter(self._changes.items()))
        what = f"a {type(change.target).__name__}" + (f" (its attribute {attribute!r})" if attribute else "")
        raise ScriptError(
            f"{what} from outside is changed by code that runs depending on a tensor, which no graph can do",
            location=change.location,
            hint="assign to a variable, write into a tensor (t[...] = value), or collect results with jg.scan",
        )


def _attribute_undo(target: Any, attribute: str) -> Callable[[], None]:
    before = getattr(target, attribute, _ABSENT)

    def undo() -> None:
        if before is not _ABSENT:
            setattr(target, attribute, before)
        elif hasattr(target, attribute):
            delattr(target, attribute)

    return undo


def _contents_undo(target: Any) -> Callable[[], None]:
    if not isinstance(target, CONTAINERS):
        return lambda: None
    before: Any = target.copy()

    def undo() -> None:
        container: Any = target
        container.clear()
        container.update(before) if isinstance(target, dict | set) else container.extend(before)

    return undo
