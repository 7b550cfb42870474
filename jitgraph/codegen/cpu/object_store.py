"""Objects that need not be made: those built into the package, and those of the persistent cache.

An object follows from the text of its unit, the name of its target and how LLVM is called, whoever wrote the text. So
an object is found again after any edit that leaves the text as it was. What the libraries define is built into the
wheel (``codegen/prebuilt.py``), in one file behind a table of keys; a checkout has none, and keeps these objects in the
persistent cache like all others.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from functools import cache
from typing import Final

from jitgraph.codegen.llvm import library, machine
from jitgraph.codegen.llvm.machine import Unit
from jitgraph.ir.target import Target
from jitgraph.runtime import cache_entry, disk_cache, sources

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
_CALLS_LLVM: Final = (f"{_FOLDER}/library.py", f"{_FOLDER}/machine.py")


def key_of(unit: Unit, target: Target) -> str:
    """The key of the object of a unit, in both stores; in hexadecimal."""
    return cache_entry.key_of("object", *_llvm(), target.name, str(unit.hot), unit.scalar_loops, unit.llvm_ir)


@cache
def _llvm() -> tuple[str, ...]:
    """What an object depends on beside its text: LLVM and the code that calls it; empty where that is unknown."""
    try:
        if not sources.OWN.unchanged(_FOLDER):
            return ()
        with open(os.path.join(library.folder(), "_version.py"), encoding="utf-8") as version:
            return (*map(sources.OWN.file, _CALLS_LLVM), version.read(), machine.TRIPLE)
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
