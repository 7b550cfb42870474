"""Graphs of a kept trace: their text is read when the graph is asked for, and their code is found without it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jitgraph.errors import GraphError
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.location import Location
from jitgraph.once import cached_property
from jitgraph.runtime.loader import LoadError
from jitgraph.tracing.cache.plan_reader import read_int, read_text

if TYPE_CHECKING:
    from jitgraph.code_cache import CodeEntry

_INLINE = 1 << 62  # elements: constants stand in the text itself


def write_graph(graph: Graph, code: CodeEntry | None, folder: str | None) -> dict[str, Any]:
    """A graph for JSON, with the places of its code in the cache; ``folder`` is where lines in errors begin."""
    from jitgraph.ir.printer import print_graph

    files: dict[str, int] = {}
    modules: dict[tuple[str, ...], int] = {}
    locations = [
        None if at is None else _encoded_location(at, files, modules) for at in (node.location for node in graph.walk())
    ]
    return {
        "text": print_graph(graph, full=True, locations=False, inline=_INLINE),
        "name": graph.name,
        "outputs": len(graph.outputs),
        "hints": [value.hint for value in _values(graph)],
        "files": list(files),
        "modules": list(modules),
        "lines": locations,
        "code": None if code is None else [code.key, code.key_with_lines],
        "folder": folder,
    }


def _encoded_location(at: Location, files: dict[str, int], modules: dict[tuple[str, ...], int]) -> list[int]:
    return [files.setdefault(at.file, len(files)), at.line, modules.setdefault(at.modules, len(modules))]


def folder_here() -> str:
    """The folder from which errors tell where lines are."""
    try:
        return os.path.abspath(".")
    except OSError:  # it is gone
        return ""


class CachedGraph:
    """A graph that is read when it is asked for."""

    def __init__(self, data: Any) -> None:
        """LoadError where the data is malformed; the text itself is not looked at."""
        try:
            self._text, self.name = read_text(data["text"]), read_text(data["name"])
            self._hints = [None if hint is None else read_text(hint) for hint in data["hints"]]
            files = [read_text(file) for file in data["files"]]
            modules = [tuple(map(read_text, path)) for path in data["modules"]]
            self._lines = [
                None if at is None else (files[read_int(at[0])], read_int(at[1]), modules[read_int(at[2])])
                for at in data["lines"]
            ]
            self.outputs = read_int(data["outputs"])
            keys, folder = data["code"], data["folder"]
            self.code = None if keys is None else (read_text(keys[0]), read_text(keys[1]))
            self.folder = None if folder is None else read_text(folder)
        except (KeyError, TypeError, ValueError, IndexError):
            raise LoadError("a graph is malformed") from None

    @cached_property
    def graph(self) -> Graph:
        """The graph, verified; GraphError where the text holds none."""
        from jitgraph.ir.parser import parse
        from jitgraph.ir.verifier import verify

        parsed = parse(self._text)
        nodes, values = list(parsed.walk()), list(_values(parsed))
        if len(nodes) != len(self._lines) or len(values) != len(self._hints) or len(parsed.outputs) != self.outputs:
            raise GraphError("a kept graph has another number of nodes than of lines")
        locations = [None if at is None else Location(*at) for at in self._lines]
        hints = dict(zip(values, self._hints, strict=True))
        annotated = _with(parsed, dict(zip(map(id, nodes), locations, strict=True)), hints)
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
