"""Containers of the arguments that stand elsewhere, too: what is done to one of them is seen in the other.

Where nothing is changed, nobody can tell. Where one is, or where the function asks which is which, a call has to find
the same partition as the recorded one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from jitgraph.errors import TraceError
from jitgraph.tracing.guard import Guard
from jitgraph.tracing.objects import Objects
from jitgraph.tracing.predicate import Disjoint, Same
from jitgraph.tracing.provenance import Provenance
from jitgraph.tracing.record.argument_mutation import ArgumentContainer
from jitgraph.tracing.source import Source

if TYPE_CHECKING:
    from jitgraph.tracing.capture.capture import Capture


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
