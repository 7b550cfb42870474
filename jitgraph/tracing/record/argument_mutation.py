"""Containers among the arguments: what a function that is traced puts into them, so that each call does it again.

Lists, dicts and dataclasses are kept in a log before the function runs; what was changed is done to the container that
stands at the same path in a later call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jitgraph import tree
from jitgraph.errors import TraceError
from jitgraph.tracing.log import Change, Log
from jitgraph.tree import TreeDef


class Box(NamedTuple):
    """A container of the arguments, numbered in the order of a walk over them."""

    number: int
    value: Any
    text: str


def boxes_of(structures: Sequence[TreeDef], values: Sequence[Any], names: Sequence[str]) -> list[Box]:
    """Every container of the arguments, before those inside it."""
    found: list[Box] = []

    def walk(structure: TreeDef, value: Any, text: str) -> None:
        if structure.kind is None or structure.kind is type(None):
            return
        found.append(Box(len(found), value, text))
        container = tree.container_of(value)
        assert container is not None
        children = container.take_apart(value).children
        for step, inner, child in zip(structure.steps, structure.children, children, strict=True):
            walk(inner, child, f"{text}{step}")

    for structure, value, name in zip(structures, values, names, strict=True):
        walk(structure, value, name)
    return found


def keep(boxes: Sequence[Box], log: Log) -> None:
    """The function may change these containers from now on."""
    for box in boxes:
        log.keep(box.value, box.text)


def changes(boxes: Sequence[Box], log: Log) -> Iterator[tuple[Box, Change]]:
    """What was done to the containers, each once; TraceError for what a later call could not do again."""
    for box in {id(box.value): box for box in reversed(boxes)}.values():
        entry = log.entry(box.value)
        assert entry is not None
        found = entry.changes()
        if found is None:
            raise TraceError(
                f"{box.text}, a {type(box.value).__name__} among the arguments, was changed while the function was "
                "traced",
                hint="return the new value instead",
            )
        yield from ((box, change) for change in found)


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
