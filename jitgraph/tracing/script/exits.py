"""``return``, ``break`` and ``continue`` become flags, and what follows them is guarded by the flags.

Where one side of an ``if`` always leaves, the statements that follow it move into the other side instead, so that
``if c: return a`` and ``return b`` become two sides that both give the result. A loop keeps in ``jg_stop`` the names of
the flags that end it.
"""

from __future__ import annotations

import ast
from typing import Any, Final, TypeAlias

from jitgraph.errors import ScriptError
from jitgraph.location import Location
from jitgraph.tracing.script.names import SCOPES, own

RETURNED: Final = "jg_returned_"
RESULT: Final = "jg_result_"
_LOOPS: Final = (ast.For, ast.While, ast.AsyncFor)
_STATEMENTS: Final = (ast.stmt, ast.ExceptHandler, ast.match_case)
Flags: TypeAlias = "set[str]"


def without_exits(node: ast.FunctionDef, file: str) -> list[ast.stmt]:
    """The body of a function with at most one ``return``, its last statement, and no ``break`` or ``continue``."""
    returns = [n for n in own(node.body) if isinstance(n, ast.Return)]
    tail = len(returns) == 1 and node.body[-1] is returns[0]
    leaves = _Leaves(file)
    if not returns or tail:
        return leaves.block(node.body)
    body = list(node.body)
    last = body[-1].end_lineno or node.lineno
    end = ast.Pass(lineno=last, col_offset=0, end_lineno=last, end_col_offset=0)
    if not _always_leaves(body):
        body.append(ast.copy_location(ast.Return(value=ast.copy_location(ast.Constant(value=None), end)), end))
    start = [_set(RETURNED, ast.Constant(value=False), body[0])]
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        start, body = [body[0], *start], body[1:]
    result = ast.Return(value=ast.Name(id=RESULT, ctx=ast.Load()))
    return [*start, *leaves.block(body, returns=True), ast.copy_location(result, body[-1])]


class _Leaves:
    def __init__(self, file: str) -> None:
        self.file = file
        self.count = 0
        self.returns = False
        self.breaks: list[str] = []
        self.continues: list[str] = []

    def block(self, statements: list[ast.stmt], returns: bool | None = None) -> list[ast.stmt]:
        """The statements with flags in place of exits."""
        if returns is not None:
            self.returns = returns
        rewritten: list[ast.stmt] = []
        for number, statement in enumerate(statements):
            rest = statements[number + 1 :]
            flags = self.flags(statement)
            if isinstance(statement, ast.If) and flags and rest:
                left, right = _always_leaves(statement.body), _always_leaves(statement.orelse)
                if left or right:
                    body = statement.body if left else [*statement.body, *rest]
                    orelse = [*statement.orelse, *rest] if left and not right else statement.orelse
                    moved = ast.If(test=statement.test, body=self.block(body), orelse=self.block(orelse))
                    return [*rewritten, ast.copy_location(moved, statement)]
            rewritten += self.statement(statement)
            if isinstance(statement, ast.Return | ast.Break | ast.Continue) and (flags or self.returns):
                return rewritten
            if flags and rest:
                guarded = ast.If(test=_none_of(sorted(flags)), body=self.block(rest), orelse=[])
                return [*rewritten, _at(guarded, rest[0])]
        return rewritten

    def flags(self, statement: ast.stmt) -> Flags:
        """The flags that a statement may set for the block in which it stands."""
        breaks, skips, returns = _exits_of(statement)
        flags: Flags = {self.breaks[-1]} if breaks else set()
        if skips:
            flags.add(self.continues[-1])
        if self.returns and returns:
            flags.add(RETURNED)
        return flags

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        match node:
            case ast.Return() if self.returns:
                value = node.value or ast.Constant(value=None)
                return [_set(RESULT, value, node), _set(RETURNED, ast.Constant(value=True), node)]
            case ast.Break():
                return [_set(self.breaks[-1], ast.Constant(value=True), node)]
            case ast.Continue():
                return [_set(self.continues[-1], ast.Constant(value=True), node)]
            case ast.If():
                new: Any = ast.If(test=node.test, body=self.block(node.body), orelse=self.block(node.orelse))
            case ast.For() | ast.While():
                return self.loop(node)
            case ast.With():
                new = ast.With(items=node.items, body=self.block(node.body))
            case ast.Try() | ast.TryStar():
                new = self.attempt(node)
            case ast.Match():
                cases = [ast.match_case(c.pattern, c.guard, self.block(c.body)) for c in node.cases]
                new = ast.Match(subject=node.subject, cases=cases)
            case _:
                return [node]
        return [ast.copy_location(new, node)]

    def loop(self, node: ast.For | ast.While) -> list[ast.stmt]:
        self.count += 1
        broken, skipped = f"jg_break_{self.count}_", f"jg_continue_{self.count}_"
        inner = [n for statement in node.body for n in _own_level(statement)]
        breaks = any(isinstance(n, ast.Break) for n in inner)
        skips = any(isinstance(n, ast.Continue) for n in inner)
        returns = self.returns and any(isinstance(n, ast.Return) for n in own(node.body))
        self.breaks.append(broken)
        self.continues.append(skipped)
        body = self.block(node.body)
        self.breaks.pop()
        self.continues.pop()
        if skips:
            body = [_set(skipped, ast.Constant(value=False), node.body[0]), *body]
        stop = [*([broken] if breaks else []), *([RETURNED] if returns else [])]
        new: Any
        if isinstance(node, ast.For):
            new = ast.For(target=node.target, iter=node.iter, body=body, orelse=[])
        else:
            new = ast.While(test=node.test, body=body, orelse=[])
        new.jg_stop = stop
        rewritten: list[ast.stmt] = [_set(broken, ast.Constant(value=False), node)] if breaks else []
        rewritten.append(ast.copy_location(new, node))
        if node.orelse:
            orelse = self.block(node.orelse)
            guarded = _at(ast.If(test=_none_of(stop), body=orelse, orelse=[]), node.orelse[0])
            rewritten += [guarded] if stop else orelse
        return rewritten

    def attempt(self, node: ast.Try | ast.TryStar) -> ast.stmt:
        for statement in node.finalbody:
            if any(isinstance(n, ast.Return) for n in own([statement])) or self.flags(statement):
                raise ScriptError(
                    "a finally block leaves by return, break or continue",
                    location=Location(self.file, statement.lineno),
                    hint="leave after the try statement",
                )
        flags = sorted(set().union(*(self.flags(statement) for statement in node.body)))
        orelse = self.block(node.orelse)
        if flags and orelse:
            orelse = [_at(ast.If(test=_none_of(flags), body=orelse, orelse=[]), node.orelse[0])]
        handlers = [
            ast.copy_location(ast.ExceptHandler(type=h.type, name=h.name, body=self.block(h.body)), h)
            for h in node.handlers
        ]
        kind = type(node)
        return kind(body=self.block(node.body), handlers=handlers, orelse=orelse, finalbody=self.block(node.finalbody))


def _exits_of(statement: Any) -> tuple[bool, bool, bool]:
    """Whether a statement leaves, or goes on with, the loop around it, or returns; looked for once, as each statement
    around it asks."""
    known: tuple[bool, bool, bool] | None = getattr(statement, "jg_exits", None)
    if known is not None:
        return known
    breaks, skips = isinstance(statement, ast.Break), isinstance(statement, ast.Continue)
    returns = isinstance(statement, ast.Return)
    if not isinstance(statement, SCOPES) and not (breaks or skips or returns):
        every = [_exits_of(part) for part in ast.iter_child_nodes(statement) if isinstance(part, _STATEMENTS)]
        level = [_exits_of(part) for part in statement.orelse] if isinstance(statement, _LOOPS) else every
        breaks, skips = any(exits[0] for exits in level), any(exits[1] for exits in level)
        returns = any(exits[2] for exits in every)
    known = statement.jg_exits = breaks, skips, returns
    return known


def _own_level(node: ast.AST) -> list[ast.AST]:
    """The node and what is below it, without what stands in loops, functions and classes."""
    nodes = [node]
    if isinstance(node, _LOOPS):
        return [*nodes, *(inner for statement in node.orelse for inner in _own_level(statement))]
    if not isinstance(node, SCOPES):
        for child in ast.iter_child_nodes(node):
            nodes += _own_level(child)
    return nodes


def _always_leaves(statements: list[ast.stmt]) -> bool:
    for node in statements:
        match node:
            case ast.Return() | ast.Break() | ast.Continue() | ast.Raise():
                return True
            case ast.If() if _always_leaves(node.body) and _always_leaves(node.orelse):
                return True
            case ast.With() if _always_leaves(node.body):
                return True
            case ast.While(test=ast.Constant(value=value)) if value and not _breaks(node):
                return True
            case ast.Try() if _always_leaves(node.finalbody) or _all_leave(node):
                return True
    return False


def _breaks(node: ast.While) -> bool:
    return any(isinstance(inner, ast.Break) for statement in node.body for inner in _own_level(statement))


def _all_leave(node: ast.Try) -> bool:
    """Whether a ``try`` is left however it ends."""
    body = _always_leaves(node.body) or _always_leaves(node.orelse)
    return body and all(_always_leaves(handler.body) for handler in node.handlers)


def _at(new: ast.If, node: ast.AST) -> ast.If:
    ast.copy_location(new, node)
    for inner in ast.walk(new.test):
        ast.copy_location(inner, node)
    return new


def _set(name: str, value: ast.expr, node: ast.AST) -> ast.stmt:
    if not hasattr(value, "lineno"):
        ast.copy_location(value, node)
    target = ast.copy_location(ast.Name(id=name, ctx=ast.Store()), node)
    return ast.copy_location(ast.Assign(targets=[target], value=value), node)


def _none_of(flags: list[str]) -> ast.expr:
    names: list[ast.expr] = [ast.Name(id=flag, ctx=ast.Load()) for flag in flags]
    test = names[0] if len(names) == 1 else ast.BoolOp(op=ast.Or(), values=names)
    return ast.UnaryOp(op=ast.Not(), operand=test)
