"""Which variables of a function may have no value where they are read: definite assignment, as compilers decide it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from jitgraph.tracing.script.names import bound, own

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
