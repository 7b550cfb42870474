"""What a call binds its arguments to: the function behind a callable, and Python's own errors where they do not fit."""

from __future__ import annotations

import enum
import functools
import inspect
import types
from collections.abc import Callable, Container, Mapping
from typing import Any, Final

_NONE: Final = object()


class Omitted(enum.Enum):
    """What stands for an argument that a wrapper is not given: what it wraps has the default, and may read more."""

    OMITTED = "the default"

    def __repr__(self) -> str:
        return self.value


OMITTED: Final = Omitted.OMITTED


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """What has the parameters of ``function``: of a module, and of a script of one, that is its ``forward``."""
    if isinstance(function, types.FunctionType):
        function = vars(function).get("made_of", function)
    behind = getattr(type(function), "_called", None)
    return function if behind is None else behind(function)


class Binding:
    """Binds arguments as Python does: by a function with the same parameters, which gives their values in order.

    ``function`` has the parameters; those in ``wrapped`` have their values put into ``wrap``. The defaults are those
    that the function has at the time of the call, and OMITTED where it only says that it has them.
    """

    def __init__(self, function: Callable[..., Any], wrapped: Container[str], wrap: Callable[[Any], Any]) -> None:
        behind = inspect.unwrap(getattr(function, "__func__", function))
        self._behind = behind if isinstance(behind, types.FunctionType) else None
        self._function = function
        self._omits = is_wrapper(function)
        signature = inspect.signature(function)
        name = "wrap"
        while name in signature.parameters:
            name += "_"
        values = [f"{name}({parameter})" if parameter in wrapped else parameter for parameter in signature.parameters]
        names: dict[str, Any] = {name: wrap}
        exec(f"def bind{_written(signature)}: return ({''.join(f'{value}, ' for value in values)})", names)
        self._bind = names["bind"]
        self._take_defaults(signature)

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """One value for each parameter; TypeError as the function itself would raise it."""
        behind = self._behind
        if behind is not None and (
            behind.__defaults__ is not self._defaults or behind.__kwdefaults__ is not self._named
        ):
            self._take_defaults(inspect.signature(self._function))
        try:
            values: tuple[Any, ...] = self._bind(*args, **kwargs)
        except TypeError:
            _raise_as_python(self._function, args, kwargs)
            raise
        return values

    def _take_defaults(self, signature: inspect.Signature) -> None:
        """Give the function that binds the defaults of now; it shares the dict of those that are given by name."""
        behind = self._behind
        self._defaults, self._named = (None, None) if behind is None else (behind.__defaults__, behind.__kwdefaults__)
        parameters = signature.parameters.values()
        kwdefaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is not p.empty}
        if self._omits:
            kwdefaults = dict.fromkeys(kwdefaults, OMITTED)
        self._bind.__defaults__ = tuple(
            [
                OMITTED if self._omits else p.default
                for p in parameters
                if p.kind is not p.KEYWORD_ONLY and p.default is not p.empty
            ]
        )
        own = self._named
        shared = own is not None and all(own.get(name, _NONE) is default for name, default in kwdefaults.items())
        self._bind.__kwdefaults__ = own if shared else kwdefaults


def unstaged(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose defaults those of a script's function are: itself, unless it was made of another one."""
    return function.__wrapped__ if getattr(function, "is_staged", False) else function  # type: ignore[attr-defined]


def is_wrapper(function: Callable[..., Any]) -> bool:
    """Whether the parameters that a function shows are those of another one, which it calls as it likes."""
    own = unstaged(getattr(function, "__func__", function))
    return isinstance(own, functools.partial) or hasattr(own, "__wrapped__") or hasattr(own, "__signature__")


def _raise_as_python(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
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
