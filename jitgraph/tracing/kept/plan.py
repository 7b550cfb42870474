"""A plan that an earlier process made, and what it cut its graph into for gradients."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from jitgraph.ir.graph import Graph
from jitgraph.records import NamedTuple
from jitgraph.tracing.kept.graphs import KeptGraph
from jitgraph.tracing.plan import CallPlan

if TYPE_CHECKING:
    from collections.abc import Mapping


class KeptPlan(CallPlan):
    """A plan whose graph is read when somebody asks for it."""

    __slots__ = ("kept",)
    kept: KeptGraph

    def __init__(self, kept: KeptGraph, objects: tuple[Any, ...], parts: Mapping[str, Any]) -> None:
        """``parts`` are the other fields."""
        object.__setattr__(self, "kept", kept)
        object.__setattr__(self, "objects", objects)
        for name, value in parts.items():
            object.__setattr__(self, name, value)

    @property
    def graph(self) -> Graph:
        """The graph, verified; GraphError where there is none."""
        return self.kept.graph

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self.kept.name

    @property
    def output_count(self) -> int:
        """How many outputs the graph has."""
        return self.kept.outputs

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
