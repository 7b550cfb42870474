"""CachedPlan: a plan that an earlier process made, whose graphs are read when they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from jitgraph.errors import GraphError
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.location import Location
from jitgraph.once import cached_property
from jitgraph.records import dataclass
from jitgraph.tracing.call.plan import CallPlan

if TYPE_CHECKING:
    from jitgraph.code_cache import CodeEntry

# ----------------------------------------------------------------------
# Graphs of a cached trace: their text is read when the graph is asked for, and their code is found without it.

_INLINE = 1 << 62  # elements: constants stand in the text itself


def folder_here() -> str:
    """The folder from which errors tell where lines are."""
    try:
        return os.path.abspath(".")
    except OSError:  # it is gone
        return ""


@dataclass(frozen=True)
class CachedGraph:
    """A graph that is read when it is asked for, with the keys of its code in the cache.

    ``names`` are those of its values, ``locations`` those of its nodes; ``folder`` is where lines in errors begin.
    """

    text: str
    name: str
    output_count: int
    names: tuple[str | None, ...]
    locations: tuple[Location | None, ...]
    code: tuple[str, str] | None
    folder: str | None

    @classmethod
    def of(cls, graph: Graph, code: CodeEntry | None, folder: str | None) -> CachedGraph:
        """A graph as data."""
        from jitgraph.ir.printer import print_graph

        return cls(
            print_graph(graph, full=True, locations=False, inline=_INLINE),
            graph.name,
            len(graph.outputs),
            tuple([value.hint for value in _values(graph)]),
            tuple([node.location for node in graph.walk()]),
            None if code is None else (code.key, code.key_with_lines),
            folder,
        )

    @cached_property
    def graph(self) -> Graph:
        """The graph, verified; GraphError where the text holds none."""
        from jitgraph.ir.parser import parse
        from jitgraph.ir.verifier import verify

        parsed = parse(self.text)
        nodes, values = list(parsed.walk()), list(_values(parsed))
        counts = len(nodes), len(values), len(parsed.outputs)
        if counts != (len(self.locations), len(self.names), self.output_count):
            raise GraphError("a cached graph has another number of nodes than of lines")
        names = dict(zip(values, self.names, strict=True))
        annotated = _with(parsed, dict(zip(map(id, nodes), self.locations, strict=True)), names)
        verify(annotated)
        return replace(annotated, name=self.name)


def _values(graph: Graph) -> Iterator[Value]:
    """Every value of a graph where it is defined, those of regions too."""
    yield from graph.inputs
    for node in graph.nodes:
        for region in node.regions:
            yield from _values(region)
        yield from node.outputs


def _with(graph: Graph, locations: dict[int, Any], hints: dict[Value, str | None]) -> Graph:
    """The graph with these lines and names."""
    new_value_of: dict[Value, Value] = {}

    def values(old_values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple([new_value_of.setdefault(value, Value(value.type, hints[value])) for value in old_values])

    inputs = values(graph.inputs)
    nodes = []
    for node in graph.nodes:
        regions = tuple([_with(region, locations, hints) for region in node.regions])
        nodes.append(Node(node.op, values(node.inputs), node.attrs, values(node.outputs), regions, locations[id(node)]))
    return replace(graph, inputs=inputs, nodes=tuple(nodes), outputs=values(graph.outputs))


# ----------------------------------------------------------------------
# CachedPlan: a plan that an earlier process made.


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
