"""A function with its control flow staged: its source is rewritten and compiled, once for each code object."""

from __future__ import annotations
import __future__

import ast
import functools
import sys
from types import CellType, CodeType, FunctionType
from typing import Final

from jitgraph.errors import ScriptError
from jitgraph.location import MODULE_CALLS
from jitgraph.tracing.capture.followed import STAGING, is_rewritten, register_rewritten
from jitgraph.tracing.script.rewrite import rewritten
from jitgraph.tracing.script.source import FunctionSource, find

_FLAGS: Final = functools.reduce(
    int.__or__, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names)
)
_codes: dict[tuple[str, CodeType], CodeType | ScriptError] = {}


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
    cells[STAGING] = CellType(sys.modules["jitgraph.tracing.script.staging"])
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
