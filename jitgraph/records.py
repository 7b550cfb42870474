"""``dataclass`` and ``NamedTuple`` as the standard library has them, at a fraction of the cost to define one.

``dataclasses.dataclass`` compiles five or six methods from text for each class, about 1 ms in all, and a process that
compiles one function defines a hundred classes; ``typing.NamedTuple`` compiles one. Here a method is made when it is
first looked up, and its code is compiled once for each number and kind of fields, which takes 100 us: a text has
numbers for the fields, and a method is made of its code by putting names in their places. ``field``, ``fields`` and
``replace`` of the standard library serve.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from reprlib import recursive_repr
from types import CodeType, FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

# ----------------------------------------------------------------------
# The methods of records, as functions that are made when they are first looked up.

_CODE: Final[dict[str, CodeType]] = {}
_FILE: Final = "<jitgraph records>"  # which traces do not follow


class _AtFirstUse:
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


_Fields = Mapping[str, "dataclasses.Field[Any]"]
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


def _tuple_new(cls: Any, fields: Sequence[str]) -> Any:
    """``__new__`` of a class of tuples; fields with defaults come last."""
    parameters = "".join(f"_{number}, " for number in range(len(fields)))
    text = f"def __new__(_cls, {parameters}): return _tuple(_cls, ({parameters}))"
    return _function(text, fields, {"_tuple": tuple.__new__}, cls._field_defaults.values())


def _init(cls: Any, fields: _Fields) -> Any:
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


def _equal(cls: Any, fields: _Fields) -> Any:
    """``__eq__`` of a data class."""
    names = [name for name, field in fields.items() if field.compare]
    same = f"{_tuple_of(len(names), 'self')} == {_tuple_of(len(names), 'other')}"
    text = f"def __eq__(self, other): return {same} if other.__class__ is self.__class__ else NotImplemented"
    return _function(text, names, {})


def _hashed(cls: Any, fields: _Fields) -> Any:
    """``__hash__`` of a data class."""
    names = [name for name, field in fields.items() if (field.compare if field.hash is None else field.hash)]
    return _function(f"def __hash__(self): return hash({_tuple_of(len(names), 'self')})", names, {})


def _shown(cls: Any, fields: _Fields) -> Any:
    """``__repr__`` of a data class."""
    names = [name for name, field in fields.items() if field.repr]

    @recursive_repr()
    def __repr__(self: Any) -> str:  # noqa: N807
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({values})"

    return __repr__


def _frozen_set(cls: Any, fields: _Fields) -> Any:
    """``__setattr__`` of a frozen class."""

    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807
        if type(self) is cls or name in fields:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    return __setattr__


def _frozen_delete(cls: Any, fields: _Fields) -> Any:
    """``__delattr__`` of a frozen class."""

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in fields:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __delattr__


# ----------------------------------------------------------------------
# The decorator and the base of tuples, which give classes these methods.

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from typing import NamedTuple as NamedTuple
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, slots=False, kw_only=False):
        """The class with the methods that its fields imply, as ``dataclasses.dataclass`` gives it them."""

        def wrap(plain):
            fields = _fields(plain, kw_only)
            plain.__dataclass_fields__ = fields
            plain.__dataclass_params__ = _PARAMETERS[frozen, eq]
            if "__match_args__" not in vars(plain):
                plain.__match_args__ = tuple([name for name, field in fields.items() if not field.kw_only])
            implied = _implied(plain, fields, slots)
            if slots:
                return _slotted(plain, fields, implied)
            for name, method in implied.items():
                setattr(plain, name, method)
                if isinstance(method, _AtFirstUse):
                    method.__set_name__(plain, name)
            return plain

        return wrap if cls is None else wrap(cls)

    class _TupleMaker(type):
        """Makes of a class body with annotated fields a class of tuples."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.get("__annotations__", ()))
            defaults = {field: body.pop(field) for field in fields if field in body}
            getters = {field: collections._tuplegetter(number, "") for number, field in enumerate(fields)}
            implied = {
                **_OF_TUPLES,
                **getters,
                "__slots__": (),
                "__match_args__": fields,
                "_fields": fields,
                "_field_defaults": defaults,
                "__new__": _AtFirstUse(_tuple_new, fields),
            }
            return type(name, (tuple,), {**implied, **body})

    class NamedTuple(metaclass=_TupleMaker):
        """The base of classes of tuples with named fields, which is no base of what is made."""


def _fields(cls: Any, kw_only: bool) -> dict[str, Any]:
    """The fields of a class by name, those of its bases first; class attributes are left as defaults alone."""
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        fields |= vars(base).get("__dataclass_fields__", {})
    for name, annotation in vars(cls).get("__annotations__", {}).items():
        if "ClassVar" in str(annotation):
            continue
        default = vars(cls).get(name, dataclasses.MISSING)
        field: Any = default if isinstance(default, dataclasses.Field) else dataclasses.field(default=default)
        if field is default and field.default is dataclasses.MISSING:
            delattr(cls, name)
        elif field is default:
            setattr(cls, name, field.default)
        field.name, field.type, field._field_type = name, annotation, _FIELD
        if field.kw_only is dataclasses.MISSING:
            field.kw_only = kw_only
        fields[name] = field
    return fields


def _implied(cls: Any, fields: _Fields, slots: bool) -> dict[str, Any]:
    """The methods that the fields of a class imply and that it does not define."""
    frozen, eq = cls.__dataclass_params__.frozen, cls.__dataclass_params__.eq
    own = vars(cls)
    implied: dict[str, Any] = {"__init__": _AtFirstUse(_init, fields), "__repr__": _AtFirstUse(_shown, fields)}
    implied["__replace__"] = _replaced
    if eq:
        implied["__eq__"] = _AtFirstUse(_equal, fields)
    if frozen:
        implied["__setattr__"] = _AtFirstUse(_frozen_set, fields)
        implied["__delattr__"] = _AtFirstUse(_frozen_delete, fields)
        if slots or "__slots__" in own:
            implied |= {"__getstate__": _state, "__setstate__": _set_state}
    implied = {name: method for name, method in implied.items() if name not in own}
    if eq and own.get("__hash__") is None:  # Python puts None there beside an __eq__
        implied["__hash__"] = _AtFirstUse(_hashed, fields) if frozen else None
    return implied


def _slotted(cls: Any, fields: _Fields, implied: Mapping[str, Any]) -> Any:
    """The class again, with slots for its fields, and with the methods that these imply."""
    inherited = {slot for base in cls.__mro__[1:-1] for slot in vars(base).get("__slots__", ())}
    body = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__", *fields)}
    body["__slots__"] = tuple([name for name in fields if name not in inherited])
    new_class = type(cls)(cls.__name__, cls.__bases__, {**body, **implied})
    new_class.__qualname__ = cls.__qualname__
    return new_class


_FIELD: Final = dataclasses._FIELD  # type: ignore[attr-defined]  # what marks those that ``dataclasses.fields`` gives


def _make(cls: Any, values: Iterable[Any]) -> Any:
    instance = tuple.__new__(cls, values)
    if len(instance) != len(cls._fields):
        raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, not {len(instance)}")
    return instance


def _replace(self: Any, /, **changes: Any) -> Any:
    instance = self._make(map(changes.pop, self._fields, self))
    if changes:
        raise TypeError(f"{type(self).__name__} has no fields {', '.join(changes)}")
    return instance


def _asdict(self: Any) -> dict[str, Any]:
    return dict(zip(self._fields, self, strict=True))


def _repr_of_tuple(self: Any) -> str:
    shown = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"{type(self).__name__}({', '.join(shown)})"


_OF_TUPLES: Final[dict[str, Any]] = {
    "_make": classmethod(_make),
    "_replace": _replace,
    "_asdict": _asdict,
    "__repr__": _repr_of_tuple,
    "__getnewargs__": lambda self: tuple(self),
}


_PARAMETERS: Final = {  # for the standard library's subclasses
    (frozen, eq): SimpleNamespace(frozen=frozen, eq=eq) for frozen in (False, True) for eq in (False, True)
}


def _replaced(self: Any, /, **changes: Any) -> Any:
    return dataclasses.replace(self, **changes)


def _state(self: Any) -> list[Any]:
    """What copy and pickle take of a frozen class with slots, to which they must not assign."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
