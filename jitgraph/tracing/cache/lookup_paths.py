"""Where another process finds the objects of a plan's table again: by name, at a source that a guard holds, or made."""

from __future__ import annotations

import sys
import types
from array import array
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph.runtime import imports
from jitgraph.runtime.loader import LoadError
from jitgraph.tracing.cache.fingerprint import PARTS, by_name, is_fixed, name_of
from jitgraph.tracing.cache.plain_text import (
    NotStorableError,
    read_bytes,
    read_dtype,
    read_plain,
    write_bytes,
    write_dtype,
    write_plain,
)
from jitgraph.tracing.plain import plain_of
from jitgraph.tracing.plan import CallPlan, Copied
from jitgraph.tracing.predicate import Elements, Is
from jitgraph.tracing.source import Ref, Source, World
from jitgraph.tracing.storage import EXPECTED_ERRORS, attributes_of, contents_of, entries_of

_KNOWN: Final = (("jitgraph.random.generator", "_GLOBAL.state"), ("jitgraph.tracing.record.printing", "traced_print"))
"""Objects of this package's own that every process has, and that no guard holds."""

_MOST_BYTES: Final = 1 << 20  # of an object that is made


def lookup_paths_of(plan: CallPlan, function: Any, sources: Any) -> list[Any]:
    """How each object of a plan is found; NotStorableError for one that is not. ``sources`` numbers sources."""
    at: dict[int, Source] = {}
    elements: dict[int, tuple[Source, bool]] = {}
    for guard in plan.guards:
        source, predicate = guard.source, guard.predicate
        if isinstance(predicate, Is) and source is not None and not _is_itself(source, predicate.number):
            at.setdefault(predicate.number, source)
        elif isinstance(predicate, Elements) and source is not None:
            elements.setdefault(predicate.number, (source, predicate.is_mapping))
    parts = _components(plan, function)
    paths: list[Any] = []
    for number, value in enumerate(plan.objects):
        if isinstance(value, Copied):
            paths.append(["copied", [_written(each) for each in value.values]])
        elif type(value) is types.ModuleType:
            paths.append(["module", value.__name__])
        elif (name := name_of(value)) is not None:
            paths.append(["name", *name])
        elif number in at:
            paths.append(["at", sources(at[number])])
        elif number in elements:
            paths.append(["elements", sources(elements[number][0]), elements[number][1]])
        elif (part := parts.get(id(value))) is not None and part[0] != number:
            paths.append(["part", *part])
        elif (known := next((n for n, each in enumerate(_KNOWN) if by_name(*each) is value), None)) is not None:
            paths.append(["known", known])
        elif (plain := plain_of(value)) is not None and type(value) not in (bytearray, array):
            paths.append(["plain", write_plain(plain)])
        else:
            raise NotStorableError(f"a {type(value).__qualname__} to which no name and no guard leads")
    return paths


def _components(plan: CallPlan, function: Any) -> dict[int, tuple[Any, ...]]:
    """What objects of the table hold for as long as they live, and the traced function does: by id, where it is."""
    component_paths: dict[int, tuple[Any, ...]] = {}
    for number, owner in enumerate((function, *plan.objects), -1):
        for name in PARTS.get(type(owner), ()):
            component_paths.setdefault(id(getattr(owner, name)), (number, "part", name))
        if issubclass(type(owner), tuple):
            for index, element in enumerate(owner):
                component_paths.setdefault(id(element), (number, "element", index))
        if type(owner) is types.FunctionType:
            for index, cell in enumerate(owner.__closure__ or ()):
                component_paths.setdefault(id(cell), (number, "closure", index))
                if is_fixed(owner) and cell != types.CellType():
                    component_paths.setdefault(id(cell.cell_contents), (number, "held", index))
        elif type(owner) is np.ufunc and (storage := attributes_of(owner)) is not None:  # asking others may make one
            component_paths.setdefault(id(storage), (number, "storage", 0))
        for name, method in _own_methods(type(owner)):
            for index, cell in enumerate(method.__closure__ or ()):
                component_paths.setdefault(id(cell), (number, "method", [name, index]))
    return component_paths


def _own_methods(kind: type) -> list[tuple[str, types.FunctionType]]:
    """The methods of a class of this package's."""
    if not kind.__module__.startswith("jitgraph."):
        return []
    entries = [item for base in reversed(kind.__mro__) for item in entries_of(base).items()]
    return [(name, entry) for name, entry in dict(entries).items() if type(entry) is types.FunctionType]


def _contents(owner: Any, kind: str, key: Any) -> Any:
    """What an object holds; LookupError where there is no such thing."""
    match kind:
        case "part" if key in PARTS.get(type(owner), ()):
            return getattr(owner, key)
        case "element" if issubclass(type(owner), tuple):
            return tuple.__getitem__(owner, key)
        case "closure" if type(owner) is types.FunctionType:
            return (owner.__closure__ or ())[key]
        case "held" if type(owner) is types.FunctionType and is_fixed(owner):
            return (owner.__closure__ or ())[key].cell_contents
        case "method":
            return (dict(_own_methods(type(owner)))[key[0]].__closure__ or ())[key[1]]
        case "storage" if type(owner) is np.ufunc and (storage := attributes_of(owner)) is not None:
            return storage
    raise LookupError(f"a {type(owner).__qualname__} holds no {kind}")


def _is_itself(source: Source, number: int) -> bool:
    return source.kind == "object" and source.key == number and not source.steps


def _written(value: Any) -> list[Any]:
    """What each call gets a copy of, as data."""
    kind = type(value)
    if kind is np.ndarray:
        order = "C" if value.flags.c_contiguous else "F"
        if value.nbytes > _MOST_BYTES or not (value.flags.c_contiguous or value.flags.f_contiguous):
            raise NotStorableError("a large or strided array that the function made")
        return ["array", write_dtype(value.dtype), list(value.shape), order, write_bytes(value.tobytes(order))]
    if kind in (bytearray, array):
        plain = plain_of(value)
        assert plain is not None
        if kind is array:
            return ["numbers", value.typecode, write_bytes(value.tobytes())]
        return ["bytes", write_bytes(plain.data)]
    if (kind is deque or (kind is set and all(type(member) is int for member in value))) and len(value) <= 4096:
        plains = [None if type(member) in (bytearray, array) else plain_of(member) for member in value]
        if None not in plains:
            written = [write_plain(plain) for plain in plains if plain is not None]
            return [kind.__name__, written, value.maxlen if kind is deque else None]
    raise NotStorableError(f"a {kind.__qualname__} that the function made")


def _rebuilt(encoded: Any) -> Any:
    """What ``_written`` wrote; LoadError where it is malformed."""
    try:
        kind, *data = encoded
        match kind:
            case "array":
                dtype, shape, order, content = data
                return np.ndarray(tuple(shape), read_dtype(dtype), bytearray(read_bytes(content)), order=order)
            case "bytes":
                return bytearray(read_bytes(data[0]))
            case "numbers":
                return array(data[0], read_bytes(data[1]))
            case "deque":
                return deque([read_plain(each).value for each in data[0]], data[1])
            case "set":
                return {read_plain(each).value for each in data[0]}
    except (TypeError, ValueError, OverflowError):
        raise LoadError("an object that is copied is malformed") from None
    raise LoadError(f"{kind!r} is no kind of objects that are copied")


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

    def __init__(
        self, paths: Sequence[Any], sources: Sequence[Source], function: Any, arguments: Sequence[Any]
    ) -> None:
        self._ways = paths
        self._sources = sources
        self._pending: set[int] = set()
        self.objects: list[Any] = [_YET] * len(paths)
        self._function = function
        self._world = World(function, arguments, self.objects)

    def all(self) -> list[Any]:
        """The whole table."""
        for number in range(len(self._ways)):
            self._find(number)
        return self.objects

    def _find(self, number: int) -> Any:
        if not 0 <= number < len(self._ways):
            raise LoadError(f"there is no object {number}")
        if self.objects[number] is _YET:
            if number in self._pending:
                raise LoadError("objects lead to each other in a circle")
            self._pending.add(number)
            self.objects[number] = self._by(self._ways[number])
        return self.objects[number]

    def _by(self, path: Any) -> Any:
        kind, *data = path
        match kind:
            case "module":
                _load_own(data[0])
                return sys.modules[data[0]]
            case "name":
                value = loaded_by_name(data[0], data[1])
                if value is None:
                    raise LookupError(f"{data[0]}.{data[1]}")
                return value
            case "at":
                return self._at(data[0])
            case "elements":
                value = contents_of(self._at(data[0]))
                return tuple(value.values() if data[1] else value)
            case "part":
                owner = self._function if data[0] == -1 else self._find(data[0])
                return _contents(owner, data[1], data[2])
            case "known":
                return loaded_by_name(*_KNOWN[data[0]])
            case "plain":
                return read_plain(data[0]).value
            case "copied":
                return Copied(tuple([_rebuilt(each) for each in data[0]]))
        raise LoadError(f"{kind!r} is no way to an object")

    def _at(self, number: int) -> Any:
        source = self._sources[number]
        if source.kind == "object":
            self._find(source.key)
        for step in source.steps:
            if isinstance(step.key, Ref):
                self._find(step.key.number)
        try:
            return self._world.find(source)
        except EXPECTED_ERRORS as error:
            raise LookupError(str(error)) from None


_YET: Final = object()
