"""The objects of an image: the units of its module and the functions of the libraries that it calls, made in threads.

What they are and their order follow from the text alone, so an image does not depend on the machine it is made on.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from functools import partial

from jitgraph.codegen.llvm import machine, math_functions, panel_library, pool, ranges
from jitgraph.codegen.llvm.units import units
from jitgraph.ir.target import Target
from jitgraph.runtime import loader

Task = Callable[[], bytes]


def objects_of(llvm_ir: str, target: Target) -> list[bytes]:
    """The objects that together define all that ``llvm_ir`` names; those of libraries are made once a process."""
    tasks: list[Task] = [partial(machine.assemble_unit, unit, target) for unit in units(llvm_ir)]
    tasks += panel_library.tasks(llvm_ir, target)
    tasks += math_functions.tasks(llvm_ir, target)
    if pool.DECLARATIONS in llvm_ir:
        tasks += [partial(pool.runtime_object, target), partial(ranges.library_object, target)]
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
