"""``dataclass`` and ``NamedTuple`` as the standard library has them, at a tenth and a third of the cost to define one.

``dataclasses.dataclass`` compiles five or six methods from text for each class, about 1 ms in all, and a process that
compiles one function defines a hundred classes; ``typing.NamedTuple`` compiles one. Here a method is compiled when it
is first called. ``field``, ``fields`` and ``replace`` of the standard library serve.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from typing import NamedTuple as NamedTuple
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, slots=False, kw_only=False):
        """The class with the methods that its fields imply, as ``dataclasses.dataclass`` gives it them."""

        def wrap(plain):
            plain.__doc__ = plain.__doc__ or plain.__name__  # else the standard library writes one, and slowly
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(plain)
            fields = dataclasses.fields(made)
            compared = [field for field in fields if field.compare]
            hashed = [field for field in fields if (field.compare if field.hash is None else field.hash)]
            implied = {
                "__init__": _at_first_call(made, "__init__", lambda: _init(made, fields, frozen)),
                "__repr__": _at_first_call(made, "__repr__", lambda: _repr(fields)),
            }
            if eq:
                implied["__eq__"] = _at_first_call(made, "__eq__", lambda: _eq(compared))
            if eq and vars(plain).get("__hash__") is None:  # Python puts None there beside an __eq__
                made.__hash__ = _at_first_call(made, "__hash__", lambda: _hash(hashed)) if frozen else None
            if frozen:
                implied |= _frozen(made, {field.name for field in fields})
            for name, method in implied.items():
                if name not in vars(plain):
                    setattr(made, name, method)
            return made

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
            }
            made = type(name, (tuple,), {**implied, **body})
            made.__new__ = _at_first_call(made, "__new__", lambda: _new(fields, defaults))
            return made

    class NamedTuple(metaclass=_TupleMaker):
        """The base of classes of tuples with named fields, which is no base of what is made."""


Text = tuple[str, dict[str, Any]]
"""The definition of a function, and the names that it uses."""


def _at_first_call(cls: Any, name: str, text: Callable[[], Text]) -> Callable[..., Any]:
    """A method that compiles the real one, puts it into its own place, and goes on there."""

    def stub(*args: Any, **kwargs: Any) -> Any:
        definition, names = text()
        exec(compile(definition, "<jitgraph records>", "exec"), names)  # a file that traces do not follow
        made = names[name]
        made.__qualname__ = f"{cls.__qualname__}.{name}"
        made.__module__ = cls.__module__
        if vars(cls).get(name) is stub:
            setattr(cls, name, made)
        return made(*args, **kwargs)

    return stub


def _new(fields: Any, defaults: dict[str, Any]) -> Text:
    names = {"_tuple": tuple.__new__, **{f"_default_{field}": value for field, value in defaults.items()}}
    parameters = ", ".join(f"{field}=_default_{field}" if field in defaults else field for field in fields)
    return f"def __new__(_cls, {parameters}): return _tuple(_cls, ({''.join(f'{field}, ' for field in fields)}))", names


def _make(cls: Any, values: Iterable[Any]) -> Any:
    made = tuple.__new__(cls, values)
    if len(made) != len(cls._fields):
        raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, not {len(made)}")
    return made


def _replace(self: Any, /, **changes: Any) -> Any:
    made = self._make(map(changes.pop, self._fields, self))
    if changes:
        raise TypeError(f"{type(self).__name__} has no fields {', '.join(changes)}")
    return made


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


def _init(cls: Any, fields: Any, frozen: bool) -> Text:
    names = {"_set": object.__setattr__, "_MISSING": dataclasses.MISSING}
    positional, body = ["self"], ["    pass"]
    keyword: list[str] = []
    for field in fields:
        parameter = value = field.name
        if field.default is not dataclasses.MISSING:
            names[f"_default_{field.name}"] = field.default
            parameter += f"=_default_{field.name}"
        elif field.default_factory is not dataclasses.MISSING:
            names[f"_factory_{field.name}"] = field.default_factory
            parameter += "=_MISSING"
            value = f"_factory_{field.name}() if {field.name} is _MISSING else {field.name}"
        (keyword if field.kw_only else positional).append(parameter)
        body.append(f"    _set(self, {field.name!r}, {value})" if frozen else f"    self.{field.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("    self.__post_init__()")
    parameters = ", ".join([*positional, "*", *keyword] if keyword else positional)
    return "\n".join([f"def __init__({parameters}):", *body]), names


def _tuple_of(fields: Any, of: str) -> str:
    return "(" + "".join(f"{of}.{field.name}, " for field in fields) + ")"


def _eq(fields: Any) -> Text:
    same = f"{_tuple_of(fields, 'self')} == {_tuple_of(fields, 'other')}"
    return f"def __eq__(self, other): return {same} if other.__class__ is self.__class__ else NotImplemented", {}


def _hash(fields: Any) -> Text:
    return f"def __hash__(self): return hash({_tuple_of(fields, 'self')})", {}


def _repr(fields: Any) -> Text:
    shown = ", ".join(f"{field.name}={{self.{field.name}!r}}" for field in fields if field.repr)
    definition = f"@guarded\ndef __repr__(self): return f'{{self.__class__.__qualname__}}({shown})'"
    return definition, {"guarded": recursive_repr()}


def _frozen(cls: Any, fields: set[str]) -> dict[str, Callable[..., Any]]:
    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807
        if type(self) is cls or name in fields:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in fields:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    def __getstate__(self: Any) -> list[Any]:  # noqa: N807 - copy and pickle must not assign
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def __setstate__(self: Any, state: list[Any]) -> None:  # noqa: N807
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)

    methods: list[Callable[..., Any]] = [__setattr__, __delattr__]
    if "__slots__" in vars(cls):
        methods += [__getstate__, __setstate__]
    return {method.__name__: method for method in methods}
