"""Where an op is recorded: the user's line, and the modules in whose calls it stands, by their names in the model."""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import FrameType
from typing import Any, Final

from jitgraph.location import MODULE_CALLS, Location
from jitgraph.tracing.capture.monitoring import run_watched

_OUTSIDE: Final = run_watched.__code__  # what calls the function that is recorded
_DEPTH: Final = 3  # of containers that are not called, such as lists of lists of modules


class ModulePaths:
    """The places of one recording. A module's attributes are read as they lie in its dict, by no code of the user's."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], tuple[Any, str]] = {}

    def here(self) -> Location | None:
        """The user's line; its modules are the class of the outermost one, and the names of those inside of it."""
        location = Location.of_user()
        if location is None or not MODULE_CALLS:
            return location
        modules = self._modules()
        return replace(location, modules=modules) if modules else location

    def _modules(self) -> tuple[str, ...]:
        modules = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not _OUTSIDE:
            if id(frame.f_code) in MODULE_CALLS:
                modules.append(frame.f_locals["self"])
            frame = frame.f_back
        if not modules:
            return ()
        modules.reverse()
        inner = (self._name(outer, module) for outer, module in itertools.pairwise(modules))
        return (type(modules[0]).__name__, *inner)

    def _name(self, outer: Any, module: Any) -> str:
        key = (id(outer), id(module))
        known = self._names.get(key)
        if known is not None and known[0]() is module:
            return known[1]
        name = next(_paths(_attributes(outer), module, _DEPTH), type(module).__name__)
        self._names[key] = weakref.ref(module), name
        return name


def _attributes(module: Any) -> Mapping[str, Any]:
    attributes: Mapping[str, Any] = object.__getattribute__(module, "__dict__")
    return attributes


def _is_module(value: Any) -> bool:
    called = (vars(kind)["__call__"] for kind in type(value).__mro__ if "__call__" in vars(kind))
    return id(getattr(next(called, None), "__code__", None)) in MODULE_CALLS


def _paths(attributes: Mapping[str, Any], module: Any, depth: int) -> Iterator[str]:
    """The names of a module among these attributes, and in containers among them."""
    for name, value in attributes.items():
        if value is module:
            yield name
    if depth:
        for name, value in attributes.items():
            if _is_module(value) and value is not module:
                yield from (f"{name}.{inner}" for inner in _paths(_attributes(value), module, depth - 1))
