"""CachedPlan: a plan that an earlier process made."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from jitgraph.ir.graph import Graph
from jitgraph.tracing.cache.cached_graph import CachedGraph
from jitgraph.tracing.plan import CallPlan


class CachedPlan(CallPlan):
    """A plan whose graph is read when it is asked for."""

    __slots__ = ("_cached",)
    _cached: CachedGraph | Graph

    def __init__(self, graph: CachedGraph | Graph, **parts: Any) -> None:
        """``parts`` are other fields; those that are not stored have their defaults."""
        object.__setattr__(self, "_cached", graph)
        for known in fields(CallPlan)[1:]:
            object.__setattr__(self, known.name, parts.get(known.name, known.default))

    @property
    def graph(self) -> Graph:
        """The graph, verified; GraphError where there is none."""
        return self._cached.graph if isinstance(self._cached, CachedGraph) else self._cached

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self._cached.name

    @property
    def output_count(self) -> int:
        """How many outputs the graph has."""
        return len(self._cached.outputs) if isinstance(self._cached, Graph) else self._cached.output_count
