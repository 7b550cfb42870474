"""Where another process finds the objects of a plan's table again: by name, at a source that a guard holds, or made."""

from __future__ import annotations

import sys
import types
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from jitgraph.records import NamedTuple
from jitgraph.runtime import imports
from jitgraph.runtime.loader import LoadError
from jitgraph.tracing.cache.codec import NotStorableError
from jitgraph.tracing.cache.fingerprint import PARTS, by_name, is_fixed, name_of
from jitgraph.tracing.call.plan import CallPlan, Copied
from jitgraph.tracing.guards.guard import Elements, Is
from jitgraph.tracing.guards.plain import Plain, plain_of
from jitgraph.tracing.guards.source import ObjectNumber, Ref, Source, World
from jitgraph.tracing.guards.storage import EXPECTED_ERRORS, attributes_of, contents_of, entries_of

_KNOWN: Final = (
    imports.provider("state of the global generator"),
    ("jitgraph.tracing.record.printing", "traced_print"),
)
"""Objects of this package's own that every process has, and that no guard holds."""

_MOST_BYTES: Final = 1 << 20  # of an object that is made
_MOST_ELEMENTS: Final = 4096


class ModuleOf(NamedTuple):
    """The module of this name."""

    name: str

    def find(self, finding: Finding) -> Any:
        _load_own(self.name)
        return sys.modules[self.name]


class NameIn(NamedTuple):
    """What a module has under a dotted name."""

    module: str
    name: str

    def find(self, finding: Finding) -> Any:
        value = loaded_by_name(self.module, self.name)
        if value is None:
            raise LookupError(f"{self.module}.{self.name}")
        return value


class ObjectAt(NamedTuple):
    """What stands at a source."""

    source: Source

    def find(self, finding: Finding) -> Any:
        return finding.at(self.source)


class ElementsAt(NamedTuple):
    """The elements of the container at a source."""

    source: Source
    is_mapping: bool

    def find(self, finding: Finding) -> Any:
        value = contents_of(finding.at(self.source))
        return tuple(value.values() if self.is_mapping else value)


class PartOf(NamedTuple):
    """What an object of the table, or the traced function where that is None, holds for as long as it lives."""

    owner: ObjectNumber | None
    kind: Literal["part", "element", "closure", "contents", "method", "storage"]
    name: str
    position: int

    def find(self, finding: Finding) -> Any:
        owner: Any = finding.function if self.owner is None else finding.find(self.owner)
        for *part, value in _parts_of(owner):
            if part == [self.kind, self.name, self.position]:
                return value
        raise LookupError(f"a {type(owner).__qualname__} holds no {self.kind}")


class KnownObject(NamedTuple):
    """One of ``_KNOWN``."""

    number: int

    def find(self, finding: Finding) -> Any:
        return loaded_by_name(*_KNOWN[self.number])


class PlainObject(NamedTuple):
    """An object that is its value."""

    plain: Plain

    def find(self, finding: Finding) -> Any:
        return self.plain.value


class ArrayCopy(NamedTuple):
    """A NumPy array by its bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    order: Literal["C", "F"]
    content: bytes

    def value(self) -> Any:
        return np.ndarray(self.shape, self.dtype, bytearray(self.content), order=self.order)


class NumbersCopy(NamedTuple):
    """A ``bytearray``, or an ``array.array`` of this code."""

    code: str
    content: bytes

    def value(self) -> Any:
        return array(self.code, self.content) if self.code else bytearray(self.content)


class MembersCopy(NamedTuple):
    """A set or a deque of plain values."""

    kind: Literal["set", "deque"]
    members: tuple[Plain, ...]
    longest: int | None

    def value(self) -> Any:
        values = [plain.value for plain in self.members]
        return set(values) if self.kind == "set" else deque(values, self.longest)


class CopiedObjects(NamedTuple):
    """What each call gets copies of."""

    values: tuple[ArrayCopy | NumbersCopy | MembersCopy, ...]

    def find(self, finding: Finding) -> Any:
        try:
            return Copied(tuple([each.value() for each in self.values]))
        except (TypeError, ValueError, OverflowError):
            raise LoadError("an object that is copied is malformed") from None


LookupPath: TypeAlias = ModuleOf | NameIn | ObjectAt | ElementsAt | PartOf | KnownObject | PlainObject | CopiedObjects


def lookup_paths_of(plan: CallPlan, function: Any) -> tuple[LookupPath, ...]:
    """How each object of a plan is found; NotStorableError for one that is not."""
    guards = [(guard.source, guard.predicate) for guard in plan.guards if guard.source is not None]
    at: dict[int, Any] = {}
    for source, predicate in guards:
        if isinstance(predicate, Is) and not _is_itself(source, predicate.number):
            at.setdefault(predicate.number, ObjectAt(source))
        elif isinstance(predicate, Elements):
            at.setdefault(predicate.number, ElementsAt(source, predicate.is_mapping))
    parts = _components(plan, function)
    return tuple([_path_of(value, at.get(number), parts, number) for number, value in enumerate(plan.objects)])


def _path_of(value: Any, at: LookupPath | None, parts: dict[int, PartOf], number: int) -> LookupPath:
    if isinstance(value, Copied):
        return CopiedObjects(tuple(map(_copy_of, value.values)))
    if type(value) is types.ModuleType:
        return ModuleOf(value.__name__)
    if (name := name_of(value)) is not None:
        return NameIn(*name)
    if at is not None:
        return at
    if (part := parts.get(id(value))) is not None and part.owner != number:
        return part
    for known, names in enumerate(_KNOWN):
        if by_name(*names) is value:
            return KnownObject(known)
    plain = None if type(value) in (bytearray, array) else plain_of(value)
    if plain is None:
        raise NotStorableError(f"a {type(value).__qualname__} to which no name and no guard leads")
    return PlainObject(plain)


def _components(plan: CallPlan, function: Any) -> dict[int, PartOf]:
    """What objects of the table hold, and the traced function does: by id, where it is."""
    components: dict[int, PartOf] = {}
    for number, owner in enumerate((function, *plan.objects), -1):
        for kind, name, position, value in _parts_of(owner):
            components.setdefault(id(value), PartOf(number if number >= 0 else None, kind, name, position))
    return components


def _parts_of(owner: Any) -> Iterator[tuple[Any, str, int, Any]]:
    """What an object holds for as long as it lives: a kind, a name or a position, and the part."""
    for name in PARTS.get(type(owner), ()):
        yield "part", name, 0, getattr(owner, name)
    if issubclass(type(owner), tuple):
        for position, element in enumerate(tuple.__iter__(owner)):
            yield "element", "", position, element
    if type(owner) is types.FunctionType:
        for position, cell in enumerate(owner.__closure__ or ()):
            yield "closure", "", position, cell
            if is_fixed(owner) and cell != types.CellType():
                yield "contents", "", position, cell.cell_contents
    elif type(owner) is np.ufunc and (storage := attributes_of(owner)) is not None:  # asking others may make one
        yield "storage", "", 0, storage
    for name, method in _own_methods(type(owner)):
        for position, cell in enumerate(method.__closure__ or ()):
            yield "method", name, position, cell


def _own_methods(kind: type) -> list[tuple[str, types.FunctionType]]:
    """The methods of a class of this package's."""
    if not kind.__module__.startswith("jitgraph."):
        return []
    entries = [item for base in reversed(kind.__mro__) for item in entries_of(base).items()]
    return [(name, entry) for name, entry in dict(entries).items() if type(entry) is types.FunctionType]


def _is_itself(source: Source, number: int) -> bool:
    return source.kind == "object" and source.key == number and not source.steps


def _copy_of(value: Any) -> ArrayCopy | NumbersCopy | MembersCopy:
    """What each call gets a copy of, as data."""
    kind = type(value)
    if kind is np.ndarray:
        order: Literal["C", "F"] = "C" if value.flags.c_contiguous else "F"
        if value.nbytes > _MOST_BYTES or not (value.flags.c_contiguous or value.flags.f_contiguous):
            raise NotStorableError("a large or strided array that the function made")
        return ArrayCopy(value.dtype, value.shape, order, value.tobytes(order))
    if kind in (bytearray, array):
        return NumbersCopy(value.typecode if kind is array else "", value.tobytes() if kind is array else bytes(value))
    is_simple = kind is deque or (kind is set and all(type(member) is int for member in value))
    if is_simple and len(value) <= _MOST_ELEMENTS:
        plains = tuple([plain for member in value if (plain := plain_of(member)) is not None])
        if len(plains) == len(value) and not any(type(member) in (bytearray, array) for member in value):
            return MembersCopy("set" if kind is set else "deque", plains, value.maxlen if kind is deque else None)
    raise NotStorableError(f"a {kind.__qualname__} that the function made")


def loaded_by_name(module: Any, name: Any) -> Any:
    """``by_name``, also of a module of jitgraph that this process has not used yet."""
    _load_own(module)
    return by_name(module, name)


def _load_own(module: Any) -> None:
    """Import a module of jitgraph that loads when it is first used, as it had been where the entry was written."""
    if isinstance(module, str) and module.startswith("jitgraph.") and module not in sys.modules:
        try:
            imports.module(module)
        except (ImportError, ValueError) as error:
            raise LookupError(module) from error


class Finding:
    """Finds the objects of a table in this process; LookupError and the like where one is not there."""

    def __init__(self, paths: Sequence[LookupPath], function: Any, arguments: Sequence[Any]) -> None:
        self.function = function
        self.objects: list[Any] = [_YET] * len(paths)
        self.world = World(function, arguments, self.objects)
        self._paths = paths
        self._pending: set[int] = set()

    def all(self) -> list[Any]:
        """The whole table."""
        for number in range(len(self._paths)):
            self.find(number)
        return self.objects

    def find(self, number: int) -> Any:
        """The object of this number."""
        if self.objects[number] is _YET:
            if number in self._pending:
                raise LoadError("objects lead to each other in a circle")
            self._pending.add(number)
            self.objects[number] = self._paths[number].find(self)
        return self.objects[number]

    def at(self, source: Source) -> Any:
        """What stands at a source."""
        if source.kind == "object":
            self.find(source.key)
        for step in source.steps:
            if isinstance(step.key, Ref):
                self.find(step.key.number)
        try:
            return self.world.find(source)
        except EXPECTED_ERRORS as error:
            raise LookupError(str(error)) from None


_YET: Final = object()
