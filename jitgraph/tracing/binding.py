"""What a call binds its arguments to: the function behind a callable, and Python's own errors where they do not fit."""

from __future__ import annotations

import functools
import inspect
import operator
import types
from collections.abc import Callable, Mapping
from typing import Any


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """What has the parameters of ``function``: of a module, and of a script of one, that is its ``forward``."""
    if isinstance(function, types.FunctionType):
        function = vars(function).get("made_of", function)
    behind = getattr(type(function), "_called", None)
    return function if behind is None else behind(function)


def defaults_of(function: Any) -> tuple[Any, ...]:
    """The defaults that the parameters of ``function`` have now, those of keywords with their names."""
    function = inspect.unwrap(getattr(function, "__func__", function))
    if not isinstance(function, types.FunctionType):
        return ()
    named = function.__kwdefaults__ or {}
    return (*(function.__defaults__ or ()), *named, *named.values())


def same_defaults(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Whether two answers of ``defaults_of`` are of the same objects."""
    return len(left) == len(right) and all(map(operator.is_, left, right))


def raise_as_python(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise Python's TypeError for arguments that do not fit, with the name that Python gives the function."""
    while isinstance(function, functools.partial):
        args, kwargs, function = (*function.args, *args), {**function.keywords, **kwargs}, function.func
    call = type(function).__call__
    if isinstance(function, types.MethodType):
        function, args = function.__func__, (None, *args)
    elif isinstance(call, types.FunctionType):
        function, args = call, (None, *args)
    names: dict[str, Any] = {}
    exec(f"def stub{_written(inspect.signature(function))}: pass", names)
    stub = names["stub"]
    stub.__qualname__ = getattr(function, "__qualname__", None) or type(function).__qualname__
    stub(*args, **kwargs)


def _written(signature: inspect.Signature) -> str:
    """The parameters as Python writes them, with ``None`` for each default."""
    empty = inspect.Parameter.empty
    bare = [
        parameter.replace(annotation=empty, default=empty if parameter.default is empty else None)
        for parameter in signature.parameters.values()
    ]
    return str(inspect.Signature(bare))
