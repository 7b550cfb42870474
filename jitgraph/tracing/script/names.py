"""Which names statements bind and read, in the scope of the function in which they stand."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def bound(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that the nodes bind."""
    return {name for node in nodes for name, *_ in _bindings(node, False)}


def lines_of(nodes: Iterable[ast.AST]) -> dict[str, list[int]]:
    """At which lines the nodes bind each name."""
    found: dict[str, list[int]] = {}
    for node in nodes:
        for name, _, line in _bindings(node, False):
            found.setdefault(name, []).append(line)
    return {name: sorted(set(lines)) for name, lines in found.items()}


def bound_by_assignment(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that the nodes bind in another way than ``name += value``."""
    return {name for node in nodes for name, in_place, _ in _bindings(node, False) if not in_place}


def _bindings(node: ast.AST, inside: bool) -> Iterator[tuple[str, bool, int]]:
    """(name, whether by an augmented assignment, line); ``inside`` a comprehension only ``:=`` binds outwards."""
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
    found: Counter[str] = Counter()
    for root in nodes:
        for node in ast.walk(root):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found[node.id] += 1
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] += 1
    return found


def own(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes and all below them, without the insides of functions and classes."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from own(ast.iter_child_nodes(node))
