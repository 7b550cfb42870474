"""Which names statements bind and read, and which may have no value where they are read (definite assignment)."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any, Final, TypeAlias, TypeVar

# ----------------------------------------------------------------------
# Copies of syntax trees.

_Tree = TypeVar("_Tree", bound=ast.AST)

_SHARED: Final = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
"""Nodes that have no parts: the parser, too, has one of each for all trees."""


def copied(tree: _Tree) -> _Tree:
    """A tree of new nodes with the same parts; ``copy.deepcopy`` takes three times as long."""
    copy = type(tree).__new__(type(tree))  # CPython 3.13 warns of nodes that are made without their parts
    vars(copy).update({name: _copied(part) for name, part in vars(tree).items()})
    return copy


def _copied(part: Any) -> Any:
    if isinstance(part, list):
        return [_copied(item) for item in part]
    return copied(part) if isinstance(part, ast.AST) and not isinstance(part, _SHARED) else part


# ----------------------------------------------------------------------
# Which names statements bind and read, in the scope of the function in which they stand.

SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
ANYWHERE: Final = (inf, inf)  # a position behind all statements
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def bound(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that the nodes bind."""
    return {name for node in nodes for name, *_ in _bindings(node, False)}


def lines_of(nodes: Iterable[ast.AST]) -> dict[str, list[int]]:
    """At which lines the nodes bind each name."""
    lines_by_name: dict[str, list[int]] = {}
    for node in nodes:
        for name, _, line in _bindings(node, False):
            lines_by_name.setdefault(name, []).append(line)
    return {name: sorted(set(lines)) for name, lines in lines_by_name.items()}


def bound_by_assignment(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that the nodes bind in another way than ``name += value``."""
    return {name for node in nodes for name, in_place, _ in _bindings(node, False) if not in_place}


_BLOCKS: Final = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.TryStar)


def _bindings(node: ast.AST, inside: bool) -> Iterable[tuple[str, bool, int]]:
    """(name, whether by an augmented assignment, line); ``inside`` a comprehension only ``:=`` binds outwards.

    Those of statements with blocks are computed once: each statement around them asks for them again.
    """
    if not isinstance(node, _BLOCKS):
        return _found_bindings(node, inside)
    known = getattr(node, "jg_bindings", None)
    if known is None:
        known = node.jg_bindings = tuple(_found_bindings(node, inside))  # type: ignore[union-attr]
    return known


def _found_bindings(node: ast.AST, inside: bool) -> Iterator[tuple[str, bool, int]]:
    line = getattr(node, "lineno", 0)
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, False, line
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if not inside:
            yield name, False, line
        case ast.AugAssign(target=ast.Name(id=name)):
            yield name, True, line
            yield from _bindings(node.value, inside)
            return
        case ast.NamedExpr(target=ast.Name(id=name)):
            yield name, False, line
        case ast.alias(name=name, asname=asname):
            yield asname or name.split(".")[0], False, line
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name, False, line
        case ast.MatchMapping(rest=str(name)):
            yield name, False, line
    if isinstance(node, SCOPES):
        return
    for child in ast.iter_child_nodes(node):
        yield from _bindings(child, inside or isinstance(node, _COMPREHENSIONS))


def reads(nodes: Iterable[ast.AST]) -> Counter[str]:
    """How often each name is read, functions inside included."""
    counts: Counter[str] = Counter()
    for node in nodes:
        _count_reads(node, counts)
    return counts


def _count_reads(node: ast.AST, found: Counter[str]) -> None:
    """Add the reads of a node; those of a statement with blocks are counted once."""
    if not isinstance(node, _BLOCKS):
        for name in _read_by(node):
            found[name] += 1
        for child in ast.iter_child_nodes(node):
            _count_reads(child, found)
        return
    known: Counter[str] | None = getattr(node, "jg_reads", None)
    if known is None:
        known = node.jg_reads = reads(ast.iter_child_nodes(node))  # type: ignore[union-attr]
    found.update(known)


def _read_by(node: ast.AST) -> tuple[str, ...]:
    """The name that a node reads itself."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()) | ast.AugAssign(target=ast.Name(id=name)):
            return (name,)
    return ()


Position: TypeAlias = "tuple[float, float]"  # of a node in its source: line and column


def position(node: ast.AST) -> Position:
    """Where the source of a node starts, its parts included: some are made of statements before it."""
    return _first(node) or (0, 0)


def _first(node: ast.AST) -> Position | None:
    if isinstance(node, _BLOCKS) and hasattr(node, "jg_first"):
        first: Position | None = node.jg_first
        return first
    starts = [start for start in (_start(node), *map(_first, ast.iter_child_nodes(node))) if start is not None]
    first = min(starts, default=None)
    if isinstance(node, _BLOCKS):
        node.jg_first = first  # type: ignore[union-attr]
    return first


def _start(node: ast.AST) -> Position | None:
    return (node.lineno, node.col_offset) if isinstance(node, ast.stmt | ast.expr) and hasattr(node, "lineno") else None


def read_positions(nodes: Iterable[ast.AST]) -> dict[str, list[Position]]:
    """Where each name is read, ``ANYWHERE`` for the insides of functions, which run when they are called."""
    positions: dict[str, list[Position]] = {}
    for root in nodes:
        _note_reads(root, False, positions)
    return positions


def _note_reads(node: ast.AST, later: bool, positions: dict[str, list[Position]]) -> None:
    later = later or isinstance(node, (*SCOPES, ast.GeneratorExp))
    for name in _read_by(node):
        positions.setdefault(name, []).append(ANYWHERE if later else _start(node) or ANYWHERE)
    for child in ast.iter_child_nodes(node):
        _note_reads(child, later, positions)


def own(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes and all below them, without the insides of functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, SCOPES):
            yield from own(ast.iter_child_nodes(node))


# ----------------------------------------------------------------------
# Which variables of a function may have no value where they are read: definite assignment, as compilers decide it.

Known: TypeAlias = "frozenset[str] | None"  # the names that have a value, or None where nothing gets
_LATER = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def possibly_unbound(node: ast.FunctionDef | ast.Lambda) -> set[str]:
    """The local variables that a function may read before they have a value, as far as its statements say."""
    if isinstance(node, ast.Lambda):
        return set()
    declared = {name for s in own(node.body) if isinstance(s, ast.Global | ast.Nonlocal) for name in s.names}
    flow = _Flow(bound(node.body) - declared)
    arguments = node.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    flow.block(node.body, frozenset(arg.arg for arg in parameters if arg is not None))
    return flow.unbound


class _Flow:
    """Goes through statements with the names that have a value before each."""

    def __init__(self, variables: set[str]) -> None:
        self.variables = variables
        self.unbound: set[str] = set()
        self.breaks: list[list[Known]] = []

    def block(self, statements: Sequence[ast.stmt], known: Known) -> Known:
        """The names that have a value behind the statements."""
        for statement in statements:
            known = self.statement(statement, known)
        return known

    def read(self, nodes: Iterable[ast.AST | None], known: Known) -> None:
        """Note what is read without a value."""
        if known is None:
            return
        for node in nodes:
            for inner in ast.walk(node) if node is not None else ():
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load) and inner.id not in known:
                    self.unbound |= {inner.id} & self.variables

    def statement(self, node: ast.stmt, known: Known) -> Known:
        match node:
            case ast.If():
                self.read([node.test], known)
                known = _with(known, _named([node.test]))
                return _both(self.block(node.body, known), self.block(node.orelse, known))
            case ast.While():
                self.read([node.test], known)
                known = _with(known, _named([node.test]))
                endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
                return self.loop(node, known, known, endless)
            case ast.For() | ast.AsyncFor():
                self.read([node.iter], known)
                return self.loop(node, _with(known, bound([node.target])), known, False)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.read([item.context_expr], known)
                    known = _with(known, bound([item]))
                return self.block(node.body, known)
            case ast.Try() | ast.TryStar():
                return self.attempt(node, known)
            case ast.Return() | ast.Raise():
                self.read([node], known)
                return None
            case ast.Break():
                self.breaks[-1].append(known)
                return None
            case ast.Continue():
                return None
            case ast.Delete():
                self.read([target for target in node.targets if not isinstance(target, ast.Name)], known)
                return None if known is None else known - bound([node])
            case ast.AugAssign(target=ast.Name(id=name)):
                self.read([node.value, ast.Name(id=name, ctx=ast.Load())], known)
                return _with(known, {name})
        self.read([node], known)
        return _with(known, bound([node]) if not isinstance(node, ast.Expr) else _named([node.value]))

    def loop(self, node: ast.While | ast.For | ast.AsyncFor, inside: Known, outside: Known, endless: bool) -> Known:
        self.breaks.append([])
        self.block(node.body, inside)
        left = self.breaks.pop()
        after = None if endless else self.block(node.orelse, outside)
        for known in left:
            after = _both(after, known)
        return after

    def attempt(self, node: ast.Try | ast.TryStar, known: Known) -> Known:
        after = self.block(node.orelse, self.block(node.body, known))
        for handler in node.handlers:
            self.read([handler.type], known)
            after = _both(after, self.block(handler.body, _with(known, {handler.name} if handler.name else set())))
        self.block(node.finalbody, known)
        return _with(after, bound(node.finalbody))


def _with(known: Known, names: set[str]) -> Known:
    return None if known is None else known | names


def _both(a: Known, b: Known) -> Known:
    return b if a is None else a if b is None else a & b


def _named(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that ``:=`` binds in any case."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.NamedExpr):
            names |= bound([node.target])
        if not isinstance(node, _LATER):
            names |= _named(ast.iter_child_nodes(node))
    return names
