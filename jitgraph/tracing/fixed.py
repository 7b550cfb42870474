"""The sources at which the same object stands wherever the guards of a plan hold."""

from __future__ import annotations

from typing import Any, Final

from jitgraph.tracing.plan import CallPlan
from jitgraph.tracing.predicate import Is
from jitgraph.tracing.source import STEPS, Source, World

UNKNOWN: Final = object()


class FixedSources:
    """What stands at the sources of a plan that guards or the way there hold to one object."""

    def __init__(self, plan: CallPlan, world: World) -> None:
        self._objects = plan.objects
        self._world = world
        self._identities = {g.source: g.predicate.number for g in plan.guards if isinstance(g.predicate, Is)}
        self._known: dict[Source, Any] = {}

    def find(self, source: Source) -> Any:
        """The object, or UNKNOWN."""
        if source not in self._known:
            self._known[source] = self._find(source)
        return self._known[source]

    def _find(self, source: Source) -> Any:
        number = self._identities.get(source)
        if number is not None:
            return self._objects[number]
        if not source.steps:
            return UNKNOWN if source.kind == "argument" else self._world.root(source)
        owner, step = self.find(source.owner), source.steps[-1]
        if owner is UNKNOWN or not (STEPS[step.kind].fixed or (step.kind == "item" and type(owner) is tuple)):
            return UNKNOWN
        return STEPS[step.kind].read(owner, self._world.key(step))
