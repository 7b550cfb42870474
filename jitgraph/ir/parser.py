"""The reader of graph text (see ``ir/printer.py`` for the form). Strict, and safe on any text.

Depth, lengths and numbers are limited, values must be defined before use, and every mistake is a GraphError that shows
the line. Types are taken as written: ``verify`` derives them again.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from jitgraph.dtypes import BY_SHORT_NAME
from jitgraph.errors import GraphError, JitgraphError
from jitgraph.ir.builder import decomposition
from jitgraph.ir.constraints import Constraints, SizeConstraint
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Attr, Graph, Node, Value
from jitgraph.ir.op import Op, all_ops
from jitgraph.ir.printer import parse_constraint, parse_elements, parse_scalar, parse_size
from jitgraph.ir.types import Constant, StackType, TensorType, TokenType, Type
from jitgraph.location import Location

MAX_TEXT: Final = 64 << 20  # characters
MAX_REGION_DEPTH: Final = 32
MAX_TUPLE_DEPTH: Final = 16
MAX_CONSTRAINTS: Final = 4096

_SPACE = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_COMMENT = re.compile(r"#[ \t]*([^\n]*?):([0-9]{1,9})[ \t\r]*(?=\n|\Z)")
_VALUE = re.compile(r"%([A-Za-z0-9_.]+)")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TITLE = re.compile(r"@[A-Za-z0-9_.]+")
_SHAPE = re.compile(r"\[([^\[\]{}#\"\n]*)\]")
_WHERE = re.compile(r"[^\[\]{}#\"\n]+")
_SCALAR = re.compile(r"[^,\[\]{}#\"<>\n]+")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_ELEMENTS = re.compile(r"\[([^\[\]{}#\"]*)\]")


def parse(
    text: str,
    *,
    constants: Mapping[str, Constant] | None = None,
    ops: Mapping[str, Op] | None = None,
    file: str | None = None,
    elided: bool = True,
) -> Graph:
    """The graph that ``print_graph`` printed.

    ``constants``: by sha256, those that the text only names (``large_constants`` collects them). ``ops``: the table,
    by default all that ``jitgraph.ops`` defines. ``file``: nodes without a source line of their own get the line of
    this file. ``elided``: composites may stand without their region and get the op's own decomposition.
    """
    reader = _Reader(text, all_ops() if ops is None else ops, constants or {}, file, elided)
    graph = reader.graph(0, None)
    reader.skip()
    if reader.position != len(text):
        raise reader.error("the text goes on after the end of the graph")
    return graph


class _Reader:
    def __init__(
        self, text: str, ops: Mapping[str, Op], constants: Mapping[str, Constant], file: str | None, elided: bool
    ) -> None:
        self.text = text
        self.ops = ops
        self.constants = constants
        self.file = file
        self.elided = elided
        self.position = 0
        if len(text) > MAX_TEXT:
            raise GraphError(f"a graph text of {len(text)} characters is too long; at most {MAX_TEXT}")
        self.line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def line(self, position: int) -> int:
        return bisect.bisect_right(self.line_starts, position)

    def error(self, message: str, position: int | None = None) -> GraphError:
        position = self.position if position is None else position
        number = self.line(position)
        start = self.line_starts[number - 1]
        line = self.text[start : start + 2000].split("\n", 1)[0]
        location = None if self.file is None else Location(self.file, number)
        return GraphError(f"line {number}: {message}\n    {line.strip()[:200]}", location=location)

    def skip(self) -> None:
        match = _SPACE.match(self.text, self.position)
        assert match is not None
        self.position = match.end()

    def accept(self, literal: str) -> bool:
        self.skip()
        if self.text.startswith(literal, self.position):
            self.position += len(literal)
            return True
        return False

    def follows(self, literal: str) -> bool:
        """``accept`` that leaves a comment before anything else where it stands."""
        start = self.position
        if self.accept(literal):
            return True
        self.position = start
        return False

    def expect(self, literal: str) -> None:
        if not self.accept(literal):
            actual = self.text[self.position : self.position + 20].split("\n")[0] or "the end"
            raise self.error(f"expected {literal!r}, found {actual!r}")

    def take(self, pattern: re.Pattern[str], what: str) -> str:
        self.skip()
        match = pattern.match(self.text, self.position)
        if match is None:
            actual = self.text[self.position : self.position + 20].split("\n")[0] or "the end"
            raise self.error(f"expected {what}, found {actual!r}")
        self.position = match.end()
        return match[match.re.groups]

    def graph(self, depth: int, outer: tuple[SizeConstraint, ...] | None) -> Graph:
        if depth > MAX_REGION_DEPTH:
            raise self.error(f"regions are nested more than {MAX_REGION_DEPTH} deep")
        self.expect("graph")
        self.skip()
        name = self.take(_TITLE, "a name")[1:] if self.text.startswith("@", self.position) else "graph"
        scope: dict[str, Value] = {}
        self.expect("(")
        inputs = [] if self.accept(")") else self.definitions(scope, ")")
        self.expect("->")
        types = self.result_types()
        constraints = self.constraints() if self.accept("where") else ()
        self.expect("{")
        nodes = []
        while not self.is_return():
            nodes.append(self.node(scope, depth, (*(outer or ()), *constraints)))
        start = self.position
        outputs = [] if self.accept("}") else self.uses(scope, "}")
        if [value.type for value in outputs] != types:
            actual = ", ".join(str(value.type) for value in outputs)
            raise self.error(f"the graph returns ({actual}), its title says ({', '.join(map(str, types))})", start - 1)
        return Graph(tuple(inputs), tuple(nodes), tuple(outputs), constraints, name)

    def is_return(self) -> bool:
        self.skip()
        match = _WORD.match(self.text, self.position)
        if match is None or match[0] != "return":
            return False
        self.position = match.end()
        return True

    def result_types(self) -> list[Type]:
        if self.accept("("):
            self.expect(")")
            return []
        types = [self.type()]
        while self.accept(","):
            types.append(self.type())
        return types

    def constraints(self) -> tuple[SizeConstraint, ...]:
        start = self.position
        try:
            texts = self.take(_WHERE, "constraints").split(",")
            if len(texts) > MAX_CONSTRAINTS:
                raise self.error(f"{len(texts)} constraints; at most {MAX_CONSTRAINTS}", start)
            return tuple(map(parse_constraint, texts))
        except JitgraphError as error:
            raise self.wrapped(error, start) from None

    def wrapped(self, error: JitgraphError, position: int) -> GraphError:
        message = str(getattr(error, "message", error))
        return error if isinstance(error, GraphError) and message.startswith("line ") else self.error(message, position)

    def definitions(self, scope: dict[str, Value], end: str) -> list[Value]:
        values = []
        while True:
            name = self.take(_VALUE, "a value such as %x")
            start = self.position
            self.expect(":")
            if name in scope:
                raise self.error(f"%{name} is defined twice", start)
            value = Value(self.type(), None if name.isdecimal() else name)
            scope[name] = value
            values.append(value)
            if not self.accept(","):
                self.expect(end)
                return values

    def uses(self, scope: Mapping[str, Value], end: str) -> list[Value]:
        values = []
        while True:
            name = self.take(_VALUE, "a value such as %x")
            if name not in scope:
                raise self.error(f"%{name} is not defined here", self.position - 1)
            values.append(scope[name])
            if not self.accept(","):
                self.expect(end)
                return values

    def node(self, scope: dict[str, Value], depth: int, constraints: tuple[SizeConstraint, ...]) -> Node:
        self.skip()
        start = self.position
        results: dict[str, Value] = {}
        if self.text.startswith("%", start):
            # The results come into scope after the operands are read: a node cannot use its own output.
            self.definitions(results, "=")
            if again := results.keys() & scope.keys():
                raise self.error(f"%{min(again)} is defined twice", start)
        name = self.take(_WORD, "an op")
        if name not in self.ops:
            hint = "" if self.ops else "; the table is empty: import jitgraph.ops first"
            raise self.error(f"there is no op called {name!r}{hint}", start)
        op = self.ops[name]
        self.expect("(")
        inputs = [] if self.accept(")") else self.uses(scope, ")")
        attrs = self.attrs() if self.follows("{") else {}
        regions: list[Graph] = []
        opened = self.follows("[")
        location = self.location(start)
        if opened:
            while not self.accept("]"):
                regions.append(self.graph(depth + 1, constraints))
        elif op.decompose is not None:
            regions.append(self.decomposition(op, inputs, attrs, constraints, start))
        scope.update(results)
        return Node(op, tuple(inputs), attrs, tuple(results.values()), tuple(regions), location)

    def decomposition(
        self, op: Op, inputs: Sequence[Value], attrs: Mapping[str, Attr], known: tuple[SizeConstraint, ...], start: int
    ) -> Graph:
        if not self.elided:
            raise self.error(f"the composite {op.name} stands without its region", start)
        try:
            return decomposition(op, [value.type for value in inputs], attrs, Constraints(known, frozen=True))
        except Exception as error:  # operands and attributes are the text's: the op may refuse them in any way
            raise self.error(f"{op.name}: {getattr(error, 'message', error)}", start) from error

    def location(self, start: int) -> Location | None:
        blank = _BLANK.match(self.text, self.position)
        assert blank is not None
        if (match := _COMMENT.match(self.text, blank.end())) is not None:
            return Location(match[1], int(match[2]))
        return None if self.file is None else Location(self.file, self.line(start))

    def type(self) -> Type:
        word = self.take(_WORD, "a type such as f32[2, n]")
        if word == "token":
            return TokenType()
        if word == "stack":
            self.expect("<")
            element = self.type_of_tensor(self.take(_WORD, "a tensor type"))
            self.expect(">")
            return StackType(element)
        return self.type_of_tensor(word)

    def type_of_tensor(self, word: str) -> TensorType:
        start = self.position
        if word not in BY_SHORT_NAME:
            raise self.error(f"{word!r} is not a dtype; one of {', '.join(BY_SHORT_NAME)}", start - 1)
        inside = self.take(_SHAPE, "a shape such as [2, n]").strip()
        try:
            shape: tuple[DimLike, ...] = tuple(map(parse_size, inside.split(","))) if inside else ()
        except JitgraphError as error:
            raise self.wrapped(error, start) from None
        return TensorType(BY_SHORT_NAME[word], shape)

    def attrs(self) -> dict[str, Attr]:
        attrs: dict[str, Attr] = {}
        if self.accept("}"):
            return attrs
        while True:
            name = self.take(_WORD, "the name of an attribute")
            if name in attrs:
                raise self.error(f"the attribute {name} stands twice")
            self.expect("=")
            attrs[name] = self.attr(0)
            if not self.accept(","):
                self.expect("}")
                return attrs

    def attr(self, depth: int) -> Attr:
        if depth > MAX_TUPLE_DEPTH:
            raise self.error(f"tuples are nested more than {MAX_TUPLE_DEPTH} deep")
        if self.accept("["):
            items: list[Attr] = []
            while not self.accept("]"):
                if items:
                    self.expect(",")
                items.append(self.attr(depth + 1))
            return tuple(items)
        start = self.position
        try:
            if self.text.startswith('"', start):
                return str(json.loads(self.take(_STRING, "a string in double quotes")))
            if self.accept("dense<"):
                return self.dense()
            return parse_scalar(self.take(_SCALAR, "a value").strip())
        except json.JSONDecodeError:
            raise self.error("this string is not well formed", start) from None
        except JitgraphError as error:
            raise self.wrapped(error, start) from None

    def dense(self) -> Constant:
        type = self.type_of_tensor(self.take(_WORD, "a tensor type"))
        self.expect(":")
        self.skip()
        if not self.text.startswith("sha256:", self.position):
            inside = self.take(_ELEMENTS, "elements in [ ]").strip()
            self.expect(">")
            return parse_elements(type, [item.strip() for item in inside.split(",")] if inside else [])
        digest = self.take(_DIGEST, "a sha256 of 64 digits")
        self.expect(">")
        constant = self.constants.get(digest)
        if constant is None:
            raise self.error(f"the data of the constant sha256:{digest[:12]}... is not in the table of constants")
        if constant.digest != digest or constant.type != type:
            raise self.error(f"the constant sha256:{digest[:12]}... is not the {type} that the text says")
        return constant
