"""Records of named fields, and JSON read with suspicion: at most so many bytes and values, no key twice."""

from __future__ import annotations

from typing import Any, ClassVar, Final, NoReturn, Self, TypeAlias, dataclass_transform

from jitgraph.runtime.loader.errors import LoadError

# ----------------------------------------------------------------------
# Records: values of named fields. The standard library's data classes compile their methods, which takes long.


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


# ----------------------------------------------------------------------
# JSON read with suspicion: at most so many bytes and values, no key twice, each member of the type that is due.

Json: TypeAlias = Any
MAX_JSON_BYTES: Final = 16 << 20  # bytes: of the manifest, and of the header of the weights
_MAX_JSON_VALUES: Final = 1 << 20  # roughly; each costs about a hundred bytes once it is read


def _no_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return mapping


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def parse_json(data: bytes, where: str) -> dict[str, Json]:
    """The object that ``data`` holds as JSON; LoadError where it is malformed, too large or no object."""
    if len(data) > MAX_JSON_BYTES:
        raise LoadError(f"{where} is {len(data)} bytes long, more than the {MAX_JSON_BYTES} allowed")
    if data.count(b",") + data.count(b"[") + data.count(b"{") > _MAX_JSON_VALUES:
        raise LoadError(f"{where} has more than {_MAX_JSON_VALUES} values; save the model again")
    import json  # here, as hashlib in artifact.py: a process that reads no artifact does not wait for them

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{where} is not sound JSON: {error}; save the model again") from None
    if not isinstance(value, dict):
        raise LoadError(f"{where} is not a JSON object but a {type(value).__name__}; save the model again")
    return value


def get_typed(source: Json, key: str, kind: type | tuple[type, ...], where: str, default: Json = None) -> Json:
    """``source[key]`` of type ``kind``, or ``default``; LoadError where it is missing or of another type."""
    if not isinstance(source, dict):
        raise LoadError(f"{where} is not a JSON object but a {type(source).__name__}")
    if key not in source:
        if default is None:
            raise LoadError(f"{where} lacks {key!r}; the file is damaged or from another writer")
        return default
    value = source[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        expected = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise LoadError(f"{where}: {key!r} is {value!r:.60}, expected {expected}")
    return value
