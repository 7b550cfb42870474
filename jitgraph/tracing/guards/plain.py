"""Python values as plain data that tells 1, True and 1.0 apart, and floats by their bits.

A value of a type that ``plain_of`` knows becomes ``Plain(kind, data)``, which is hashable, can be stored, and is equal
for equal values of the same type alone.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from typing import Annotated, Any, Final

import numpy as np

from jitgraph.records import NamedTuple

_LITERAL: Final = frozenset({int, str, bytes})
_TEXT: Final = frozenset({str})
_CONSTANTS: Final = (None, True, False, Ellipsis, NotImplemented)


class Plain(NamedTuple):
    """A value by the name of its type and hashable data."""

    kind: str
    data: Annotated[Any, STORED]

    @property
    def fault(self) -> str:
        """What is wrong with data that were read from a file, "" where nothing is."""
        if type(self.data) is str and self.kind != "float":
            return ""
        if self.kind == "scalar" and len(self.data[1]) != self.data[0].itemsize:
            return "a scalar has another length than its dtype"
        try:
            self.value  # noqa: B018 - a range of a step 0 is none
        except (TypeError, ValueError, OverflowError):
            return f"a {self.kind} is malformed"
        return ""

    @property
    def value(self) -> Any:
        """The value, made anew where it can be changed."""
        kind, data = self
        match kind:
            case "float":
                return float.fromhex(data)
            case "complex":
                return complex(float.fromhex(data[0]), float.fromhex(data[1]))
            case "range" | "slice":
                return (range if kind == "range" else slice)(*[part.value for part in data])
            case "tuple" | "frozenset":
                return (tuple if kind == "tuple" else frozenset)([part.value for part in data])
            case "scalar":
                return (np.ndarray((), data[0], data[1]) if data[1] else np.zeros((), data[0]))[()]
            case "bytearray":
                return bytearray(data)
            case "array":
                return array(*data)
        return data


STORED: Final[dict[str, Any]] = {
    "int": Annotated[int, "any int"],
    "str": str,
    "bytes": bytes,
    "bytearray": bytes,
    "float": str,
    "complex": tuple[str, str],
    "constant": Annotated[Any, "constant"],
    "dtype": np.dtype,
    "scalar": tuple[np.dtype[Any], bytes],
    "range": tuple[Plain, ...],
    "slice": tuple[Plain, ...],
    "tuple": tuple[Plain, ...],
    "frozenset": frozenset[Plain],
}
"""The types of the data by kind, of values that files can hold."""


def plain_of(value: Any) -> Plain | None:
    """The value as plain data; None for an object that has none."""
    kind = type(value)
    if kind in _LITERAL:
        return Plain(kind.__name__, value)
    if any(value is constant for constant in _CONSTANTS):
        return Plain("constant", value)
    if kind is float:
        return Plain("float", _text(value))
    if kind is complex:
        return Plain("complex", (_text(value.real), _text(value.imag)))
    if kind in (range, slice):
        return _of_parts(kind.__name__, (value.start, value.stop, value.step))
    if kind is tuple:
        return _of_parts("tuple", value)
    if kind is frozenset:
        inner = _of_parts("frozenset", value)
        return None if inner is None else Plain("frozenset", frozenset(inner.data))
    if isinstance(value, np.dtype):  # equal ones may differ in what they hold besides
        return Plain("dtype", value) if value.metadata is None and value.names is None is value.subdtype else None
    if isinstance(value, np.generic):
        return None if value.dtype.hasobject else Plain("scalar", (value.dtype, value.tobytes()))
    if kind is bytearray:
        return Plain("bytearray", bytes(value))
    if kind is array:
        return Plain("array", (value.typecode, value.tobytes()))
    return None


def _text(value: float) -> str:
    """The bits of a float; of a NaN its sign alone."""
    return value.hex() if value == value else ("-nan" if math.copysign(1.0, value) < 0 else "nan")


def _of_parts(kind: str, parts: Iterable[Any]) -> Plain | None:
    plains = tuple([plain_of(part) for part in parts])
    return None if None in plains else Plain(kind, plains)


def mark(value: Any) -> Any:
    """What tells a value from others that are alive: plain data, or the identity of an object, whose class may call
    others equal to it."""
    plain = plain_of(value)
    return id(value) if plain is None else plain


def marks(values: Iterable[Any]) -> tuple[Any, ...]:
    """The marks of several values, in order."""
    return tuple([mark(value) for value in values])


def are_texts(values: Iterable[Any]) -> bool:
    """Whether all are texts, and none of a class derived from it."""
    return set(map(type, values)) <= _TEXT


def same_float(a: Any, b: float) -> bool:
    """Whether two floats are the same: NaN equals NaN of its sign, -0.0 differs from 0.0."""
    if type(a) is not type(b) or math.copysign(1.0, a) != math.copysign(1.0, b):
        return False
    return a == b or (a != a and b != b)
