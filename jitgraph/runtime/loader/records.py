"""Records: values of named fields. The standard library's data classes compile their methods, which takes long."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, Self, dataclass_transform


@dataclass_transform(frozen_default=True)
class FrozenRecord:
    """A value of the fields that its class annotates, behind those of its bases; their defaults stand in the class.

    It equals another one of its class with equal fields, and nobody assigns to it. ``__post_init__`` may refuse it.
    """

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(dict.fromkeys((*cls._fields, *vars(cls).get("__annotations__", ()))))

    def __init__(self, *values: Any, **kwargs: Any) -> None:
        fields = dict(zip(self._fields, values))  # noqa: B905  (too many are found below)
        if len(values) > len(fields) or not fields.keys().isdisjoint(kwargs) or not kwargs.keys() <= set(self._fields):
            raise TypeError(f"{type(self).__name__}() takes {', '.join(self._fields)}, each once")
        fields |= kwargs
        for name in self._fields:
            if name not in fields and not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__}() needs {name}")
            vars(self)[name] = fields[name] if name in fields else getattr(type(self), name)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the fields together."""

    def but_with(self, **changes: Any) -> Self:
        """Another record, with these fields in place of its own."""
        return type(self)(**{**vars(self), **changes})

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"cannot assign to {name!r} of a {type(self).__name__}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"cannot delete {name!r} of a {type(self).__name__}")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
