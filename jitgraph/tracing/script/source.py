"""The syntax tree of a function, found in its file, so that lines and columns are the user's."""

from __future__ import annotations

import ast
import inspect
import linecache
from types import CodeType, FunctionType
from typing import Final, TypeAlias

from jitgraph.errors import ScriptError
from jitgraph.location import Location
from jitgraph.records import NamedTuple

FunctionNode: TypeAlias = "ast.FunctionDef | ast.Lambda"
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_GENERATORS: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

_files: dict[str, tuple[int, ast.Module]] = {}


class FunctionSource(NamedTuple):
    """A function's node, and the name of the class in whose body it stands."""

    node: FunctionNode
    owner: str | None


def find(function: FunctionType) -> FunctionSource:
    """The node of ``function``; ScriptError where it has no source or is a generator or coroutine."""
    code = function.__code__
    location = Location(code.co_filename, code.co_firstlineno)
    if code.co_flags & _GENERATORS:
        kind = "a coroutine" if code.co_flags & inspect.CO_COROUTINE else "a generator"
        raise ScriptError(
            f"{function.__name__} is {kind}, which cannot be captured",
            location=location,
            hint="return a list, or the stacked result of jg.scan",
        )
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        raise ScriptError(
            f"the source of {function.__name__} is not to be found, so that it cannot be rewritten",
            location=location,
            hint="define it in a file or notebook, or use @jg.trace with jg.cond, jg.while_loop and jg.scan",
        )
    candidates = [
        candidate for candidate in _functions(_parsed(code.co_filename, lines), None) if _fits(candidate.node, code)
    ]
    if len(candidates) > 1:
        first = _first_position(code)
        candidates = [candidate for candidate in candidates if _position(candidate.node) == first] or candidates
    if len(candidates) != 1 or not isinstance(candidates[0].node, ast.FunctionDef | ast.Lambda):
        raise ScriptError(
            f"the source of {function.__name__} does not stand at its line any more, or stands there more than once",
            location=location,
            hint="import the module again, or write the function as a def on lines of its own",
        )
    return candidates[0]


def _parsed(file: str, lines: list[str]) -> ast.Module:
    text = "".join(lines)
    known = _files.get(file)
    if known is None or known[0] != hash(text):
        known = _files[file] = (hash(text), ast.parse(text, file))
    return known[1]


def _functions(node: ast.AST, owner: str | None) -> list[FunctionSource]:
    functions: list[FunctionSource] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _DEFINITIONS):
            functions.append(FunctionSource(child, owner))  # type: ignore[arg-type]
        functions += _functions(child, child.name if isinstance(child, ast.ClassDef) else owner)
    return functions


def _fits(node: ast.AST, code: CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        same = code.co_name == "<lambda>" and node.lineno == code.co_firstlineno
    else:
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        same = _unmangled(code.co_name, node.name) and line == code.co_firstlineno
    return same and _parameters(node.args) == code.co_varnames[: _count(node.args)]


def _unmangled(name: str, written: str) -> bool:
    return name == written or (written.startswith("__") and name.endswith(written))


def _parameters(args: ast.arguments) -> tuple[str, ...]:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    every += [extra for extra in (args.vararg, args.kwarg) if extra is not None]
    return tuple(arg.arg for arg in every)


def _count(args: ast.arguments) -> int:
    return len(_parameters(args))


def _first_position(code: CodeType) -> tuple[int, int] | None:
    """Line and column of the leftmost expression of a lambda's body."""
    starts = [(p[0], p[2]) for p in code.co_positions() if p[0] is not None and p[2] is not None and p[3] != 0]
    usable = [(line, column) for line, column in starts if column > 0]
    return min(usable) if usable else None


def _position(node: ast.AST) -> tuple[int, int] | None:
    if not isinstance(node, ast.Lambda):
        return None
    return node.body.lineno, node.body.col_offset
