"""Which functions a script calls in a rewritten form, and the rewriting itself, once for each code object."""

from __future__ import annotations
import __future__

import ast
import functools
import inspect
import os
import sys
from types import BuiltinMethodType, CellType, CodeType, FunctionType, MethodType
from typing import Any, Final

from jitgraph.errors import ScriptError, trying
from jitgraph.ir import context
from jitgraph.tracing.capture.followed import is_followed, is_rewritten, register_rewritten
from jitgraph.tracing.control.journal import CONTAINERS
from jitgraph.tracing.log import CHANGERS
from jitgraph.tracing.record.printing import BUILTIN_PRINT, traced_print
from jitgraph.tracing.script import numbers
from jitgraph.tracing.script.branches import innermost_journal, made_here
from jitgraph.tracing.script.iterables import make_enumerate, make_range, make_zip
from jitgraph.tracing.script.rewrite import STAGING, rewritten
from jitgraph.tracing.script.source import Found, find

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_MODULES: Final = os.path.join(_PACKAGE, "nn") + os.sep
_DEEPEST: Final = 16  # calls of a function inside itself, each under a tensor condition
_FLAGS: Final = functools.reduce(
    int.__or__, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names)
)
_BUILTINS: Final[dict[Any, Any]] = {
    range: make_range,
    enumerate: make_enumerate,
    zip: make_zip,
    float: numbers.to_float,
    int: numbers.to_int,
    bool: numbers.to_bool,
}

_codes: dict[tuple[str, CodeType], CodeType | ScriptError] = {}


def rewrite(function: FunctionType) -> FunctionType:
    """``function`` with its control flow staged; ScriptError where it cannot be."""
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
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__annotations__ = function.__annotations__
    made.__qualname__, made.__module__, made.__doc__ = function.__qualname__, function.__module__, function.__doc__
    return made


def _compiled(function: FunctionType, found: Found) -> CodeType:
    original = function.__code__
    file = original.co_filename
    node = rewritten(found.node, file)
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
    names = [name for name in (*original.co_freevars, STAGING) if found.owner is None or name != "__class__"]
    if found.owner is not None:  # names with two underscores are mangled, and super() finds __class__
        inner = ast.ClassDef(name=found.owner, bases=[], keywords=[], body=[inner], decorator_list=[])
        inner.type_params = []  # type: ignore[attr-defined]
    parameters = ast.arguments(
        posonlyargs=[], args=[ast.arg(arg=name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    body: list[ast.stmt] = [inner]
    own = found.owner or getattr(node, "name", None)
    if own is not None and own not in original.co_freevars:  # inside, this name is the module's
        body.insert(0, ast.Global(names=[own]))
    outer = ast.FunctionDef(name="jg_outer_", args=parameters, body=body, decorator_list=[])
    outer.type_params = []  # type: ignore[attr-defined]
    ast.copy_location(inner, node)
    module = ast.fix_missing_locations(ast.Module(body=[ast.copy_location(outer, node)], type_ignores=[]))
    code = compile(module, file, "exec", flags=original.co_flags & _FLAGS, dont_inherit=True)
    made = _inside(_inside(code, "jg_outer_"), *([found.owner] if found.owner else []), original.co_name)
    register_rewritten(made, original)
    return made


def _inside(code: CodeType, *names: str) -> CodeType:
    for name in names:
        code = next(const for const in code.co_consts if isinstance(const, CodeType) and const.co_name == name)
    return code


def is_users(function: Any) -> bool:
    """Whether a function is written by the user, or is a method of ``jitgraph.nn``, which calls the user's."""
    if not isinstance(function, FunctionType):
        return False
    file = function.__code__.co_filename
    path = os.path.realpath(file)
    return is_followed(file) and (not path.startswith(_PACKAGE) or path.startswith(_MODULES))


def callee(function: Any) -> Any:
    """What a script calls in place of ``function``: inside a trace the user's functions with staged control flow."""
    if context.current().trace is None:
        return function
    if isinstance(function, FunctionType):
        return _function(function)
    if isinstance(function, MethodType):
        return _method(function)
    if isinstance(function, BuiltinMethodType):
        return _builtin(function)
    if isinstance(function, type):
        return _BUILTINS.get(function) or _maker(function)
    if isinstance(function, functools.partial):
        return functools.partial(callee(function.func), *function.args, **function.keywords)
    call = inspect.getattr_static(type(function), "__call__", None)
    return MethodType(_function(call), function) if isinstance(call, FunctionType) and is_users(call) else function


def _function(function: FunctionType) -> Any:
    if is_rewritten(function.__code__) or not is_users(function):
        return function if is_rewritten(function.__code__) else _with_rewritten_arguments(function)
    made = _rewritten_or_itself(function)
    _refuse_endless_recursion(made)
    return made


def _rewritten_or_itself(function: FunctionType) -> FunctionType:
    try:
        with trying():
            return rewrite(function)
    except ScriptError:
        return function  # as it is: on Python values it works, on tensors its own error says what to do


def _method(method: MethodType) -> Any:
    function = method.__func__
    if isinstance(function, FunctionType) and is_users(function):
        return MethodType(_function(function), method.__self__)
    return _with_rewritten_arguments(method)


def _builtin(function: Any) -> Any:
    if function is BUILTIN_PRINT:
        return traced_print
    owner = function.__self__
    if isinstance(owner, CONTAINERS) and function.__name__ in CHANGERS:
        journal = innermost_journal()
        if journal is not None:
            journal.change(owner, None)
        return function
    if function.__name__ in ("copy", "sorted") and innermost_journal() is not None:
        return lambda *args, **kwargs: made_here(function(*args, **kwargs))
    return _with_rewritten_arguments(function)


def _maker(kind: type) -> Any:
    if innermost_journal() is None:
        return kind if kind is not map and kind is not filter else _with_rewritten_arguments(kind)
    return lambda *args, **kwargs: made_here(kind(*map(_argument, args), **kwargs))


def _with_rewritten_arguments(function: Any) -> Any:
    """A library's function, which gets the user's functions among its arguments rewritten."""

    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_argument, args), **{name: _argument(value) for name, value in kwargs.items()})

    return call


def _argument(value: Any) -> Any:
    if isinstance(value, FunctionType) and is_users(value) and not is_rewritten(value.__code__):
        return _rewritten_or_itself(value)
    if isinstance(value, MethodType):
        function = value.__func__
        if isinstance(function, FunctionType) and is_users(function) and not is_rewritten(function.__code__):
            return MethodType(_rewritten_or_itself(function), value.__self__)
    return value


def _refuse_endless_recursion(function: FunctionType) -> None:
    """ScriptError where a function has called itself again and again, each time under another tensor condition."""
    depth, recorder = 0, context.current().trace
    while recorder is not None:
        depth += recorder.journal is not None
        recorder = recorder.parent
    if depth < _DEEPEST:
        return
    frame, count = sys._getframe(), 0
    while frame is not None:
        count += frame.f_code is function.__code__
        frame = frame.f_back  # type: ignore[assignment]
    if count >= _DEEPEST:
        raise ScriptError(
            f"{function.__name__} calls itself under a condition on a tensor, which never ends in a trace",
            hint="write a while loop, or let a Python number count the depth",
        )
