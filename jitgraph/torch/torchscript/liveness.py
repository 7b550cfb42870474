"""Which variables a branch or loop binds, and which of them are read later: what staging needs to know of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence, Set
from typing import Any, NamedTuple


class Info(NamedTuple):
    """The variables that a statement binds; of these, those that it only changes in place, and those that may be read
    after it."""

    names: tuple[str, ...]
    kept: tuple[str, ...]
    live: tuple[str, ...]

    def site(self) -> tuple[Any, ...]:
        """The fields of ``jitgraph.tracing.script.variables.Site``: nothing is left early, all reads have values."""
        return self.names, self.kept, self.live, (), 0, (), (), ()


def of(node: ast.stmt) -> Info:
    """What ``annotate`` noted of a statement."""
    info: Info = node.jg_info  # type: ignore[attr-defined]
    return info


def names_read(node: ast.AST | None) -> set[str]:
    """The names that an expression reads."""
    if node is None:
        return set()
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def names_bound(nodes: Iterable[ast.AST]) -> set[str]:
    """The variables that statements bind."""
    return {
        inner.id
        for node in nodes
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    }


def shared_variables(body: Sequence[ast.stmt]) -> set[str]:
    """The variables that branches and loops bind."""
    shared: set[str] = set()
    for statement in body:
        for inner in ast.walk(statement):
            if isinstance(inner, ast.If | ast.While | ast.For):
                shared |= names_bound([inner])
    return shared


def annotate(body: Sequence[ast.stmt], live: set[str]) -> set[str]:
    """Note at each branch and loop what it binds; ``live`` are read behind ``body``; gives what is live before."""
    for statement in reversed(body):
        live = _before(statement, live)
    return live


def _before(node: ast.stmt, live: set[str]) -> set[str]:
    match node:
        case ast.If(test=test, body=body, orelse=orelse):
            _note(node, [*body, *orelse], live)
            return annotate(body, live) | annotate(orelse, live) | names_read(test)
        case ast.While(test=test, body=body):
            around = live | names_read(test)
            around |= annotate(body, around)
            annotate(body, around)
            _note(node, body, around)
            return around
        case ast.For(target=target, iter=iterable, body=body):
            around = live | (annotate(body, live) - names_bound([target]))
            annotate(body, around)
            _note(node, [target, *body], around, names_bound([target]))
            return around | names_read(iterable)
        case ast.With(items=items, body=body):
            inside = annotate(body, live)
            return inside.union(*(names_read(item.context_expr) for item in items))
        case ast.FunctionDef(body=body):
            return live.union(*map(names_read, body))
        case ast.Assign(targets=targets, value=value):
            return (live - names_bound(targets)) | names_read(value).union(*map(names_read, targets))
        case ast.AnnAssign(target=target, value=value):
            return (live - names_bound([target])) | names_read(value)
    return live | names_read(node)


def _note(node: ast.stmt, bound_in: Sequence[ast.AST], live: set[str], counters: Set[str] = frozenset()) -> None:
    names = names_bound(bound_in)
    kept = set() if isinstance(node, ast.If) else names - counters - _rebound(bound_in)
    groups = (names, kept, names & live)
    node.jg_info = Info(*(tuple(sorted(group)) for group in groups))  # type: ignore[attr-defined]


def _rebound(nodes: Iterable[ast.AST]) -> set[str]:
    """The variables that get another object: ``x = torch.add_(x, y)`` gives x what it is."""
    rebound: set[str] = set()
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)) if len(targets) == len(
                values
            ):
                pairs = zip(targets, values, strict=True)
                rebound |= names_bound(target for target, value in pairs if not _is_change_of(target, value))
            case ast.Assign(targets=[target], value=value) if _is_change_of(target, value):
                pass
            case ast.Assign(targets=targets):
                rebound |= names_bound(targets)
            case ast.AnnAssign(target=target) | ast.For(target=target):
                rebound |= names_bound([target])
            case ast.withitem(optional_vars=ast.expr() as target):
                rebound |= names_bound([target])
    return rebound


def _is_change_of(target: ast.expr, value: ast.expr) -> bool:
    """Whether a value is the target itself, changed in place."""
    match target, value:
        case (
            ast.Name(id=name),
            ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=operator), args=[ast.Name(id=other), *_]),
        ):
            return name == other and operator.endswith("_") and not operator.endswith("__")
    return False
