"""Guard: a predicate on what a call finds at a source, or on several. Plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph.location import Location
from jitgraph.records import NamedTuple, dataclass
from jitgraph.tracing.guards.predicate import Absent, Predicate
from jitgraph.tracing.guards.source import Slot, Source
from jitgraph.tracing.guards.storage import MISSING


@dataclass(frozen=True, slots=True)
class Guard:
    """``predicate`` must be true of what stands at ``source``; ``location`` is the line that read it.

    ``source`` is None for what several sources have to do with each other.
    """

    source: Source | None
    predicate: Predicate
    location: Location | None = None

    @property
    def fault(self) -> str:
        """What is wrong with a guard that was read from a file, "" where nothing is."""
        return "" if (self.source is None) == self.predicate.OF_SEVERAL else "a guard is about nothing"

    def __str__(self) -> str:
        return str(self.predicate) if self.source is None else f"{self.source.text} {self.predicate}"


class Assumption(NamedTuple):
    """``predicate`` must be true of what stands at ``slot``, where the function is recorded."""

    slot: Slot
    predicate: Predicate
    location: Location | None

    def holds(self, objects: Sequence[Any]) -> bool:
        """Whether it is true now."""
        value = self.slot.get_or(MISSING)
        if value is MISSING or isinstance(self.predicate, Absent):
            return value is MISSING and isinstance(self.predicate, Absent)
        return self.predicate.holds(value, objects)
