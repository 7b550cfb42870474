"""Graphs for tools that show graphs: as a ``networkx.MultiDiGraph``, and as DOT text for Graphviz.

Both have one node for each input, each op and the return, and one edge for each operand, so that ``add(%x, %x)`` has
two. A node goes by what the text of the graph calls its first output (``%x``, ``%0``), an op without outputs by its
name and position (``print@3``). A region is a graph of its own: it is closed, and reads what its node passes to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from jitgraph.ir.printer import Style, attr_text, is_elided, value_names

if TYPE_CHECKING:
    from jitgraph.ir.constraints import SizeConstraint
    from jitgraph.ir.graph import Graph, Node, Value

RETURN = "return"
_LONGEST = 60  # letters of an attribute in a drawing


class _Vertex(NamedTuple):
    key: str
    label: str
    node: Node | None  # None: an input, or the return
    value: Value | None  # of an input
    operands: tuple[Value, ...]
    regions: tuple[Graph, ...]


def _vertices(graph: Graph, style: Style, assumed: tuple[SizeConstraint, ...]) -> Iterator[_Vertex]:
    """Inputs, ops and the return, in the order of the graph."""
    names = value_names(graph, style)
    for value in graph.inputs:
        yield _Vertex(names[value], names[value], None, value, (), ())
    for position, node in enumerate(graph.nodes):
        key = names[node.outputs[0]] if node.outputs else f"{node.op.name}@{position}"
        regions = () if is_elided(node, style, assumed) else node.regions
        yield _Vertex(key, node.op.name, node, None, node.inputs, regions)
    yield _Vertex(RETURN, RETURN, None, None, graph.outputs, ())


def _sources(graph: Graph, keys: Mapping[int, str]) -> dict[Value, tuple[str, int]]:
    """The vertex that each value comes from, and which of its outputs it is."""
    sources = {value: (keys[id(value)], 0) for value in graph.inputs}
    for node in graph.nodes:
        sources |= {value: (keys[id(node)], number) for number, value in enumerate(node.outputs)}
    return sources


def _keys(vertices: list[_Vertex]) -> dict[int, str]:
    return {id(vertex.node if vertex.node is not None else vertex.value): vertex.key for vertex in vertices}


def to_networkx(graph: Graph, *, full: bool = False) -> Any:
    """The graph as a ``networkx.MultiDiGraph``; ModuleNotFoundError where networkx is not installed.

    Attributes of a node are ``kind`` ("input", "op" or "return"), ``op`` (its name), ``attrs`` (texts by name),
    ``types`` (of its outputs, as texts), ``location`` (the user's line, or None) and ``regions`` (graphs of the same
    form: the bodies of loops and branches, and with ``full`` the decompositions of composites). An edge has its
    ``operand``, the ``output`` of its source, and the ``value`` and ``type`` on it. ``constraints`` and ``name`` are
    attributes of the whole.
    """
    return _networkx(graph, Style(full=full, locations=False), graph.constraints)


def _networkx(graph: Graph, style: Style, assumed: tuple[SizeConstraint, ...]) -> Any:
    try:
        import networkx
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Graph.to_networkx needs networkx\n  hint: pip install networkx; to_dot() needs nothing", name=error.name
        ) from None

    drawing: Any = networkx.MultiDiGraph(name=graph.name, constraints=[str(each) for each in graph.constraints])
    vertices = list(_vertices(graph, style, assumed))
    sources, names = _sources(graph, _keys(vertices)), value_names(graph, style)
    for vertex in vertices:
        node = vertex.node
        outputs = (vertex.value,) if vertex.value is not None else node.outputs if node is not None else ()
        drawing.add_node(
            vertex.key,
            kind="op" if node is not None else "return" if vertex.value is None else "input",
            op=None if node is None else node.op.name,
            attrs={} if node is None else {key: attr_text(node.attrs[key], style) for key in sorted(node.attrs)},
            types=[str(value.type) for value in outputs],
            location=None if node is None or node.location is None else str(node.location),
            regions=[_networkx(region, style, assumed) for region in vertex.regions],
        )
    for vertex in vertices:
        for operand, value in enumerate(vertex.operands):
            source, output = sources[value]
            drawing.add_edge(
                source, vertex.key, operand=operand, output=output, value=names[value], type=str(value.type)
            )
    return drawing


def to_dot(graph: Graph, *, full: bool = False) -> str:
    """The graph as DOT text for Graphviz: ``dot -Tsvg``. Regions stand in frames under the op that has them.

    Colours are the reader's own: ink on no background, so that the drawing fits light and dark pages. ``full`` draws
    the decompositions of composites, too.
    """
    lines = [
        f"digraph {_quoted(graph.name)} {{",
        '  graph [bgcolor="transparent", color="gray50", fontcolor="gray50", fontname="monospace", fontsize=10];',
        '  node [color="gray50", fontcolor="gray50", fontname="monospace", fontsize=10, shape=box];',
        '  edge [color="gray50", fontcolor="gray50", fontname="monospace", fontsize=8];',
        *_dot(graph, Style(full=full, locations=False), graph.constraints, "", "  "),
    ]
    return "\n".join([*lines, "}"]) + "\n"


def _dot(graph: Graph, style: Style, assumed: tuple[SizeConstraint, ...], prefix: str, indent: str) -> Iterator[str]:
    """The statements of one graph; ``prefix`` tells its vertices from those of other regions."""
    vertices = list(_vertices(graph, style, assumed))
    sources = _sources(graph, _keys(vertices))
    for vertex in vertices:
        yield f"{indent}{_quoted(prefix + vertex.key)} [{_look(vertex, style)}];"
        for number, region in enumerate(vertex.regions):
            inner = f"{prefix}{vertex.key}/{number}/"
            yield f"{indent}subgraph {_quoted('cluster ' + inner)} {{"
            yield f"{indent}  label={_quoted(f'{vertex.label} {vertex.key}: {region.name}')}; style=dashed;"
            yield from _dot(region, style, assumed, inner, indent + "  ")
            yield f"{indent}}}"
            entry = region.inputs[0] if region.inputs else None
            first = value_names(region, style)[entry] if entry is not None else RETURN
            yield f"{indent}{_quoted(prefix + vertex.key)} -> {_quoted(inner + first)} [style=dotted, arrowhead=none];"
    for vertex in vertices:
        for value in vertex.operands:
            source, output = sources[value]
            label = str(value.type) if output == 0 else f"{output}: {value.type}"
            yield f"{indent}{_quoted(prefix + source)} -> {_quoted(prefix + vertex.key)} [label={_quoted(label)}];"


def _look(vertex: _Vertex, style: Style) -> str:
    node = vertex.node
    if node is None:
        shape = "ellipse" if vertex.value is not None else "plaintext"
        return f"label={_quoted(vertex.label)}, shape={shape}"
    texts = [f"{key}={_short(attr_text(node.attrs[key], style))}" for key in sorted(node.attrs)]
    tooltip = "" if node.location is None else f", tooltip={_quoted(str(node.location))}"
    return f"label={_quoted(chr(10).join([node.op.name, *texts]))}{tooltip}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _quoted(text: str) -> str:
    """A string of DOT, in which a quote and a backslash are escaped and a line's end is written ``\\n``."""
    escaped = re.sub(r'(["\\])', r"\\\1", text).replace("\n", "\\n")
    return f'"{escaped}"'
