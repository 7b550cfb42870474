"""The objects of an image: the units of its module and the functions of the libraries that it calls, made in threads.

What they are and their order follow from the module alone, so an image does not depend on the machine it is made on.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from jitgraph.codegen.cpu import panel_library, pool, ranges, tile
from jitgraph.codegen.cpu.units import units
from jitgraph.codegen.llvm import machine, scalars
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.ir.target import Target
from jitgraph.runtime import loader

Task = Callable[[], bytes]


class Library(NamedTuple):
    """Functions that modules require: what makes the object of one, for a target and from what the requirement says.

    ``module`` makes the module of it where that requires functions in turn.
    """

    object: Callable[..., bytes]
    module: Callable[..., LlvmModule] | None = None


_LIBRARIES: Final = {
    "math": Library(scalars.math_object),
    "pack": Library(panel_library.pack_object, panel_library.pack_module),
    "ranges": Library(ranges.library_object),
    "runtime": Library(pool.runtime_object),
    "square": Library(tile.square_object),
    "tile": Library(tile.tile_object),
}


def objects_of(module: LlvmModule, target: Target) -> list[bytes]:
    """The objects that together define all that ``module`` names; those of libraries are made once a process."""
    tasks: list[Task] = [partial(machine.assemble_unit, unit, target) for unit in units(module)]
    required = sorted(_required(module, target), key=str)
    tasks += [partial(_LIBRARIES[library].object, target, *details) for library, *details in required]
    return in_threads(tasks)


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
