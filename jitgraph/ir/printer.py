"""Graphs as text: for people (names, source lines), for files (everything), and canonical (equal graphs, equal
text).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jitgraph.errors import GraphError
from jitgraph.ir import context
from jitgraph.ir.constraints import Constraints, SizeConstraint
from jitgraph.ir.literals import INLINE_ELEMENTS, format_attr
from jitgraph.ir.types import Constant
from jitgraph.records import dataclass

if TYPE_CHECKING:
    from jitgraph.ir.graph import Attr, Attrs, Graph, Node, Value
    from jitgraph.ir.op import Op
    from jitgraph.ir.types import Type

# ----------------------------------------------------------------------
# Whether the region of a composite is what its op's own decomposition gives: then text may leave it out.


def is_decomposition(
    region: Graph, op: Op, types: Sequence[Type], attrs: Mapping[str, Any], constraints: Constraints
) -> bool:
    """Whether ``ir.builder.decomposition`` of the same arguments equals ``region``; what the op raises is passed on."""
    if op.decompose is None or region.constraints or [value.type for value in region.inputs] != list(types):
        return False
    reading = _Reading(region, constraints)
    try:
        with context.using(emitter=reading, constraints=constraints):
            result = op.decompose(*region.inputs, **attrs)
    except _OtherNodeError:
        return False
    outputs = result if isinstance(result, tuple | list) else (result,)
    return reading.is_done and tuple(outputs) == region.outputs


class _OtherNodeError(Exception):
    """What was emitted is not the next node of the region."""


class _Reading:
    """An emitter that appends nothing: it goes along the nodes of a region, as long as these are what is emitted."""

    def __init__(self, region: Graph, constraints: Constraints) -> None:
        self.nodes = region.nodes
        self.constraints = constraints
        self.position = 0

    @property
    def is_done(self) -> bool:
        return self.position == len(self.nodes)

    def emit(self, op: Op, inputs: Sequence[Value], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Value, ...]:
        if self.is_done:
            raise _OtherNodeError
        node = self.nodes[self.position]
        self.position += 1
        types = [value.type for value in inputs]
        if node.op is not op or node.inputs != tuple(inputs) or _texts(node.attrs) != _texts(attrs):
            raise _OtherNodeError
        if op.decompose is not None and not regions:
            if len(node.regions) != 1 or not is_decomposition(node.regions[0], op, types, attrs, self.constraints):
                raise _OtherNodeError
        elif node.regions != tuple(regions):
            raise _OtherNodeError
        if op.output_types(types, attrs, node.regions) != tuple(value.type for value in node.outputs):
            raise _OtherNodeError
        return node.outputs


def _texts(attrs: Attrs) -> dict[str, str]:
    """The attributes as canonical text has them, in which two zeros differ and a NaN is itself."""
    return {key: format_attr(attr) for key, attr in attrs.items()}


# ----------------------------------------------------------------------
# Graphs as text: for people (names, source lines), for files (everything), and canonical (equal graphs, equal text).
#
# ::
#
#     graph @f(%x: f32[n, 4], %i: i64[n]) -> f32[n, 4] where n >= 1 {
#       %0: f32[n, 4] = gather(%x, %i) {axis=0}  # model.py:12
#       %1: bool[] = full() {dtype=bool, shape=[], value=true}
#       %2: f32[n, 4] = cond(%1, %0) [  # model.py:13
#         graph @then(%0: f32[n, 4]) -> f32[n, 4] {
#           return %0
#         }
#         graph @otherwise(%0: f32[n, 4]) -> f32[n, 4] {
#           %1: f32[n, 4] = neg(%0)
#           return %1
#         }
#       ]
#       return %2
#     }
#
# ``ir/parser.py`` reads it back. A composite whose region is the op's own decomposition is printed without it unless
# ``full`` is asked for; canonical text and artifacts always hold it.

Line: TypeAlias = "tuple[str, Node | Graph | None]"  # what the line shows: a node, or a graph for its return

_COMMENT_COLUMN: Final = 64
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.]")


@dataclass(frozen=True, slots=True)
class Style:
    """How to print. ``full``: every composite with its region. ``inline``: the largest constant printed in place.

    ``lenient``: print what no attribute can be, too, for messages about it.
    """

    full: bool = False
    locations: bool = True
    inline: int = INLINE_ELEMENTS
    canonical: bool = False
    lenient: bool = False


def print_graph(graph: Graph, *, full: bool = False, locations: bool = True, inline: int = INLINE_ELEMENTS) -> str:
    """The graph as text that ``parse`` reads back; see ``Style`` for the choices."""
    return "\n".join(text for text, _ in lines_of(graph, Style(full, locations, inline)))


def canonical_text(graph: Graph) -> str:
    """The text without names and locations: two graphs are equal exactly where their canonical texts are."""
    return "\n".join(text for text, _ in lines_of(graph, Style(full=True, locations=False, canonical=True)))


def large_constants(graph: Graph, inline: int = INLINE_ELEMENTS) -> dict[str, Constant]:
    """By sha256, the constants that the text only names; ``parse`` takes this table."""
    constants: dict[str, Constant] = {}

    def visit(attr: Attr) -> None:
        if isinstance(attr, Constant) and attr.value.size > inline:
            constants[attr.digest] = attr
        elif isinstance(attr, tuple):
            for item in attr:
                visit(item)

    for node in graph.walk():
        for attr in node.attrs.values():
            visit(attr)
    return constants


def lines_of(
    graph: Graph, style: Style, indent: str = "", assumed: tuple[SizeConstraint, ...] | None = None
) -> Iterator[Line]:
    """The lines of the text, each with what it shows; ``assumed`` are the constraints of the outermost graph."""
    assumed = graph.constraints if assumed is None else assumed
    names = _names(graph, style)
    title = "graph" if style.canonical else f"graph @{_NOT_IN_NAMES.sub('_', graph.name) or '_'}"
    inputs = ", ".join(f"{names[value]}: {value.type}" for value in graph.inputs)
    types = ", ".join(str(value.type) for value in graph.outputs) or "()"
    constraints = [str(constraint) for constraint in graph.constraints]
    where = f" where {', '.join(sorted(constraints) if style.canonical else constraints)}" if constraints else ""
    yield f"{indent}{title}({inputs}) -> {types}{where} {{", None
    inner = indent if style.canonical else indent + "  "
    for node in graph.nodes:
        text = inner + _application(node, names, style)
        regions = () if _is_elided(node, style, assumed) else node.regions
        if regions:
            text += " ["
        if style.locations and node.location is not None:
            text = f"{text.ljust(_COMMENT_COLUMN)}  # {node.location}"
        yield text, node
        for region in regions:
            if style.canonical:
                yield region.canonical, node
            else:
                yield from lines_of(region, style, inner + "  ", assumed)
        if regions:
            yield inner + "]", node
    outputs = ", ".join(names.get(value, "%undefined") for value in graph.outputs)
    yield f"{inner}return {outputs}".rstrip(), graph
    yield indent + "}", None


def _names(graph: Graph, style: Style) -> dict[Value, str]:
    names: dict[Value, str] = {}
    taken: set[str] = set()
    number = 0
    for value in (*graph.inputs, *(output for node in graph.nodes for output in node.outputs)):
        if value in names:
            continue
        hint = _NOT_IN_NAMES.sub("_", value.hint) if value.hint and not style.canonical else ""
        if not hint or hint.isdecimal():
            names[value] = f"%{number}"
            number += 1
            continue
        name, copy = hint, 1
        while name in taken:
            copy += 1
            name = f"{hint}.{copy}"
        taken.add(name)
        names[value] = f"%{name}"
    return names


def _application(node: Node, names: Mapping[Value, str], style: Style) -> str:
    outputs = ", ".join(f"{names[value]}: {value.type}" for value in node.outputs)
    inputs = ", ".join(names.get(value, "%undefined") for value in node.inputs)
    attrs = ", ".join(f"{key}={_attr_text(node.attrs[key], style)}" for key in sorted(node.attrs))
    return f"{outputs}{' = ' if outputs else ''}{node.op.name}({inputs}){f' {{{attrs}}}' if attrs else ''}"


def _attr_text(attr: Attr, style: Style) -> str:
    try:
        return format_attr(attr, style.inline)
    except GraphError:
        if not style.lenient:
            raise
        return repr(attr)


def _is_elided(node: Node, style: Style, assumed: tuple[SizeConstraint, ...]) -> bool:
    """Whether the reader can make the region itself: it is what the op's own decomposition gives."""
    if style.full or node.op.decompose is None or len(node.regions) != 1:
        return False
    try:
        types = [value.type for value in node.inputs]
        return is_decomposition(node.regions[0], node.op, types, node.attrs, Constraints(assumed, frozen=True))
    except Exception:  # a broken graph is printed too: with all that it has
        return False
