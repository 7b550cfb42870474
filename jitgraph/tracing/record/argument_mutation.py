"""Containers among the arguments: what a function that is traced puts into them, so that each call does it again.

Lists, dicts and dataclasses are looked at before and after the function ran; what differs becomes changes of the
container that stands at the same path in a later call. While recording, every change is put back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from jitgraph import tree
from jitgraph.errors import TraceError
from jitgraph.tree import TreeDef

Action: TypeAlias = Literal["attribute", "item", "append", "no attribute", "no item", "shorten"]
_ABSENT: Final = object()


class Box(NamedTuple):
    """A container of the arguments, numbered in the order of a walk over them; ``before`` is what it held.

    ``leaves`` gives for each key or name under which a leaf stood the number of the leaf.
    """

    number: int
    value: Any
    text: str
    before: Any
    leaves: dict[Any, int]


class Change(NamedTuple):
    """One thing to do to the container ``box``; ``key`` is the key, name, or length."""

    action: Action
    box: Box
    key: Any
    value: Any = None

    @property
    def text(self) -> str:
        """The place as the user would write it."""
        if self.action in ("attribute", "no attribute"):
            return f"{self.box.text}.{self.key}"
        return f"{self.box.text}[{self.key!r}]"


def boxes_of(structures: Sequence[TreeDef], values: Sequence[Any], names: Sequence[str]) -> list[Box]:
    """Every container of the arguments, before those inside it."""
    found: list[Box] = []
    leaf = 0

    def walk(structure: TreeDef, value: Any, text: str) -> None:
        nonlocal leaf
        if structure.kind is type(None):
            return
        box = Box(len(found), value, text, _contents(value), {})
        found.append(box)
        container = tree.container_of(value)
        assert container is not None
        for step, inner, child in zip(
            structure.steps, structure.children, container.take_apart(value).children, strict=True
        ):
            if inner.kind is None:
                box.leaves[step[0]] = leaf
                leaf += 1
            else:
                walk(inner, child, f"{text}{step}")

    for structure, value, name in zip(structures, values, names, strict=True):
        if structure.kind is None:
            leaf += 1
        else:
            walk(structure, value, name)
    return found


def _contents(value: Any) -> Any:
    """What a container holds: a list or a dict of its own; a tuple for those that never change, or cannot be changed
    again at a later call."""
    if isinstance(value, list):
        return list(value)
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, tuple):
        return ()
    if dataclasses.is_dataclass(value):
        return _attributes(value)
    container = tree.container_of(value)
    assert container is not None
    return container.take_apart(value).children


def _attributes(value: Any) -> dict[str, Any]:
    own = getattr(value, "__dict__", None)
    if own is not None:
        return dict(own)
    names = [field.name for field in dataclasses.fields(value)]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def changes(boxes: Sequence[Box]) -> Iterator[Change]:
    """What differs from the time when the boxes were made; TraceError for what a later call could not do again."""
    for box in _each_once(boxes):
        value, before = box.value, box.before
        if isinstance(value, list):
            kept = min(len(value), len(before))
            yield from (Change("item", box, i, value[i]) for i in range(kept) if value[i] is not before[i])
            if len(before) > kept:
                yield Change("shorten", box, kept)
            yield from (Change("append", box, i, value[i]) for i in range(kept, len(value)))
        elif isinstance(before, dict):
            by_key = isinstance(value, dict)
            now = value if by_key else _attributes(value)
            if by_key and [key for key in before if key in now] != [key for key in now if key in before]:
                yield from (Change("no item", box, key) for key in before)  # another order: all anew
                before = {}
            for key in before:
                if key not in now:
                    yield Change("no item" if by_key else "no attribute", box, key)
            for key, element in now.items():
                if before.get(key, _ABSENT) is not element:
                    yield Change("item" if by_key else "attribute", box, key, element)
        elif len(now := _contents(value)) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
            raise TraceError(
                f"{box.text}, a {type(value).__name__} among the arguments, was changed while the function was traced",
                hint="return the new value instead",
            )


def apply(change: Change, target: Any) -> None:
    """Make a change in ``target``."""
    match change.action:
        case "attribute":
            setattr(target, change.key, change.value)
        case "no attribute":
            delattr(target, change.key)
        case "item":
            target[change.key] = change.value
        case "append":
            target.append(change.value)
        case "no item":
            del target[change.key]
        case "shorten":
            del target[change.key :]


def put_back(boxes: Sequence[Box]) -> None:
    """Undo all changes."""
    for box in _each_once(boxes):
        value, before = box.value, box.before
        if isinstance(value, list):
            if len(value) != len(before) or any(a is not b for a, b in zip(value, before, strict=True)):
                value[:] = before
        elif isinstance(value, dict):
            if list(value) != list(before) or any(value[key] is not before[key] for key in before):
                value.clear()
                value.update(before)
        elif isinstance(before, dict):
            now = _attributes(value)
            for name in now.keys() - before.keys():
                object.__delattr__(value, name)
            for name, element in before.items():
                if now.get(name, _ABSENT) is not element:
                    object.__setattr__(value, name, element)


def moved(value: Any, boxes: Sequence[Box]) -> Box | None:
    """A container of the arguments that ``value`` is, or holds."""
    container = tree.container_of(value)
    if container is None or value is None:
        return None
    for box in boxes:
        if box.value is value and not isinstance(value, tuple):
            return box
    return next((found for child in container.take_apart(value).children if (found := moved(child, boxes))), None)


def aliases(boxes: Sequence[Box]) -> tuple[int, ...]:
    """For each container the number of the first that is the same object."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(box.value), box.number) for box in boxes)


def _each_once(boxes: Sequence[Box]) -> list[Box]:
    return list({id(box.value): box for box in reversed(boxes)}.values())[::-1]
