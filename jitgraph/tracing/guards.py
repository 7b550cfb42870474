"""Guards: what a recorded graph assumes about Python state, checked before the graph is used again.

A guard names a place (an attribute, an item, a cell of some object) and what must be found there. Guards are plain
data; ``compile_guards`` turns a list of them into one function.
"""

from __future__ import annotations

import enum
import math
import operator
import types
import zlib
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from jitgraph.location import Location
from jitgraph.records import dataclass
from jitgraph.tensor import Tensor

MAX_ELEMENTS: Final = 64  # of a container that is guarded element by element
MAX_BYTES: Final = 4 << 10  # of an array whose contents are guarded, where NumPy and not a graph used it
MAX_COPIED: Final = 1 << 20  # bytes of an array whose contents can be put back after a trace
_EXPECTED_ERRORS: Final = (AttributeError, KeyError, IndexError, TypeError, ValueError)

_NOTHING: Final = object()

PlaceKind: TypeAlias = Literal["attribute", "item", "cell", "class", "own", "type", "cached"]
GuardKind: TypeAlias = Literal[
    "identity", "equal", "float", "length", "tensor", "array", "contents", "method", "absent"
]


class Place(NamedTuple):
    """Where a value stands: ``owner.key``, ``owner[key]``, the contents of a cell.

    class: what stands under ``key`` in the class ``owner`` itself. own: what stands in the instance ``owner`` itself,
    whatever its class has. type: the class of ``owner``. cached: what ``owner``, a cached function, gives for the
    arguments ``key``.
    """

    kind: PlaceKind
    owner: Any
    key: Any
    text: str

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for the same place of the same object (not for equal objects)."""
        kind = "attribute" if self.kind == "own" else self.kind
        return (kind, id(self.owner), type(self.key), self.key)

    def get(self) -> Any:
        """What stands there now; AttributeError, LookupError or ValueError where nothing does."""
        match self.kind:
            case "attribute":
                return getattr(self.owner, self.key)
            case "item":
                return item_of(self.owner, self.key)
            case "class":
                return entries_of(self.owner)[self.key]
            case "own":
                return storage_of(self.owner)[self.key]
            case "type":
                return type(self.owner)
            case "cached":
                return self.owner(*self.key)
        return self.owner.cell_contents

    def get_or(self, default: Any) -> Any:
        """What stands there now, or ``default`` where nothing does."""
        try:
            return self.get()
        except _EXPECTED_ERRORS:
            return default

    def set(self, value: Any) -> None:
        """Put ``value`` there; no ``__setattr__`` of the user's is run again."""
        match self.kind:
            case "attribute" | "own":
                _set_attribute(self.owner, self.key, value)
            case "item":
                self.owner[self.key] = value
            case "class":
                type.__setattr__(self.owner, self.key, value)
            case "type":
                object.__setattr__(self.owner, "__class__", value)
            case _:
                self.owner.cell_contents = value

    def remove(self) -> None:
        """Take away what stands there, if anything does."""
        try:
            match self.kind:
                case "attribute" | "own":
                    _delete_attribute(self.owner, self.key)
                case "item":
                    del self.owner[self.key]
                case "class":
                    type.__delattr__(self.owner, self.key)
                case _:
                    del self.owner.cell_contents
        except _EXPECTED_ERRORS:
            return


def _set_attribute(owner: Any, name: str, value: Any) -> None:
    try:
        object.__setattr__(owner, name, value)
    except TypeError:  # the class is written in C and sets attributes in its own way
        setattr(owner, name, value)


def _delete_attribute(owner: Any, name: str) -> None:
    try:
        object.__delattr__(owner, name)
    except TypeError:
        delattr(owner, name)


_ENTRIES: Final[Any] = type.__dict__["__dict__"].__get__


def entries_of(kind: type) -> Mapping[str, Any]:
    """What stands in a class itself."""
    entries: Mapping[str, Any] = _ENTRIES(kind)
    return entries


def storage_of(owner: Any) -> dict[str, Any]:
    """The attributes that an instance itself has, found without code of the user's; AttributeError for none."""
    found: dict[str, Any] = object.__getattribute__(owner, "__dict__")
    return found


def item_of(container: Any, key: Any) -> Any:
    """``container[key]`` without the ``__missing__`` of a mapping, which may put something there; LookupError."""
    if isinstance(container, dict) and hasattr(type(container), "__missing__"):
        found = dict.get(container, key, _NOTHING)
        if found is _NOTHING:
            raise KeyError(key)
        return found
    return container[key]


@dataclass(frozen=True, slots=True)
class Guard:
    """``place`` must hold ``expected``, in the sense of ``kind``; ``location`` is the line that read it."""

    kind: GuardKind
    place: Place
    expected: Any
    location: Location | None = None

    def holds(self) -> bool:
        """Whether the guard is true now."""
        if self.kind == "absent":
            return self.place.get_or(_NOTHING) is _NOTHING
        try:
            return _holds(self.kind, self.place.get(), self.expected)
        except _EXPECTED_ERRORS:
            return False

    def fits(self, found: Any) -> bool:
        """Whether the guard would be true of ``found`` at its place."""
        return _holds(self.kind, found, self.expected)

    def __str__(self) -> str:
        relation = {"equal": "==", "float": "==", "length": "has"}.get(self.kind, "is")
        return f"{self.place.text} {relation} {self._expected_text()}"

    def _expected_text(self) -> str:
        expected = self.expected
        match self.kind:
            case "absent":
                return "not there"
            case "length":
                return f"these {len(expected.container)} elements, the same object"
            case "tensor":
                return "a tensor"
            case "array":
                return f"this array of {expected.dtype} {list(expected.shape)}"
            case "contents":
                return f"an array of {expected.dtype} {list(expected.shape)} with these values"
        return brief(expected)


def brief(value: Any) -> str:
    """A short text of a value for reports."""
    if isinstance(value, types.FunctionType | type | types.BuiltinFunctionType):
        return getattr(value, "__qualname__", repr(value))
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, bool | int | float | str | bytes | complex | enum.Enum | np.dtype) or value is None:
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    return f"this {type(value).__name__}"


def same_float(a: Any, b: float) -> bool:
    """Whether two floats are the same: NaN equals NaN, -0.0 differs from 0.0."""
    if type(a) is not type(b):
        return False
    return (a == b and math.copysign(1.0, a) == math.copysign(1.0, b)) or (a != a and b != b)


def _holds(kind: GuardKind, found: Any, expected: Any) -> bool:
    match kind:
        case "identity":
            return found is expected
        case "equal":
            return found is expected or (type(found) is type(expected) and bool(found == expected))
        case "float":
            return found is expected or same_float(found, expected)
        case "tensor":
            return isinstance(found, Tensor)
        case "array":
            array, dtype, shape = expected.array, expected.dtype, expected.shape
            return found is array and bool(array.dtype == dtype) and bool(array.shape == shape)
        case "method":
            return getattr(found, "__func__", found) is expected
        case "contents":
            return isinstance(found, np.ndarray) and bool(expected.same_contents(found))
        case "length":
            return found is expected.container and bool(expected.unchanged())
        case "absent":
            return False


@dataclass(frozen=True, slots=True)
class Contents:
    """A container and what identifies its extent: the keys of a mapping, the members of a set, else the length."""

    container: Any
    keys: Any

    @staticmethod
    def of(container: Any) -> Contents:
        return Contents(container, _extent(container))

    def unchanged(self) -> bool:
        """Whether the container has the same extent now."""
        return bool(_extent(self.container) == self.keys)


@dataclass(frozen=True, slots=True)
class Elements(Contents):
    """A container of many elements, and these very objects."""

    elements: tuple[Any, ...]

    @staticmethod
    def of(container: Any) -> Elements:
        return Elements(container, _extent(container), _elements(container))

    def unchanged(self) -> bool:
        """Whether the container has the same extent and elements now."""
        if _extent(self.container) != self.keys:
            return False
        return all(map(operator.is_, _elements(self.container), self.elements))


def _elements(container: Any) -> tuple[Any, ...]:
    if isinstance(container, set | frozenset):
        return ()
    return tuple(container.values() if isinstance(container, dict) else container)


class ArrayState(NamedTuple):
    """An array with the dtype and shape it had."""

    array: Any
    dtype: Any
    shape: tuple[int, ...]

    @staticmethod
    def copy_of(array: Any) -> ArrayState:
        """The state of ``array`` with a copy of its contents."""
        return ArrayState(np.array(array), array.dtype, array.shape)

    def same_contents(self, array: Any) -> bool:
        """Whether ``array`` has the same dtype, shape and bytes."""
        fits = bool(array.dtype == self.dtype) and bool(array.shape == self.shape)
        return fits and bool(array.tobytes() == self.array.tobytes())


def fingerprint(array: Any) -> bytes | int:
    """The bytes of an array, or for a large one their checksum."""
    if array.nbytes <= MAX_COPIED:
        return array.tobytes()  # type: ignore[no-any-return]
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data)


def restore(array: Any, before: bytes | int) -> None:
    """Give an array the contents that it had, where they were kept."""
    if isinstance(before, bytes) and not array.dtype.hasobject and array.tobytes() != before:
        array[...] = np.frombuffer(before, array.dtype).reshape(array.shape)


def keeper(container: Any) -> Callable[[Any], None]:
    """What puts the elements back that a list, dict or set has now."""
    before = container.copy()

    def put_back(now: Any) -> None:
        if isinstance(now, list):
            if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
                now[:] = before
        elif isinstance(now, set):
            if now != before:
                now.clear()
                now.update(before)
        elif list(now) != list(before) or any(now[key] is not before[key] for key in before):
            now.clear()
            now.update(before)

    return put_back


def _extent(container: Any) -> Any:
    if isinstance(container, dict | types.MappingProxyType):
        return tuple(container)
    if isinstance(container, set | frozenset):
        return frozenset(container)
    return len(container)


CONTAINERS: Final = (list, tuple, dict, OrderedDict, set, frozenset)
_BASES: Final = (list, tuple, OrderedDict, dict, set, frozenset, deque)
_ACCESS: Final = ("__getitem__", "__iter__", "__len__", "__contains__", "keys", "values", "items", "get")
_BY_VALUE: Final = (int, str, bytes, complex, range, slice, frozenset)


def is_container(value: Any) -> bool:
    """True for the built-in containers and what derives from them, whose items can be read without running code of the
    user's."""
    kind: Any = type(value)
    return kind in CONTAINERS or _reads_plainly(kind)


@lru_cache(maxsize=4096)
def _reads_plainly(kind: type[Any]) -> bool:
    base = next((base for base in _BASES if issubclass(kind, base)), None)
    return base is not None and all(getattr(kind, name, None) is getattr(base, name, None) for name in _ACCESS)


def guard_for(place: Place, value: Any, location: Location | None) -> Guard:
    """The guard that ``value``, just read at ``place``, calls for, by the kind of the value."""
    if isinstance(value, Tensor):
        return Guard("tensor", place, None, location)
    if isinstance(value, np.ndarray):
        return Guard("array", place, ArrayState(value, value.dtype, value.shape), location)
    if value is None or isinstance(value, bool | enum.Enum | type):
        return Guard("identity", place, value, location)
    if type(value) is float or isinstance(value, np.floating):
        return Guard("float", place, value, location)
    if type(value) in _BY_VALUE or isinstance(value, np.generic | np.dtype):
        return Guard("equal", place, value, location)
    if isinstance(value, bytearray | array):
        return Guard("equal", place, copy(value), location)
    return Guard("identity", place, value, location)


def compile_guards(guards: Sequence[Guard]) -> Callable[[], bool]:
    """One function that is true where all guards hold."""
    if not guards:
        return lambda: True
    names: dict[str, Any] = {"same_float": same_float, "item_of": item_of, "errors": _EXPECTED_ERRORS, "Tensor": Tensor}
    names |= {"storage_of": storage_of, "type": type}
    tests = [_test(guard, i, names) for i, guard in enumerate(guards)]
    body = "\n            and ".join(tests)
    source = f"def check():\n    try:\n        return bool({body})\n    except errors:\n        return False\n"
    exec(compile(source, "<jitgraph guards>", "exec"), names)
    check: Callable[[], bool] = names["check"]
    return check


def found_at(place: Place, owner: str, key: str, names: dict[str, Any]) -> str:
    """The expression for what stands at a place; its owner and key get these names."""
    names[owner], names[key] = place.owner, place.key
    match place.kind:
        case "cell":
            return f"{owner}.cell_contents"
        case "attribute":
            return f"{owner}.{place.key}" if str(place.key).isidentifier() else f"getattr({owner}, {key})"
        case "class":
            names[owner] = entries_of(place.owner)
        case "own":
            return f"storage_of({owner})[{key}]"
        case "type":
            return f"type({owner})"
        case "cached":
            return f"{owner}(*{key})"
        case "item" if hasattr(type(place.owner), "__missing__"):
            return f"item_of({owner}, {key})"
    return f"{owner}[{key}]"


def _test(guard: Guard, i: int, names: dict[str, Any]) -> str:
    owner, value = f"o{i}", f"v{i}"
    place = guard.place
    names[value] = guard.expected
    found = found_at(place, owner, f"k{i}", names)
    match guard.kind:
        case "absent" if place.kind == "class":
            return f"k{i} not in {owner}"
        case "absent" if place.kind == "own":
            return f"k{i} not in storage_of({owner})"
        case "absent" if place.kind == "item" and type(place.owner) is dict:
            return f"k{i} not in {owner}"
        case "absent":
            names[value] = guard
            return f"{value}.holds()"
        case "identity":
            return f"{found} is {value}"
        case "equal":
            names[f"t{i}"] = type(guard.expected)
            return f"((t := {found}) is {value} or (type(t) is t{i} and t == {value}))"
        case "float":
            return f"((t := {found}) is {value} or same_float(t, {value}))"
        case "tensor":
            return f"isinstance({found}, Tensor)"
        case "array":
            array = f"{value}.array"
            return f"{found} is {array} and {array}.dtype == {value}.dtype and {array}.shape == {value}.shape"
        case "contents":
            return f"{value}.same_contents({found})"
        case "method":
            return f"((t := {found}) is {value} or t.__func__ is {value})"
        case "length" if isinstance(guard.expected, Elements):
            return f"{found} is {value}.container and {value}.unchanged()"
        case "length":
            contents: Contents = guard.expected
            names[value] = contents.container
            names[f"e{i}"] = contents.keys
            form = "tuple({0})" if isinstance(contents.container, dict | types.MappingProxyType) else "len({0})"
            form = "{0}" if isinstance(contents.container, set | frozenset) else form
            return f"{found} is {value} and {form.format(value)} == e{i}"
