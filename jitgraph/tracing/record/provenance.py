"""Provenance: the source of each object that a recorded function reached, by the way on which it was reached first."""

from __future__ import annotations

import enum
import sys
import types
from functools import partial
from typing import Any

from jitgraph.tracing.guards.guard import Objects
from jitgraph.tracing.guards.source import Slot, Source, StepKind, item_text
from jitgraph.tracing.guards.storage import attributes_of

_KEYED = frozenset({"attribute", "item", "entry", "class", "own", "cached"})
_NAMED_STEPS: dict[str, StepKind] = {"__defaults__": "defaults", "__kwdefaults__": "kwdefaults", "__code__": "code"}


class Provenance:
    """Sources by object. What no step leads to is found by its number in the table of objects."""

    def __init__(self, function: Any, objects: Objects) -> None:
        self.objects = objects
        self._sources: dict[int, tuple[Any, Source]] = {}
        self._places: dict[tuple[Any, ...], tuple[Slot, Source]] = {}
        name = getattr(function, "__name__", "")
        self.reach(function, Source("function", None, name if isinstance(name, str) else ""))

    def reach(self, value: Any, source: Source) -> None:
        """``value`` is found at ``source``; where it was reached on another way before, that stays."""
        if id(value) in self._sources:
            return
        self._sources[id(value)] = value, source
        if issubclass(type(value), types.FunctionType):
            self.reach(value.__globals__, self._globals_of(value, source))
            for index, cell in enumerate(value.__closure__ or ()):
                self.reach(cell, source.then("closure", (index, value.__code__.co_freevars[index])))
            for kind, part in (("defaults", value.__defaults__), ("kwdefaults", value.__kwdefaults__)):
                if part is not None:
                    self.reach(part, source.then(kind))  # type: ignore[arg-type]
        elif issubclass(type(value), types.MethodType):
            self.reach(value.__self__, source.then("self"))
            self.reach(value.__func__, source.then("func"))
        elif issubclass(type(value), partial):
            self.reach(value.func, source.then("partial func"))
            self.reach(value.args, source.then("partial args"))
            self.reach(value.keywords, source.then("partial keywords"))
        elif issubclass(type(value), types.ModuleType):
            self.reach(vars(value), source.then("namespace"))
        elif issubclass(type(value), enum.EnumMeta):
            for name, member in value.__members__.items():
                self.reach(member, source.then("attribute", name))
        if not issubclass(type(value), partial) and (wrapped := _wrapped(value)) is not None:
            self.reach(wrapped, source.then("wrapped"))

    def _globals_of(self, function: types.FunctionType, source: Source) -> Source:
        module = sys.modules.get(function.__module__ or "")
        if module is not None and vars(module) is function.__globals__:
            return Source("module", module.__name__, "").then("namespace")
        return source.then("globals")

    def of(self, value: Any, name: str) -> Source:
        """The source of an object; ``name`` is what people call one that no step leads to."""
        known = self._sources.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        if type(value) is dict and (module := _module_of(value)) is not None:
            source = Source("module", module, "").then("namespace")
        elif isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
            source = Source("module", value.__name__, value.__name__)
        else:
            source = Source("object", self.objects.number(value), name)
        self.reach(value, source)
        return source

    def at(self, slot: Slot) -> Source:
        """The source of a place."""
        if slot.kind == "object":
            return self.of(slot.owner, slot.text)
        identity = slot.kind, slot.identity
        known = self._places.get(identity)
        if known is None:  # the place is kept with its source, so that the ids in its identity stay those of its parts
            known = self._places[identity] = slot, self._at(slot)
        return known[1]

    def _at(self, slot: Slot) -> Source:
        name = slot.text
        if isinstance(slot.key, str):
            name = name.removesuffix(f".{slot.key}")
        name = name.removesuffix(item_text("", slot.key))
        owner = self.of(slot.owner, "" if name == slot.text and slot.kind != "cell" else name)
        kind: StepKind = slot.step
        if kind == "attribute" and isinstance(slot.owner, types.FunctionType):
            kind = _NAMED_STEPS.get(slot.key, kind)
        return owner.then(kind, self.objects.key(slot.key) if kind in _KEYED else None)


def _wrapped(value: Any) -> Any:
    """What an object itself holds as ``__wrapped__``, found without code of the user's, or None."""
    return (attributes_of(value) or {}).get("__wrapped__")


def _module_of(namespace: dict[str, Any]) -> str | None:
    name = namespace.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return name if module is not None and vars(module) is namespace else None
