"""A plan that an earlier process made, and what it cut its graph into for gradients."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from jitgraph.ir.graph import Graph
from jitgraph.records import NamedTuple
from jitgraph.runtime.buffer import CPU
from jitgraph.tracing.cache.cached_graph import KeptGraph
from jitgraph.tracing.plan import CallPlan


class KeptPlan(CallPlan):
    """A plan whose graph is read when it is asked for."""

    __slots__ = ("_kept",)
    _kept: KeptGraph | Graph

    def __init__(self, graph: KeptGraph | Graph, **parts: Any) -> None:
        """``parts`` are the other fields but the device: traces of calls on GPUs are not kept."""
        object.__setattr__(self, "_kept", graph)
        object.__setattr__(self, "device", CPU)
        for name, value in parts.items():
            object.__setattr__(self, name, value)

    @property
    def graph(self) -> Graph:
        """The graph, verified; GraphError where there is none."""
        return self._kept.graph if isinstance(self._kept, KeptGraph) else self._kept

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self._kept.name

    @property
    def output_count(self) -> int:
        """How many outputs the graph has."""
        return len(self._kept.outputs) if isinstance(self._kept, Graph) else self._kept.outputs

    def __reduce__(self) -> Any:
        """As the plan that it is a copy of."""
        return CallPlan, tuple(getattr(self, known.name) for known in fields(CallPlan))


class KeptVjp(NamedTuple):
    """As ``passes.autodiff.Vjp``, of graphs that are read when they are compiled."""

    forward: KeptGraph
    backward: KeptGraph
    kept_inputs: tuple[int, ...]
    kept_outputs: tuple[int, ...]
    seeds: tuple[int, ...]
    wrt: tuple[int, ...]
