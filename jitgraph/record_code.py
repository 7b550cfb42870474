"""The methods of data classes and named tuples, as functions: compiled once for each number and kind of fields.

To compile a method from its text takes 100 us, and a process that compiles one function of its user's defines more than
a hundred classes. So a text has numbers for the fields, and a method is made of its code by putting names in their
places.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from reprlib import recursive_repr
from types import CodeType, FunctionType
from typing import Any, Final

_CODE: Final[dict[str, CodeType]] = {}
_FILE: Final = "<jitgraph records>"  # which traces do not follow


class AtFirstUse:
    """Stands for a method of a class in its body, makes the real one when it is first looked up, and gives way to it.

    ``make`` makes it of the class and its fields. There are a thousand methods, and a closure for each is ten objects.
    """

    __slots__ = ("_cls", "_fields", "_make", "_name")

    def __init__(self, make: Callable[[Any, Any], Any], fields: Any) -> None:
        self._make, self._fields = make, fields

    def __set_name__(self, owner: Any, name: str) -> None:
        self._cls, self._name = owner, name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        method = self._make(self._cls, self._fields)
        method.__qualname__ = f"{self._cls.__qualname__}.{self._name}"
        method.__module__ = self._cls.__module__
        if vars(self._cls).get(self._name) is self:
            setattr(self._cls, self._name, method)
        return method.__get__(instance, owner)


Fields = Mapping[str, "dataclasses.Field[Any]"]
"""The fields of a data class by name."""


def _function(text: str, fields: Sequence[str], names: dict[str, Any], defaults: Iterable[Any] = ()) -> Any:
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


def tuple_new(cls: Any, fields: Sequence[str]) -> Any:
    """``__new__`` of a class of tuples; fields with defaults come last."""
    parameters = "".join(f"_{number}, " for number in range(len(fields)))
    text = f"def __new__(_cls, {parameters}): return _tuple(_cls, ({parameters}))"
    return _function(text, fields, {"_tuple": tuple.__new__}, cls._field_defaults.values())


def init(cls: Any, fields: Fields) -> Any:
    """``__init__`` of a data class; TypeError where a field without a default follows one that has a default."""
    missing, frozen = dataclasses.MISSING, cls.__dataclass_params__.frozen
    names: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": missing}
    positional, keyword, body = ["self"], [], ["    pass"]
    defaults: list[Any] = []
    keyword_defaults: dict[str, Any] = {}
    for number, field in enumerate(fields.values()):
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
    method = _function(text, tuple(fields), names, defaults)
    method.__kwdefaults__ = keyword_defaults or None
    return method


def _tuple_of(count: int, of: str) -> str:
    return "(" + "".join(f"{of}._{number}, " for number in range(count)) + ")"


def equal(cls: Any, fields: Fields) -> Any:
    """``__eq__`` of a data class."""
    names = [name for name, field in fields.items() if field.compare]
    same = f"{_tuple_of(len(names), 'self')} == {_tuple_of(len(names), 'other')}"
    text = f"def __eq__(self, other): return {same} if other.__class__ is self.__class__ else NotImplemented"
    return _function(text, names, {})


def hashed(cls: Any, fields: Fields) -> Any:
    """``__hash__`` of a data class."""
    names = [name for name, field in fields.items() if (field.compare if field.hash is None else field.hash)]
    return _function(f"def __hash__(self): return hash({_tuple_of(len(names), 'self')})", names, {})


def shown(cls: Any, fields: Fields) -> Any:
    """``__repr__`` of a data class."""
    names = [name for name, field in fields.items() if field.repr]

    @recursive_repr()
    def __repr__(self: Any) -> str:  # noqa: N807
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({values})"

    return __repr__


def frozen_set(cls: Any, fields: Fields) -> Any:
    """``__setattr__`` of a frozen class."""

    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807
        if type(self) is cls or name in fields:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    return __setattr__


def frozen_delete(cls: Any, fields: Fields) -> Any:
    """``__delattr__`` of a frozen class."""

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in fields:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __delattr__
