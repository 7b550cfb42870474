"""The objects of an image: the units of its module and the functions of the libraries that it calls, made in threads.

What they are and their order follow from the module alone, so an image does not depend on the machine it is made on.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from jitgraph.codegen.cpu import panel_library, pool, ranges, tile
from jitgraph.codegen.cpu.units import units
from jitgraph.codegen.llvm import machine, scalars
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.ir.target import Target
from jitgraph.runtime import loader

Task = Callable[[], bytes]


_LIBRARIES: Final[dict[str, Callable[..., bytes]]] = {
    "math": scalars.math_object,
    "pack": panel_library.pack_object,
    "ranges": ranges.library_object,
    "runtime": pool.runtime_object,
    "square": tile.square_object,
    "tile": tile.tile_object,
}
"""What makes the object of a function that a module requires: for a target, from what the requirement says."""


def objects_of(module: LlvmModule, target: Target) -> list[bytes]:
    """The objects that together define all that ``module`` names; those of libraries are made once a process."""
    tasks: list[Task] = [partial(machine.assemble_unit, unit, target) for unit in units(module)]
    required = dict(module.required)
    for library, *details in module.required:
        if library == "pack":
            required |= panel_library.pack_module(target, *details).required
    tasks += [partial(_LIBRARIES[library], target, *details) for library, *details in sorted(required, key=str)]
    return in_threads(tasks)


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
