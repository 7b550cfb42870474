"""Which names statements bind and read, in the scope of the function in which they stand."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from math import inf
from typing import Final, TypeAlias

_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
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
    if isinstance(node, _SCOPES):
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
    later = later or isinstance(node, (*_SCOPES, ast.GeneratorExp))
    for name in _read_by(node):
        positions.setdefault(name, []).append(ANYWHERE if later else _start(node) or ANYWHERE)
    for child in ast.iter_child_nodes(node):
        _note_reads(child, later, positions)


def own(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes and all below them, without the insides of functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from own(ast.iter_child_nodes(node))
