"""The methods of data classes and named tuples, as functions: compiled once for each number and kind of fields.

To compile a method from its text takes 100 us, and a process that compiles one function of its user's defines more than
a hundred classes. So a text has numbers for the fields, and a method is made of its code by putting names in their
places.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from reprlib import recursive_repr
from types import CodeType, FunctionType
from typing import Any, Final

_CODE: Final[dict[str, CodeType]] = {}
_FILE: Final = "<jitgraph records>"  # which traces do not follow

Maker = Callable[[], Callable[..., Any]]


def at_first_call(cls: Any, name: str, make: Maker) -> Callable[..., Any]:
    """A method that makes the real one, puts it into its own place, and goes on there."""

    def stub(*args: Any, **kwargs: Any) -> Any:
        method = make()
        method.__qualname__ = f"{cls.__qualname__}.{name}"
        method.__module__ = cls.__module__
        if vars(cls).get(name) is stub:
            setattr(cls, name, method)
        return method(*args, **kwargs)

    return stub


def _function(text: str, fields: Sequence[str], names: dict[str, Any], defaults: Sequence[Any] = ()) -> Any:
    """The function that ``text`` defines, where ``_0`` stands for the first field, and so on."""
    if text not in _CODE:
        (_CODE[text],) = [part for part in compile(text, _FILE, "exec").co_consts if isinstance(part, CodeType)]
    code = _CODE[text]
    field = {f"_{number}": name for number, name in enumerate(fields)}
    code = code.replace(
        co_varnames=tuple([field.get(name, name) for name in code.co_varnames]),
        co_names=tuple([field.get(name, name) for name in code.co_names]),
        co_consts=tuple([field.get(part, part) if isinstance(part, str) else part for part in code.co_consts]),
    )
    return FunctionType(code, names, code.co_name, tuple(defaults))


def tuple_new(fields: Sequence[str], defaults: Mapping[str, Any]) -> Any:
    """``__new__`` of a class of tuples; fields with defaults come last."""
    parameters = "".join(f"_{number}, " for number in range(len(fields)))
    text = f"def __new__(_cls, {parameters}): return _tuple(_cls, ({parameters}))"
    return _function(
        text, fields, {"_tuple": tuple.__new__}, [defaults[field] for field in fields if field in defaults]
    )


def init(cls: Any, fields: Sequence[dataclasses.Field[Any]], frozen: bool) -> Any:
    """``__init__`` of a data class; TypeError where a field without a default follows one that has a default."""
    missing = dataclasses.MISSING
    names: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": missing}
    positional, keyword, body = ["self"], [], ["    pass"]
    defaults: list[Any] = []
    keyword_defaults: dict[str, Any] = {}
    for number, field in enumerate(fields):
        value, default = f"_{number}", field.default
        if default is missing and field.default_factory is not missing:
            names[f"_factory{number}"] = field.default_factory
            value = f"_factory{number}() if _{number} is _MISSING else _{number}"
        optional = default is not missing or field.default_factory is not missing
        if field.kw_only:
            keyword.append(f"_{number}")
            keyword_defaults |= {field.name: default} if optional else {}
        elif optional or not defaults:
            positional.append(f"_{number}")
            defaults += [default] if optional else []
        else:
            raise TypeError(f"the field {field.name!r} of {cls.__name__} has no default, and follows one that has")
        body.append(f"    _set(self, '_{number}', {value})" if frozen else f"    self._{number} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("    self.__post_init__()")
    parameters = ", ".join([*positional, "*", *keyword] if keyword else positional)
    text = "\n".join([f"def __init__({parameters}):", *body])
    method = _function(text, [field.name for field in fields], names, defaults)
    method.__kwdefaults__ = keyword_defaults or None
    return method


def _tuple_of(count: int, of: str) -> str:
    return "(" + "".join(f"{of}._{number}, " for number in range(count)) + ")"


def equal(fields: Sequence[str]) -> Any:
    """``__eq__`` of a data class."""
    same = f"{_tuple_of(len(fields), 'self')} == {_tuple_of(len(fields), 'other')}"
    text = f"def __eq__(self, other): return {same} if other.__class__ is self.__class__ else NotImplemented"
    return _function(text, fields, {})


def hashed(fields: Sequence[str]) -> Any:
    """``__hash__`` of a data class."""
    return _function(f"def __hash__(self): return hash({_tuple_of(len(fields), 'self')})", fields, {})


def shown(fields: Sequence[str]) -> Any:
    """``__repr__`` of a data class."""

    @recursive_repr()
    def __repr__(self: Any) -> str:  # noqa: N807
        values = ", ".join([f"{field}={getattr(self, field)!r}" for field in fields])
        return f"{self.__class__.__qualname__}({values})"

    return __repr__
