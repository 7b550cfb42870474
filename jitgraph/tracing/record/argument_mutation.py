"""Containers among the arguments: what a traced function puts into them, also where one of them stands elsewhere,
too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jitgraph import tree
from jitgraph.errors import TraceError
from jitgraph.records import NamedTuple
from jitgraph.tracing.call.undo_log import Change, UndoLog
from jitgraph.tracing.guards.guard import Disjoint, Guard, Objects, Same
from jitgraph.tracing.guards.source import Source
from jitgraph.tracing.record.provenance import Provenance
from jitgraph.tree import TreeDef

if TYPE_CHECKING:
    from jitgraph.tracing.capture.capture import Capture

# ----------------------------------------------------------------------
# Containers among the arguments: what a function that is traced puts into them, so that each call does it again.
#
# Lists, dicts and dataclasses are kept in a log before the function runs; what was changed is done to the container
# that stands at the same path in a later call.


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


# ----------------------------------------------------------------------
# Containers of the arguments that stand elsewhere, too: what is done to one of them is seen in the other.
#
# Where nothing is changed, nobody can tell. Where one is, or where the function asks which is which, a call has to find
# the same partition as the recorded one.


class Aliasing:
    """The containers of the arguments beside those from outside that a recorded function reached."""

    def __init__(
        self,
        containers: Sequence[ArgumentContainer],
        originals: Sequence[ArgumentContainer],
        capture: Capture,
        provenance: Provenance,
        objects: Objects,
    ) -> None:
        """``originals`` are the caller's containers, for which ``containers`` stand while the function is recorded."""
        self.containers = [
            (container, theirs)
            for container, theirs in zip(containers, originals, strict=True)
            if _has_identity(container.value)
        ]
        self.capture = capture
        self.provenance = provenance
        self.objects = objects
        kinds = {type(container.value) for container, _ in self.containers}
        own = {id(container.value) for container in containers}
        self.outside = [v for v in capture.identities.guarded() if type(v) in kinds and id(v) not in own]

    def guards(self, sources: Sequence[Source], changed: set[int]) -> Iterator[Guard]:
        """``sources`` are those of all containers, ``changed`` the ids of the containers that the function changed.

        TraceError where the caller's container is one from outside, another stands for it, and that is seen.
        """
        yield from self._compared(sources)
        reached = {id(read.value) for read in self.capture.reads}
        outside = {id(value) for value in self.outside}
        for container, theirs in self.containers:
            if id(container.value) in reached:  # by another way, which is guarded by identity
                yield Guard(sources[container.number], self.objects.same(container.value))
            elif id(theirs.value) in outside and not changed.isdisjoint({id(container.value), id(theirs.value)}):
                self._refuse(container, theirs.value, "is changed")
        every = [sources[container.number] for container, _ in self.containers]
        mine = [sources[container.number] for container, _ in self.containers if id(container.value) in changed]
        for left, right in (mine, self.outside), (every, [v for v in self.outside if id(v) in changed]):
            if left and right:
                yield Guard(None, Disjoint(tuple(dict.fromkeys(left)), tuple(map(self._source, right))))

    def _compared(self, sources: Sequence[Source]) -> Iterator[Guard]:
        """What ``is`` was asked of a container of the arguments."""
        by_id = {id(container.value): (container, theirs.value) for container, theirs in reversed(self.containers)}
        for one, other in self.capture.reads.compared:
            for value, against in ((one, other), (other, one)):
                if id(value) not in by_id:
                    continue
                container, theirs = by_id[id(value)]
                if theirs is against and value is not against:
                    self._refuse(container, against, "is compared")
                if value is against or self.capture.identities.is_reachable(against):
                    right = sources[by_id[id(against)][0].number] if id(against) in by_id else self._source(against)
                    if value is not against:
                        yield Guard(None, Disjoint((sources[container.number],), (right,)))
                    for same, _ in self.containers if value is against else ():
                        if same.value is value and sources[same.number] != right:
                            yield Guard(sources[same.number], Same(right))

    def _source(self, value: Any) -> Source:
        return self.provenance.of(value, self.capture.reads.text_of(value))

    def _refuse(self, container: ArgumentContainer, value: Any, what: str) -> None:
        raise TraceError(
            f"{container.text} {what}, and it is also {self.capture.reads.text_of(value)}, which the function reaches "
            "by itself",
            hint="pass a copy, or reach it in one way alone",
        )


def _has_identity(value: Any) -> bool:
    return not isinstance(value, tuple)
