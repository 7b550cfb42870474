"""A function with its control flow staged: its source is found, rewritten and compiled, once for each code object."""

from __future__ import annotations
import __future__

import ast
import functools
import inspect
import linecache
import sys
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Final, TypeAlias

from jitgraph.errors import ScriptError
from jitgraph.location import MODULE_CALLS, Location
from jitgraph.records import NamedTuple
from jitgraph.tracing.capture.kinds import STAGING, is_rewritten, register_rewritten
from jitgraph.tracing.script.rewrite import rewritten

# ----------------------------------------------------------------------
# The syntax tree of a function, found in its file, so that lines and columns are the user's.

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


# ----------------------------------------------------------------------
# A function with its control flow staged: its source is rewritten and compiled, once for each code object.

_FLAGS: Final = functools.reduce(
    int.__or__, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names)
)
_codes: dict[tuple[str, CodeType], CodeType | ScriptError] = {}


_staging: list[ModuleType] = []


def register_staging(module: ModuleType) -> None:
    """Say which module has the functions that rewritten code calls; it stands above this one."""
    _staging[:] = [module]


def rewrite(function: FunctionType) -> FunctionType:
    """``function`` with its control flow staged, as one is that a script defines; ScriptError where it cannot be."""
    if is_rewritten(function.__code__):
        return function
    key = function.__code__.co_filename, function.__code__
    code = _codes.get(key)
    if code is None:
        try:
            code = _compiled(function, find(function))
        except ScriptError as error:
            code = error
        _codes[key] = code
    if isinstance(code, ScriptError):
        raise code
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[STAGING] = CellType(_staging[0])
    closure = tuple(cells[name] for name in code.co_freevars)
    new_function = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    new_function.__kwdefaults__ = function.__kwdefaults__
    new_function.__annotations__ = function.__annotations__
    new_function.__qualname__, new_function.__module__, new_function.__doc__ = (
        function.__qualname__,
        function.__module__,
        function.__doc__,
    )
    new_function.__dict__.update(function.__dict__)
    if sys.version_info >= (3, 12):
        new_function.__type_params__ = function.__type_params__
    return new_function


def _compiled(function: FunctionType, source: FunctionSource) -> CodeType:
    original = function.__code__
    file = original.co_filename
    node = rewritten(source.node, file)
    args = node.args
    args.defaults = [ast.Constant(value=None) for _ in args.defaults]
    args.kw_defaults = [default and ast.Constant(value=None) for default in args.kw_defaults]
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            arg.annotation = None
    inner: ast.stmt
    if isinstance(node, ast.Lambda):
        inner = ast.Expr(value=node)
    else:
        node.returns = None
        inner = node
    ast.copy_location(inner, node)
    names = [name for name in (*original.co_freevars, STAGING) if source.owner is None or name != "__class__"]
    if source.owner is not None:  # names with two underscores are mangled, and super() finds __class__
        inner = ast.ClassDef(name=source.owner, bases=[], keywords=[], body=[inner], decorator_list=[])
        inner.type_params = []  # type: ignore[attr-defined]
    parameters = ast.arguments(
        posonlyargs=[], args=[ast.arg(arg=name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    body: list[ast.stmt] = [inner]
    own = source.owner or getattr(node, "name", None)
    if own is not None and own not in original.co_freevars:  # inside, this name is the module's
        body.insert(0, ast.Global(names=[own]))
    outer = ast.FunctionDef(name="jg_outer_", args=parameters, body=body, decorator_list=[])
    outer.type_params = []  # type: ignore[attr-defined]
    ast.copy_location(inner, node)
    module = ast.fix_missing_locations(ast.Module(body=[ast.copy_location(outer, node)], type_ignores=[]))
    code = compile(module, file, "exec", flags=original.co_flags & _FLAGS, dont_inherit=True)
    inner_code = _inside(_inside(code, "jg_outer_"), *([source.owner] if source.owner else []), original.co_name)
    register_rewritten(inner_code, original)
    if id(original) in MODULE_CALLS:
        MODULE_CALLS[id(inner_code)] = inner_code
    return inner_code


def _inside(code: CodeType, *names: str) -> CodeType:
    for name in names:
        code = next(const for const in code.co_consts if isinstance(const, CodeType) and const.co_name == name)
    return code
