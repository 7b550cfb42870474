"""Graphs as text: for people (names, source lines), for files (everything), and canonical (equal graphs, equal
text).
"""

from __future__ import annotations

import ast
import json
import keyword
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from jitgraph.dtypes import BY_SHORT_NAME, SHORT_NAMES, DType, float64, is_bool, is_complex, is_float, part_of
from jitgraph.errors import GraphError
from jitgraph.ir import context
from jitgraph.ir.constraints import Constraints, Relation, SizeConstraint
from jitgraph.ir.dims import Dim, DimLike, parse_dim
from jitgraph.ir.types import Constant, TensorType
from jitgraph.records import dataclass

if TYPE_CHECKING:
    from jitgraph.ir.graph import Attr, Attrs, Graph, Node, Value
    from jitgraph.ir.op import Op
    from jitgraph.ir.types import Type

# ----------------------------------------------------------------------
# The text of attribute values, both ways and bit exact: numbers, dtypes, sizes, strings, tuples and dense constants.
#
# Text that comes from a file is not trusted: every length and depth has a limit, and anything wrong is a GraphError.

INLINE_ELEMENTS: Final = 32  # constants with more elements are printed by their sha256
MAX_SIZE_TEXT: Final = 256  # characters of one size expression
MAX_SIZE_TERMS: Final = 1000  # terms that one may multiply out to

_INT: Final = r"-?[0-9]{1,20}"
_FLOAT: Final = r"-?(?:[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]{1,4})?|[0-9]+[eE][-+]?[0-9]{1,4}|inf|nan(?::0x[0-9a-f]+)?)"
_SIZE: Final = r"[A-Za-z0-9_+\-*/%() ]+"
_NAME: Final = r"[A-Za-z][A-Za-z0-9_]*"
_WORDS: Final[dict[str, Attr]] = {"true": True, "false": False, "none": None, **BY_SHORT_NAME}


def format_attr(attr: Attr, inline: int = INLINE_ELEMENTS) -> str:
    """The text of an attribute's value; constants of more than ``inline`` elements are named by their sha256."""
    match attr:
        case None:
            return "none"
        case bool():
            return "true" if attr else "false"
        case int():
            return str(int(attr))
        case float():
            return _float_text(np.array([attr], np.float64), 0)
        case str():
            return json.dumps(attr)
        case np.dtype() if attr in SHORT_NAMES:
            return SHORT_NAMES[attr]
        case Dim():
            return str(attr) if _is_size(str(attr)) else f"({attr})"
        case Constant():
            return _format_constant(attr, inline)
        case tuple():
            return f"[{', '.join(format_attr(item, inline) for item in attr)}]"
    raise GraphError(f"{attr!r} cannot be an attribute")


def _is_size(text: str) -> bool:
    return text not in _WORDS and not re.fullmatch(_INT, text) and not re.fullmatch(_FLOAT, text)


def _format_constant(constant: Constant, inline: int) -> str:
    value = constant.value.reshape(-1)
    if value.size > inline:
        return f"dense<{constant.type}: sha256:{constant.digest}>"
    if is_complex(value.dtype):
        value = value.view(part_of(value.dtype))  # the real and the imaginary part of each
    if is_float(value.dtype):
        elements = [_float_text(value, i) for i in range(value.size)]
    else:
        elements = [format_attr(item) for item in value.tolist()]
    return f"dense<{constant.type}: [{', '.join(elements)}]>"


def _bits(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return value.view(np.dtype(f"u{value.dtype.itemsize}"))


def _float_text(value: np.ndarray[Any, Any], index: int) -> str:
    """The shortest text that reads back as the same bits: ``0.1`` for float32 too, ``nan:0x...`` for an odd NaN."""
    item = value[index]
    with np.errstate(invalid="ignore"):  # a signalling NaN
        is_nan = bool(np.isnan(item))
    if is_nan:
        usual = _bits(np.array([math.nan], value.dtype))[0]
        bits = _bits(value)[index]
        return "nan" if bits == usual else f"nan:0x{int(bits):x}"
    exact = repr(float(item))
    if value.dtype == float64:
        return exact
    short = str(item)
    return short if re.fullmatch(_FLOAT, short) and value.dtype.type(float(short)) == item else exact


def parse_scalar(text: str) -> Attr:
    """The int, float, bool, none, dtype or size that ``format_attr`` printed."""
    if text in _WORDS:
        return _WORDS[text]
    if re.fullmatch(_INT, text):
        value = int(text)
        if not -(2**63) <= value < 2**64:
            raise GraphError(f"the integer {text} needs more than 64 bits")
        return value
    if re.fullmatch(_FLOAT, text):
        return float(_floats([text], float64)[0])
    return parse_size(text)


def parse_size(text: str) -> DimLike:
    """The size that ``str(dim)`` printed; GraphError also where it is too long, or would multiply out too far."""
    text = text.strip()
    if re.fullmatch(_INT, text):
        return int(text)
    if is_size_name(text):
        return Dim.name(text)
    if len(text) > MAX_SIZE_TEXT:
        raise GraphError(f"a size of {len(text)} characters is too long; at most {MAX_SIZE_TEXT}")
    # What Python would read as more than a size (0x1f, 1e9, 2**9, None) is refused before ast.parse sees it.
    words = re.findall(r"[A-Za-z0-9_]+", text)
    if not re.fullmatch(_SIZE, text) or "**" in text or not all(w.isdecimal() or is_size_name(w) for w in words):
        raise GraphError(f"{text!r} is not a size")
    try:
        bound = _terms_bound(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise GraphError(f"{text!r} is not a size") from None
    if bound > MAX_SIZE_TERMS:
        raise GraphError(f"the size {text!r} has too many terms")
    return parse_dim(text)


def is_size_name(name: str) -> bool:
    """Whether a size may be called so: ASCII letters, digits and ``_``, first a letter, no word of Python."""
    return re.fullmatch(_NAME, name) is not None and not keyword.iskeyword(name)


def _terms_bound(tree: ast.expr) -> int:
    match tree:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return min(_terms_bound(left) * _terms_bound(right), MAX_SIZE_TERMS + 1)
        case ast.BinOp(left=left, right=right):
            return min(_terms_bound(left) + _terms_bound(right), MAX_SIZE_TERMS + 1)
        case ast.UnaryOp(operand=operand):
            return _terms_bound(operand)
    return 1


def parse_constraint(text: str) -> SizeConstraint:
    """The constraint that ``str`` printed, with the limits of ``parse_size``."""
    relations: tuple[Relation, ...] = ("==", ">=")
    for relation in relations:
        left, separator, right = text.partition(relation)
        if separator:
            return SizeConstraint(parse_size(left), relation, parse_size(right))
    raise GraphError(f"{text.strip()!r} is not a constraint; expected 'a == b' or 'a >= b'")


def parse_elements(type: TensorType, texts: Sequence[str]) -> Constant:
    """The constant of ``type`` with these elements in row-major order."""
    shape: list[int] = []
    for dim in type.shape:
        if not isinstance(dim, int):
            raise GraphError(f"a constant cannot have the named size {dim}")
        shape.append(dim)
    if is_complex(type.dtype):
        if len(texts) != 2 * math.prod(shape):
            raise GraphError(f"{len(texts)} numbers for a constant of type {type}, which has 2 * {math.prod(shape)}")
        return Constant(_floats(texts, part_of(type.dtype)).view(type.dtype).reshape(shape))
    if len(texts) != math.prod(shape):
        raise GraphError(f"{len(texts)} elements for a constant of type {type}, which has {math.prod(shape)}")
    return Constant(_elements(texts, type.dtype).reshape(shape))


def _elements(texts: Sequence[str], dtype: DType) -> np.ndarray[Any, Any]:
    if is_float(dtype):
        return _floats(texts, dtype)
    pattern = re.compile("true|false" if is_bool(dtype) else _INT)
    for text in texts:
        if not pattern.fullmatch(text):
            raise GraphError(f"{text!r} is not an element of type {SHORT_NAMES[dtype]}")
    if is_bool(dtype):
        return np.array([text == "true" for text in texts], dtype)
    bounds = np.iinfo(dtype)
    values = [int(text) for text in texts]
    for value in values:
        if not bounds.min <= value <= bounds.max:
            raise GraphError(f"{value} does not fit into {SHORT_NAMES[dtype]}")
    return np.array(values, dtype)


def _floats(texts: Sequence[str], dtype: DType) -> np.ndarray[Any, Any]:
    for text in texts:
        if not re.fullmatch(_FLOAT, text):
            raise GraphError(f"{text!r} is not an element of type {SHORT_NAMES[dtype]}, such as 1.0, 1e-9, inf, nan")
    with np.errstate(all="ignore"):
        result = np.array([float(text.partition(":")[0]) for text in texts], np.float64).astype(dtype)
    for index, text in enumerate(texts):
        if ":" in text:
            bits = int(text.partition(":")[2], 16)
            if bits >> (8 * dtype.itemsize):
                raise GraphError(f"{text!r} has more bits than {SHORT_NAMES[dtype]}")
            _bits(result)[index] = bits
    return result


# ----------------------------------------------------------------------
# Graphs as text: for people (names, source lines), for files (everything), and canonical (equal graphs, equal
# text).

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
_NOT_IN_NAMES: Final = r"[^A-Za-z0-9_.]"


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
    names = value_names(graph, style)
    title = "graph" if style.canonical else f"graph @{re.sub(_NOT_IN_NAMES, '_', graph.name) or '_'}"
    inputs = ", ".join(f"{names[value]}: {value.type}" for value in graph.inputs)
    types = ", ".join(str(value.type) for value in graph.outputs) or "()"
    constraints = [str(constraint) for constraint in graph.constraints]
    where = f" where {', '.join(sorted(constraints) if style.canonical else constraints)}" if constraints else ""
    yield f"{indent}{title}({inputs}) -> {types}{where} {{", None
    inner = indent if style.canonical else indent + "  "
    for node in graph.nodes:
        text = inner + _application(node, names, style)
        regions = () if is_elided(node, style, assumed) else node.regions
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


def value_names(graph: Graph, style: Style) -> dict[Value, str]:
    """What the text calls each value: its hint, or its number."""
    names: dict[Value, str] = {}
    taken: set[str] = set()
    number = 0
    for value in (*graph.inputs, *(output for node in graph.nodes for output in node.outputs)):
        if value in names:
            continue
        hint = re.sub(_NOT_IN_NAMES, "_", value.hint) if value.hint and not style.canonical else ""
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
    attrs = ", ".join(f"{key}={attr_text(node.attrs[key], style)}" for key in sorted(node.attrs))
    return f"{outputs}{' = ' if outputs else ''}{node.op.name}({inputs}){f' {{{attrs}}}' if attrs else ''}"


def attr_text(attr: Attr, style: Style) -> str:
    """An attribute as the text has it."""
    try:
        return format_attr(attr, style.inline)
    except GraphError:
        if not style.lenient:
            raise
        return repr(attr)


def is_elided(node: Node, style: Style, assumed: tuple[SizeConstraint, ...]) -> bool:
    """Whether the reader can make the region itself: it is what the op's own decomposition gives."""
    if style.full or node.op.decompose is None or len(node.regions) != 1:
        return False
    try:
        types = [value.type for value in node.inputs]
        return is_decomposition(node.regions[0], node.op, types, node.attrs, Constraints(assumed, frozen=True))
    except Exception:  # a broken graph is printed too: with all that it has
        return False
