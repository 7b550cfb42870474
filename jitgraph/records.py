"""``dataclass`` and ``NamedTuple`` as the standard library has them, at a fraction of the cost to define one.

``dataclasses.dataclass`` compiles five or six methods from text for each class, about 1 ms in all, and a process that
compiles one function defines a hundred classes; ``typing.NamedTuple`` compiles one. Here a method is made when it is
first called (``record_code.py``). ``field``, ``fields`` and ``replace`` of the standard library serve.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from jitgraph.record_code import AtFirstUse, Fields, equal, frozen_delete, frozen_set, hashed, init, shown, tuple_new

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
                if isinstance(method, AtFirstUse):
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
                "__new__": AtFirstUse(tuple_new, fields),
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


def _implied(cls: Any, fields: Fields, slots: bool) -> dict[str, Any]:
    """The methods that the fields of a class imply and that it does not define."""
    frozen, eq = cls.__dataclass_params__.frozen, cls.__dataclass_params__.eq
    own = vars(cls)
    implied = {"__init__": AtFirstUse(init, fields), "__repr__": AtFirstUse(shown, fields), "__replace__": _replaced}
    if eq:
        implied["__eq__"] = AtFirstUse(equal, fields)
    if frozen:
        implied["__setattr__"] = AtFirstUse(frozen_set, fields)
        implied["__delattr__"] = AtFirstUse(frozen_delete, fields)
        if slots or "__slots__" in own:
            implied |= {"__getstate__": _state, "__setstate__": _set_state}
    implied = {name: method for name, method in implied.items() if name not in own}
    if eq and own.get("__hash__") is None:  # Python puts None there beside an __eq__
        implied["__hash__"] = AtFirstUse(hashed, fields) if frozen else None
    return implied


def _slotted(cls: Any, fields: Fields, implied: Mapping[str, Any]) -> Any:
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
