"""Containers among the arguments: what a function that is traced puts into them, so that each call does it again.

Lists, dicts and dataclasses are kept in a log before the function runs; what was changed is done to the container that
stands at the same path in a later call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jitgraph import tree
from jitgraph.errors import TraceError
from jitgraph.records import NamedTuple
from jitgraph.tracing.undo_log import Change, UndoLog
from jitgraph.tree import TreeDef


class ArgumentContainer(NamedTuple):
    """A container of the arguments, numbered in the order of a walk over them."""

    number: int
    value: Any
    text: str


def containers_of(
    structures: Sequence[TreeDef], values: Sequence[Any], names: Sequence[str]
) -> list[ArgumentContainer]:
    """Every container of the arguments, before those inside it."""
    containers: list[ArgumentContainer] = []

    def walk(structure: TreeDef, value: Any, text: str) -> None:
        if structure.kind is None or structure.kind is type(None):
            return
        containers.append(ArgumentContainer(len(containers), value, text))
        container = tree.container_of(value)
        assert container is not None
        children = container.take_apart(value).children
        for step, inner, child in zip(structure.steps, structure.children, children, strict=True):
            walk(inner, child, f"{text}{step}")

    for structure, value, name in zip(structures, values, names, strict=True):
        walk(structure, value, name)
    return containers


def watch(containers: Sequence[ArgumentContainer], log: UndoLog) -> None:
    """The function may change these containers from now on."""
    for container in containers:
        log.save(container.value, container.text)


def changes(containers: Sequence[ArgumentContainer], log: UndoLog) -> Iterator[tuple[ArgumentContainer, Change]]:
    """What was done to the containers, each once; TraceError for what a later call could not do again."""
    for container in {id(container.value): container for container in reversed(containers)}.values():
        entry = log.entry(container.value)
        assert entry is not None
        entry_changes = entry.changes()
        if entry_changes is None:
            raise TraceError(
                f"{container.text}, a {type(container.value).__name__} among the arguments, was changed while the "
                "function was traced",
                hint="return the new value instead",
            )
        yield from ((container, change) for change in entry_changes)


def moved(value: Any, containers: Sequence[ArgumentContainer]) -> ArgumentContainer | None:
    """A container of the arguments that ``value`` is, or holds."""
    kind = tree.container_of(value)
    if kind is None or value is None:
        return None
    for container in containers:
        if container.value is value and not isinstance(value, tuple):
            return container
    return next((inner for child in kind.take_apart(value).children if (inner := moved(child, containers))), None)


def aliases(containers: Sequence[ArgumentContainer]) -> tuple[int, ...]:
    """For each container the number of the first that is the same object."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(container.value), container.number) for container in containers)
