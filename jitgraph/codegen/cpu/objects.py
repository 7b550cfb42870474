"""The objects of an image: the units of its module and the functions of the libraries that it calls, made in threads.

What they are and their order follow from the module alone, so an image does not depend on the machine it is made on.
Objects are in the persistent cache, too: an image that is new may have units that an earlier one had, and libraries.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple

from jitgraph.codegen.cpu import crossed, panel_library, pool, ranges, tile
from jitgraph.codegen.cpu.units import units
from jitgraph.codegen.llvm import machine, scalars
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.ir.target import Target
from jitgraph.runtime import cache_entry, disk_cache, loader, sources

Task = Callable[[], bytes]


class Library(NamedTuple):
    """Functions that modules require: what makes the object of one, for a target and from what the requirement says.

    ``module`` makes the module of it where that requires functions in turn.
    """

    object: Callable[..., bytes]
    module: Callable[..., LlvmModule] | None = None


_LIBRARIES: Final = {
    "crossed": Library(crossed.crossed_object),
    "math": Library(scalars.math_object),
    "pack": Library(panel_library.pack_object, panel_library.pack_module),
    "ranges": Library(ranges.library_object),
    "runtime": Library(pool.runtime_object),
    "square": Library(tile.square_object),
    "tile": Library(tile.tile_object),
}


def objects_of(module: LlvmModule, target: Target) -> list[bytes]:
    """The objects that together define all that ``module`` names; those of libraries are made once a process."""
    kept = _Kept()
    tasks: list[Task] = [partial(kept.unit, unit, target) for unit in units(module)]
    required = sorted(_required(module, target), key=str)
    tasks += [partial(kept.library, library, target, *details) for library, *details in required]
    objects = in_threads(tasks)
    kept.keep()
    return objects


class _Kept:
    """The persistent cache as the objects of one image use it; without it, each is made."""

    def __init__(self) -> None:
        self._cache = disk_cache.current() if sources.OWN.digest is not None else None
        self._made: list[tuple[str, bytes]] = []

    def unit(self, unit: machine.Unit, target: Target) -> bytes:
        """LLVM's object for a unit: that follows from its text and from how LLVM is called, whoever wrote the text."""
        return self._object(
            "unit",
            lambda: (*_llvm(), target.name, str(unit.hot), unit.llvm_ir),
            partial(machine.assemble_unit, unit, target),
        )

    def library(self, library: str, target: Target, *details: Any) -> bytes:
        """The object of a library's function."""
        return self._object(
            library,
            lambda: (str(sources.OWN.digest), target.text, *map(str, details)),
            partial(_LIBRARIES[library].object, target, *details),
        )

    def _object(self, kind: str, parts: Callable[[], Iterable[str]], make: Task) -> bytes:
        if self._cache is None:
            return make()
        key = cache_entry.key_of("object", kind, *parts())
        found = self._cache.find(key, f"object of the kind {kind}")
        if found is not None:
            return found
        made = make()
        self._made.append((key, made))
        return made

    def keep(self) -> None:
        """Write what was made, unless the sources changed meanwhile."""
        if self._cache is not None and self._made and sources.OWN.unchanged():
            for key, made in self._made:
                self._cache.keep(key, made)


@cache
def _llvm() -> tuple[str, ...]:
    """What an object follows from beside the text: LLVM, and the one module that calls it."""
    return sources.OWN.file("codegen/llvm/machine.py"), sources.OWN.library("llvmlite"), machine.TRIPLE


def _required(module: LlvmModule, target: Target) -> set[tuple[Any, ...]]:
    """The functions of libraries that a module requires, and those that they require in turn."""
    found: set[tuple[Any, ...]] = set()
    pending = [*module.required]
    while pending:
        library, *details = function = pending.pop()
        if function not in found:
            found.add(function)
            made = _LIBRARIES[library].module
            pending += made(target, *details).required if made is not None else ()
    return found


def in_threads(tasks: Sequence[Task]) -> list[bytes]:
    """The results of all tasks, in their order; this thread and others each take the next one that nobody has."""
    helpers = min(len(tasks), loader.processors()) - 1
    results: dict[int, bytes] = {}
    failures: dict[int, BaseException] = {}
    numbers = itertools.count()

    def work() -> None:
        while (number := next(numbers)) < len(tasks) and not failures:
            try:
                results[number] = tasks[number]()
            except BaseException as error:
                failures[number] = error

    others = [threading.Thread(target=work, name="jitgraph-llvm") for _ in range(helpers)]
    for other in others:
        other.start()
    work()
    for other in others:
        other.join()
    if failures:
        raise failures[min(failures)]
    return [results[number] for number in range(len(tasks))]
