"""The objects of an image: the units of its module and the functions of the libraries that it calls, made in threads.

What they are and their order follow from the module alone, so an image does not depend on the machine it is made on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final

from jitgraph.codegen.cpu.object_store import ObjectStore
from jitgraph.codegen.cpu.units import units
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.codegen.llvm.machine import Unit
from jitgraph.ir.target import Target
from jitgraph.runtime import imports, loader
from jitgraph.runtime.loader.pool import can_start

Task = Callable[[], bytes]

LIBRARIES: Final = {
    "crossed": ("jitgraph.codegen.cpu.transposed_kernel", "transposed_module"),
    "math": ("jitgraph.codegen.llvm.scalars", "math_module"),
    "memory": ("jitgraph.codegen.cpu.memory", "memory_module"),
    "pack": ("jitgraph.codegen.cpu.panel_library", "pack_module"),
    "ranges": ("jitgraph.codegen.cpu.ranges", "range_module"),
    "runtime": ("jitgraph.codegen.cpu.pool", "runtime_module"),
    "square": ("jitgraph.codegen.cpu.tile", "square_module"),
    "tile": ("jitgraph.codegen.cpu.tile", "tile_module"),
}
"""Functions that modules require: where the module of one is written, for a target and what the requirement says.

A part is imported when a module requires it: most need none of contractions'.
"""


class Library:
    """One function of a library: its unit, what that requires, and the object once it has been asked for."""

    def __init__(self, target: Target, library: str, *details: Any) -> None:
        module_name, name = LIBRARIES[library]
        module: LlvmModule = getattr(imports.module(module_name), name)(target, *details)
        self.unit = Unit(module.text(), hot=True)
        self.required = tuple(module.required)
        self._kind = library
        self._target = target
        self._object: bytes | None = None

    def object(self, store: ObjectStore) -> bytes:
        """The object; of two threads that ask at once, both may make it."""
        if self._object is None:
            self._object = store.object(self.unit, self._target, self._kind)
        return self._object


library: Final = cache(Library)
"""One for each function and target in this process."""


def library_object(target: Target, *function: Any) -> bytes:
    """The object of one function of a library, by the library's name and parameters."""
    store = ObjectStore()
    code = library(target, *function).object(store)
    store.store()
    return code


def objects_of(module: LlvmModule, target: Target) -> list[bytes]:
    """The objects that together define all that ``module`` names; those of libraries are made once a process."""
    store = ObjectStore()

    def of_libraries() -> list[Task]:
        required = sorted(_required(module, target), key=str)
        return [partial(library(target, *function).object, store) for function in required]

    objects = in_threads([partial(store.object, unit, target, "unit") for unit in units(module)], of_libraries)
    store.store()
    return objects


def _required(module: LlvmModule, target: Target) -> set[tuple[Any, ...]]:
    """The functions of libraries that a module requires, and those that they require in turn."""
    required: set[tuple[Any, ...]] = set()
    pending = [*module.required]
    while pending:
        function = pending.pop()
        if function not in required:
            required.add(function)
            pending += library(target, *function).required
    return required


def in_threads(tasks: Sequence[Task], more: Callable[[], Sequence[Task]] | None = None) -> list[bytes]:
    """The results of all tasks, in their order; this thread and others each take the next one that is left.

    Others begin while this thread asks for ``more`` tasks: to write the modules of libraries takes a while. What
    interrupts this thread ends the call at once: the others begin no further task, and nothing waits for those that
    they are at, neither this call nor the end of the process.
    """
    waiting = deque(enumerate(tasks))
    results: dict[int, bytes] = {}
    failures: dict[int, BaseException] = {}
    others: list[threading.Thread] = []

    def work() -> None:
        while not failures:
            try:
                number, task = waiting.popleft()
            except IndexError:
                break
            try:
                results[number] = task()
            except BaseException as error:
                failures[number] = error

    def start(count: int) -> None:
        """Let up to ``count`` others work, one for each processor that this thread leaves."""
        at_work = sum([other.is_alive() for other in others])
        for _ in range(min(count, loader.processors() - 1) - at_work):
            other = threading.Thread(target=work, name="jitgraph-llvm", daemon=True)
            if not can_start(other):  # this thread does the work
                break
            others.append(other)

    def work_here() -> None:
        if more is not None:
            start(len(tasks))
            try:
                waiting.extend(enumerate(more(), len(tasks)))
            except Exception as error:
                failures[len(tasks)] = error
        start(len(waiting) - 1)
        work()
        for failure in list(failures.values()):
            if not isinstance(failure, Exception):
                raise failure
        for other in others:
            other.join()

    try:
        work_here()
    except BaseException:
        waiting.clear()
        raise
    if failures:
        raise failures[min(failures)]
    return [results[number] for number in sorted(results)]
