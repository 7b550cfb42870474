"""Log: what objects held before a recorded function changed them. Undo, replay and refusal all follow from it.

An object is kept before it is changed first: a place, a list, a dict, a set, an array, or the attributes of a
dataclass. ``undo`` gives back what they held, and ``changes`` says what was done to one, so that each call does it
again.
"""

from __future__ import annotations

import dataclasses
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from jitgraph import tree
from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.tracing.guards.plain import mark
from jitgraph.tracing.guards.source import STEPS, Slot, Step, item_step
from jitgraph.tracing.guards.storage import MISSING, base_of, contents_of

MAX_COPIED: Final = 1 << 20  # bytes of an array whose contents can be put back after a trace
CHANGERS: Final = frozenset(
    [
        *("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update", "setdefault", "popitem"),
        *("add", "discard", "appendleft", "popleft", "extendleft", "rotate", "move_to_end"),
        *("difference_update", "intersection_update", "symmetric_difference_update"),
        *("__setitem__", "__delitem__", "__iadd__", "__ior__", "__imul__", "__isub__", "__iand__", "__ixor__"),
    ]
)
"""The names of methods that change a container of Python's."""

APPENDS: Final = frozenset({"append", "extend"})
"""Those that do the same whatever it holds."""

_NOW: Final = object()

ContainerOperation: TypeAlias = Literal["append", "clear", "truncate", "add", "discard"]
OPERATIONS: Final[dict[str, str]] = {
    "append": "base_of({owner}).append({owner}, {value})",
    "clear": "deque.clear({owner})",
    "truncate": "list.__delitem__({owner}, slice({value}, None))",
    "add": "set.add({owner}, {value})",
    "discard": "set.discard({owner}, {value})",
}
"""The statements of the operations on containers, by methods of the built-in classes: what those of the user's do was
recorded already. The statements of ``set`` and ``delete`` are in the table of steps."""

OPERATION_NAMES: Final[dict[str, Any]] = {"base_of": base_of, "deque": deque}
"""What the statements of operations may use."""


class Change(NamedTuple):
    """One thing that was done to an object: ``set`` or ``delete`` at a step, or an operation with ``value``."""

    operation: Literal["set", "delete"] | ContainerOperation
    step: Step | None = None
    value: Any = None

    def apply(self, target: Any) -> None:
        """Do it to another object."""
        if self.operation == "set":
            assert self.step is not None
            STEPS[self.step.kind].write(target, self.step.key, self.value)
        elif self.operation == "delete":
            assert self.step is not None
            STEPS[self.step.kind].remove(target, self.step.key)
        else:
            _applied(self.operation)(target, self.value)

    def text(self, owner: str) -> str:
        """What was changed, as people would write it."""
        return owner if self.step is None else STEPS[self.step.kind].shown(owner, self.step.key)


@lru_cache(maxsize=8)
def _applied(operation: ContainerOperation) -> Callable[[Any, Any], None]:
    names: dict[str, Any] = dict(OPERATION_NAMES)
    body = OPERATIONS[operation].format(owner="owner", value="value")
    exec(compile(f"def apply(owner, value): {body}", "<jitgraph operations>", "exec"), names)
    function: Callable[[Any, Any], None] = names["apply"]
    return function


class UndoEntry(NamedTuple):
    """An object, what people call it, what it held, and the line that was about to change it."""

    target: Any
    text: str
    before: Any
    location: Location | None

    @property
    def is_changed(self) -> bool:
        """Whether it holds something else now; equal plain values are the same."""
        now = _state_of(self.target)
        return not (_same_value(now, self.before) if isinstance(self.target, Slot) else _same(now, self.before))

    def changes(self) -> list[Change] | None:
        """What was done to it, as operations; None where they cannot say it."""
        return _operations(self.target, self.before)

    def put_back(self) -> None:
        """Give back what it held."""
        now = _state_of(self.target)
        if now is not self.before and (isinstance(self.target, Slot) or not _identical(now, self.before)):
            _restore(self.target, self.before)


class UndoLog:
    """What was changed, each thing as it was before its first change."""

    def __init__(self) -> None:
        self._entries: dict[Any, UndoEntry] = {}

    def __iter__(self) -> Iterator[UndoEntry]:
        return iter(self._entries.values())

    def save(self, target: Any, text: str, location: Location | None = None, before: Any = _NOW) -> UndoEntry:
        """``target``, which people call ``text``, may be changed from now on; ``before`` is what it holds."""
        key = target.identity if isinstance(target, Slot) else id(target)
        entry = self._entries.get(key)
        if entry is None:
            before = _state_of(target) if before is _NOW else before
            entry = self._entries[key] = UndoEntry(target, text, before, location)
        return entry

    def entry(self, target: Any) -> UndoEntry | None:
        """What is kept of ``target``."""
        return self._entries.get(target.identity if isinstance(target, Slot) else id(target))

    def forget(self, owners: Collection[int]) -> None:
        """Objects with these ids were made meanwhile, so changing them, or what stands in them, changes nothing."""
        for key, entry in list(self._entries.items()):
            if id(entry.target.owner if isinstance(entry.target, Slot) else entry.target) in owners:
                del self._entries[key]

    def undo(self) -> None:
        """Give back what all of them held."""
        for entry in reversed(self._entries.values()):
            entry.put_back()

    def changed(self) -> list[UndoEntry]:
        """What holds something else now."""
        return [entry for entry in self if entry.is_changed]


def _operations(target: Any, before: Any) -> list[Change] | None:
    now = _state_of(target)
    if _identical(now, before):
        return []
    if isinstance(target, list):
        common = min(len(now), len(before))
        kind = item_step(target)
        changes = [Change("set", Step(kind, i), now[i]) for i in range(common) if now[i] is not before[i]]
        if len(before) > common:
            changes.append(Change("truncate", None, common))
        return changes + [Change("append", None, element) for element in now[common:]]
    if isinstance(target, deque):
        grown = _identical(now[: len(before)], before)
        if not grown:
            return [Change("clear"), *(Change("append", None, element) for element in now)]
        return [Change("append", None, element) for element in now[len(before) :]]
    if isinstance(target, set):
        gone, new = [x for x in before if x not in now], [x for x in now if x not in before]
        return [Change("discard", None, x) for x in gone] + [Change("add", None, x) for x in new]
    if isinstance(before, dict):
        return _of_mapping(item_step(target) if isinstance(target, dict) else "attribute", now, before)
    return None


def _of_mapping(kind: Any, now: dict[Any, Any], before: dict[Any, Any]) -> list[Change]:
    later = later_keys(now, before)
    gone = [key for key in before if key not in now or key in later]
    deletions: list[Change] = [Change("delete", Step(kind, key)) for key in gone]
    return deletions + [
        Change("set", Step(kind, key), value)
        for key, value in now.items()
        if key in later or before.get(key, MISSING) is not value
    ]


def later_keys(now: dict[Any, Any], before: dict[Any, Any]) -> dict[Any, None]:
    """The keys of a mapping, in order, that were put in after all others: new ones, and those put in anew."""
    order, last = {key: number for number, key in enumerate(before)}, -1
    for number, key in enumerate(now):
        if order.get(key, -1) <= last:
            return dict.fromkeys(list(now)[number:])
        last = order[key]
    return {}


def _state_of(target: Any) -> Any:
    """What an object holds, as something that does not change with it."""
    if isinstance(target, Slot):
        return target.own_value()
    if isinstance(target, np.ndarray):
        return _fingerprint(target)
    if isinstance(target, list | deque):
        return tuple(contents_of(target))
    if isinstance(target, bytearray | array):
        return tuple(memoryview(target) if isinstance(target, bytearray) else array.tolist(target))
    if isinstance(target, dict):
        return dict(contents_of(target))
    if isinstance(target, set):
        return frozenset(target)
    if isinstance(target, tuple):
        return ()
    if dataclasses.is_dataclass(target):
        return _attributes(target)
    container = tree.container_of(target)
    return None if container is None else container.take_apart(target).children


def _restore(target: Any, before: Any) -> None:
    if isinstance(target, Slot):
        if (own := target.storage) is None:
            if isinstance(target.owner, list | deque) and target.get_or(MISSING) is MISSING:
                return  # the sequence is shorter now, so it is kept itself
            target.remove() if before is MISSING else (target.setter or target.set)(before)
        elif before is not MISSING:
            own[target.key] = before
        else:
            own.pop(target.key, None)
    elif isinstance(target, np.ndarray):
        if isinstance(before, bytes) and not target.dtype.hasobject:
            target[...] = np.frombuffer(before, target.dtype).reshape(target.shape)
    elif isinstance(target, list):
        list.__setitem__(target, slice(None), before)
    elif isinstance(target, deque):
        deque.clear(target)
        deque.extend(target, before)
    elif isinstance(target, bytearray):
        bytearray.__setitem__(target, slice(None), bytes(before))
    elif isinstance(target, array):
        array.__setitem__(target, slice(None), array(target.typecode, before))
    elif isinstance(target, set):
        set.clear(target)
        set.update(target, before)
    elif isinstance(target, dict):
        base = base_of(target)
        base.clear(target)
        for key, value in before.items():
            base.__setitem__(target, key, value)
    elif isinstance(before, dict):
        for name in _attributes(target).keys() - before.keys():
            object.__delattr__(target, name)
        for name, element in before.items():
            object.__setattr__(target, name, element)


def _identical(now: Any, before: Any) -> bool:
    """Whether two states hold the very same objects."""
    if isinstance(now, tuple) and isinstance(before, tuple):
        return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))
    if isinstance(now, dict) and isinstance(before, dict):
        return list(now) == list(before) and all(now[key] is before[key] for key in before)
    return now is before or (isinstance(now, frozenset | bytes | int) and type(now) is type(before) and now == before)


def _same(now: Any, before: Any) -> bool:
    """Whether two states hold the same objects or equal plain values."""
    if isinstance(now, tuple) and isinstance(before, tuple):
        return len(now) == len(before) and all(map(_same_value, now, before))
    if isinstance(now, dict) and isinstance(before, dict):
        return list(now) == list(before) and all(_same_value(now[key], before[key]) for key in before)
    return _identical(now, before) or _same_value(now, before)


def _same_value(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and type(a) in (bool, int, float, str, bytes) and mark(a) == mark(b))


def _attributes(value: Any) -> dict[str, Any]:
    own = getattr(value, "__dict__", None)
    if own is not None:
        return dict(own)
    names = [field.name for field in dataclasses.fields(value)]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _fingerprint(array: Any) -> bytes | int:
    """The bytes of an array, or for a large one their checksum."""
    if array.nbytes <= MAX_COPIED:
        return array.tobytes()  # type: ignore[no-any-return]
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data)
