"""The Python state of a program as plain data: values, kinds, order and identity of what its modules hold."""

from __future__ import annotations

import functools
import os
import types
from collections import ChainMap, UserDict, UserList, deque
from typing import Any

import jitgraph as jg

_SKIPPED = ("__dict__", "__weakref__", "__doc__", "__module__", "__builtins__", "__annotations__", "__slotnames__")


class Snapshot:
    """Walks from modules; an object met again is named by its number."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.seen: dict[int, int] = {}
        self.kept: list[Any] = []

    def of_module(self, module: types.ModuleType) -> Any:
        """What the module holds that the program made."""
        return {name: self.of(held) for name, held in sorted(vars(module).items()) if not name.startswith("__")}

    def of(self, held: Any) -> Any:
        """Plain data for an object."""
        kind = type(held)
        if held is None or kind in (int, float, bool, str, bytes, complex):
            return f"{kind.__name__} {held!r}"
        if kind in (types.ModuleType, types.BuiltinFunctionType, object):
            return getattr(held, "__name__", "")
        if kind is jg.Tensor:
            return "tensor", str(held.dtype), repr(held.tolist())
        if id(held) in self.seen:
            return f"again {self.seen[id(held)]}"
        self.seen[id(held)] = len(self.seen)
        self.kept.append(held)
        return self.inside(held, kind)

    def inside(self, held: Any, kind: type) -> Any:
        """Plain data for an object that is met for the first time."""
        if issubclass(kind, list | tuple | deque):
            return kind.__name__, [self.of(each) for each in list(held)], self.attributes(held)
        if issubclass(kind, set | frozenset):
            return kind.__name__, sorted(repr(each) for each in held)
        if issubclass(kind, dict):
            return kind.__name__, [(self.of(k), self.of(dict.__getitem__(held, k))) for k in dict.keys(held)]
        if issubclass(kind, UserDict | UserList):
            return kind.__name__, self.of(held.data)
        if issubclass(kind, ChainMap):
            return kind.__name__, self.of(held.maps)
        if issubclass(kind, types.FunctionType):
            return self.function(held)
        if issubclass(kind, types.MethodType | functools.partial):
            parts = (held.__func__, held.__self__) if kind is types.MethodType else held.__reduce__()[2]
            return kind.__name__, [self.of(part) for part in parts]
        if issubclass(kind, type):
            if not self.is_own(held):
                return held.__name__
            own = type.__dict__["__dict__"].__get__(held)
            bases = [self.of(base) for base in held.__bases__]
            return held.__name__, bases, {k: self.of(v) for k, v in own.items() if k not in _SKIPPED}
        if issubclass(kind, staticmethod | classmethod):
            return kind.__name__, self.of(held.__func__)
        if issubclass(kind, property):
            return kind.__name__, self.of(held.fget), self.of(held.fset)
        return (kind.__name__, self.of(kind), self.attributes(held)) if self.is_own(kind) else kind.__name__

    def is_own(self, kind: type) -> bool:
        """Whether a class was made by the program, or holds nothing but attributes."""
        return kind is types.SimpleNamespace or kind.__module__.startswith("program")

    def attributes(self, held: Any) -> Any:
        """The attributes of an instance, in its dict or in slots, in order."""
        try:
            own = object.__getattribute__(held, "__dict__")
        except AttributeError:
            own = {}
        actual = {name: self.of(each) for name, each in own.items()}
        for kind in type(held).__mro__:
            for name, member in type.__dict__["__dict__"].__get__(kind).items():
                if isinstance(member, types.MemberDescriptorType) and self.is_own(kind):
                    try:
                        actual[name] = self.of(member.__get__(held))
                    except AttributeError:
                        actual[name] = "empty"
        return list(actual.items())

    def function(self, held: types.FunctionType) -> Any:
        """A function of the program: its code, defaults, cells and attributes."""
        code = held.__code__
        if os.path.dirname(code.co_filename) != self.folder:
            return held.__name__
        cells = []
        for cell in held.__closure__ or ():
            try:
                cells.append(self.of(cell.cell_contents))
            except ValueError:
                cells.append("empty")
        where = os.path.basename(code.co_filename), code.co_firstlineno, code.co_name
        rest = (held.__defaults__, held.__kwdefaults__, vars(held))
        return where, cells, [self.of(each) for each in rest]


def snapshot(folder: str, *modules: types.ModuleType) -> str:
    """The state of modules as text, a name a line."""
    walker = Snapshot(folder)
    results = [(name, each) for module in modules for name, each in walker.of_module(module).items()]
    return "\n".join(f"{name} = {each}" for name, each in results)
