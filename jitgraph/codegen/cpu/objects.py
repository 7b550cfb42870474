"""The objects of an image: units of its module and functions of the libraries that it calls, compiled in threads or
cached.
"""

from __future__ import annotations

import os
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Final

from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.codegen.llvm.machine import Unit
from jitgraph.ir.target import Target
from jitgraph.runtime import disk_cache, imports, loader, sources
from jitgraph.runtime.loader.pool import can_start

# ----------------------------------------------------------------------
# Cutting an emitted module into units that LLVM assembles apart: the code that loops, and the code that runs once.
#
# Most of what LLVM's optimising code generator costs goes to the number of functions and to their length, whatever they
# do. Code without loops or vectors (the entry, what hands a range to threads) runs once a launch: it is assembled
# without optimisation, in a seventh of the time. The rest falls into units of about ``UNIT_LINES`` lines, for threads
# to share. The cut follows from the module alone, so an image does not depend on the machine it is made on.

UNIT_LINES: Final = 500
ENTRY: Final = "jg_entry"  # loops over scalars where kernels are inlined into it


def units(module: LlvmModule) -> list[Unit]:
    """The units of a module that ``entry.emit_module`` gave; linked together they are what it is.

    Functions to be inlined are copied into the units that call them; others become hidden symbols, defined in one.
    """
    functions = {function.name: function for function in module.functions}
    constants = module.constants
    inlined = {name for name, function in functions.items() if function.inlined}
    hot = [
        name
        for name, function in functions.items()
        if name not in inlined and (function.hot or not inlined.isdisjoint(function.uses))
    ]
    cold = [name for name in functions if name not in inlined and name not in hot]

    def unit(roots: list[str], is_hot: bool) -> Unit:
        inside = dict.fromkeys(roots)
        pending = list(roots)
        used: set[str] = set()
        while pending:
            callees = functions[pending.pop()].uses.keys()
            used |= callees
            copied = [name for name in sorted(callees & inlined) if name not in inside]
            inside.update(dict.fromkeys(copied))
            pending += copied
        parts = module.heading
        parts += [text for name, text in constants.items() if name in used]
        parts += [functions[name].declaration for name in sorted(used) if name in functions and name not in inside]
        parts += [functions[name].text(hidden=name not in inlined) for name in inside]
        loops = ENTRY if ENTRY in inside and not inlined.isdisjoint(functions[ENTRY].uses) else ""
        return Unit("\n\n".join(parts) + "\n", is_hot, loops)

    groups: list[list[str]] = []
    lines = UNIT_LINES
    for name in hot:
        if lines >= UNIT_LINES:
            groups.append([])
            lines = 0
        groups[-1].append(name)
        lines += functions[name].lines + sum(functions[inner].lines for inner in functions[name].uses.keys() & inlined)
    return [*(unit(group, True) for group in groups), *([unit(cold, False)] if cold else [])]


# ----------------------------------------------------------------------
# Objects that need not be made: those built into the package, and those of the persistent cache.
#
# An object follows from the text of its unit, the name of its target and how LLVM is called, whoever wrote the text. So
# an object is found again after any edit that leaves the text as it was. What the libraries define is built into the
# wheel (``codegen/prebuilt.py``), in one file behind a table of keys; a checkout has none, and keeps these objects in
# the persistent cache like all others.

FILE: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "prebuilt.bin")

_MAGIC: Final = b"JGOBJCT1"
_HEADER: Final = struct.Struct("<8sQ")  # the magic and the number of objects
_PLACE: Final = struct.Struct("<32sQQ")  # the key of an object, where it begins, its bytes


class ObjectStore:
    """The stores as one compilation uses them; what they lack is made, and kept where the cache is in use."""

    def __init__(self) -> None:
        self._llvm = _llvm()
        self._cache = disk_cache.current() if self._llvm else None
        self._made: list[tuple[str, bytes]] = []

    def object(self, unit: Unit, target: Target, kind: str) -> bytes:
        """The object of a unit; the log of the cache calls it one of the kind ``kind``."""
        if not self._llvm:
            return machine.assemble_unit(unit, target)
        key = key_of(unit, target)
        code = _prebuilt(FILE).get(bytes.fromhex(key))
        if code is None and self._cache is not None:
            code = self._cache.find(key, f"object of the kind {kind}")
        if code is None:
            code = machine.assemble_unit(unit, target)
            self._made.append((key, code))
        return code

    def store(self) -> None:
        """Write what was made into the cache, unless the code that calls LLVM changed meanwhile."""
        if self._cache is not None and self._made and sources.OWN.unchanged(_FOLDER):
            for key, code in self._made:
                self._cache.store(key, code)


_FOLDER: Final = "codegen/llvm"
_CALLS_LLVM: Final = f"{_FOLDER}/machine.py"


def key_of(unit: Unit, target: Target) -> str:
    """The key of the object of a unit, in both stores; in hexadecimal."""
    return disk_cache.key_of("object", *_llvm(), target.name, str(unit.hot), unit.scalar_loops, unit.llvm_ir)


@cache
def _llvm() -> tuple[str, ...]:
    """What an object depends on beside its text: LLVM and the code that calls it; empty where that is unknown."""
    try:
        if not sources.OWN.unchanged(_FOLDER):
            return ()
        with open(os.path.join(machine.folder(), "_version.py"), encoding="utf-8") as version:
            return (sources.OWN.file(_CALLS_LLVM), version.read(), machine.TRIPLE)
    except OSError:
        return ()


@cache
def _prebuilt(path: str) -> Mapping[bytes, bytes]:
    """The objects that are built into the package, by key; none where there is no such file, or another one."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        magic, count = _HEADER.unpack_from(data)
        entries = [_PLACE.unpack_from(data, _HEADER.size + number * _PLACE.size) for number in range(count)]
    except (OSError, struct.error):
        return {}
    if magic != _MAGIC or any(begin + size > len(data) for _, begin, size in entries):
        return {}
    return {key: data[begin : begin + size] for key, begin, size in entries}


def packed(objects: Mapping[str, bytes]) -> bytes:
    """The content of the file for these objects."""
    begin = _HEADER.size + len(objects) * _PLACE.size
    table = [_HEADER.pack(_MAGIC, len(objects))]
    for key, data in objects.items():
        table.append(_PLACE.pack(bytes.fromhex(key), begin, len(data)))
        begin += len(data)
    return b"".join([*table, *objects.values()])


# ----------------------------------------------------------------------
# The objects of an image: the units of its module and the functions of the libraries that it calls, made in threads.
#
# What they are and their order follow from the module alone, so an image does not depend on the machine it is made on.

Task = Callable[[], bytes]

LIBRARIES: Final = {
    "crossed": ("jitgraph.codegen.cpu.skinny_gemm", "transposed_module"),
    "math": ("jitgraph.codegen.llvm.scalars", "math_module"),
    "memory": ("jitgraph.codegen.cpu.memory", "memory_module"),
    "pack": ("jitgraph.codegen.cpu.panels", "pack_module"),
    "ranges": ("jitgraph.codegen.cpu.parallel", "range_module"),
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
