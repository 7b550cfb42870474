"""What the code that jitgraph makes depends on beside the graph: its own sources, and the libraries that it calls.

The persistent cache has this in its keys, so that what an edited compiler would make is never taken for what another
one made. In a process whose sources changed after it had begun nobody knows which of them run: there is no such key.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from typing import Final

import ml_dtypes
import numpy as np

from jitgraph.once import cached_property
from jitgraph.runtime import STARTED, disk_cache, loader

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_SETTLED: Final = 2_000_000_000  # ns after which a file that is changed again has another time

File = tuple[str, int, int, int, int]
"""A file by name: bytes, when it was written, when anything of it was changed (ns), and its number on the disk."""


class Sources:
    """The Python files of a package, and the versions of what it is compiled with."""

    def __init__(self, folder: str = _PACKAGE, started: int = STARTED) -> None:
        self.folder = folder
        self.started = started

    def unchanged(self) -> bool:
        """Whether the sources there are those that this process runs; False where there are none to be read."""
        files = self._files()
        return bool(files) and all(changed < self.started for _, _, _, changed, _ in files)

    @cached_property
    def digest(self) -> str | None:
        """What stands in keys for all of it; None where that cannot be told."""
        if not self.unchanged():
            return None
        # Constants are folded with NumPy, which has other functions for other processors.
        here = (sys.version, np.__version__, ml_dtypes.__version__, *loader.cpu_levels())
        try:
            libraries = map(_library, ("llvmlite", "networkx"))
            return disk_cache.key_of("sources", self._content(), *libraries, *here)
        except (OSError, ValueError):
            return None

    def file(self, name: str) -> str:
        """The digest of one source file, by its name within the package; OSError where it is not there."""
        with open(os.path.join(self.folder, name), "rb") as source:
            return hashlib.sha256(source.read()).hexdigest()

    def _content(self) -> str:
        """The digest of all files. The cache knows it by their times, which is faster than to read them."""
        files, cache = self._files(), disk_cache.current()
        latest = max(changed for _, _, _, changed, _ in files)
        if cache is None or latest > time.time_ns() - _SETTLED:
            return self._read(files)
        key = disk_cache.key_of("files", self.folder, repr(files))
        found = cache.find(key, "digest of jitgraph's sources")
        if found is not None:
            return found.decode("ascii")
        made = self._read(files)
        cache.keep(key, made.encode("ascii"))
        return made

    def _read(self, files: list[File]) -> str:
        return disk_cache.key_of(*(part for name, *_ in files for part in (name, self.file(name))))

    def _files(self) -> list[File]:
        try:
            return sorted(_walk(self.folder, ""))
        except OSError:  # the package lies in an archive
            return []


def _walk(folder: str, within: str) -> Iterator[File]:
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith(".py"):
                status = entry.stat()
                yield within + entry.name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
            elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                yield from _walk(entry.path, f"{within}{entry.name}/")


def _library(name: str) -> str:
    """What tells a version of a library from another, without importing it."""
    spec = importlib.util.find_spec(name)
    parts = []
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for inner in ("", "binding"):
            with os.scandir(os.path.join(folder, inner)) as found:
                for entry in sorted(found, key=lambda entry: entry.name):
                    if entry.name in ("__init__.py", "_version.py") or entry.name.endswith(".so"):
                        status = entry.stat()
                        parts.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
            if name != "llvmlite":
                break
    return f"{name}: {', '.join(parts)}"


OWN: Final = Sources()
