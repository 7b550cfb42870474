"""What one recording writes down about the Python state that the function reads and changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from jitgraph.tracing.capture.effects import EffectLog
from jitgraph.tracing.capture.identity import IdentityTable
from jitgraph.tracing.capture.position import Position, RecordingLimits
from jitgraph.tracing.capture.reads import ReadLog
from jitgraph.tracing.objects import Objects

if TYPE_CHECKING:
    from jitgraph.tracing.symbolic.numbers import Numbers


class Observations:
    """The objects that the rules of a recording write to; each is built on those before it.

    Invariant: a rule changes them by their methods alone, so that each of them answers for its own invariant.
    """

    def __init__(self, known: Iterable[Any] = (), arguments: Iterable[Any] = ()) -> None:
        self.position = Position()
        self.limits = RecordingLimits(self.position)
        self.identities = IdentityTable(known, arguments)
        self.effects = EffectLog(self.position, self.limits, self.identities)
        self.reads = ReadLog(self.position, self.limits, self.identities, self.effects)
        self.objects = Objects()
        self.numbers: Numbers | None = None  # of the trace: they are told what is compared and what calls are passed
