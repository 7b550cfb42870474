"""What the code that jitgraph makes depends on beside the graph: its own sources, and the libraries that it calls.

The persistent cache has this in its keys, so that what an edited compiler would make is never taken for what another
one made. In a process whose sources changed after it had begun nobody knows which of them run: there is no such key.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Collection
from typing import Any, Final

import ml_dtypes
import numpy as np

from jitgraph.once import cached_property
from jitgraph.runtime import STARTED, digests, disk_cache, loader, system

_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_SOURCES: Final = (".py", ".pyi")  # a package's stub says where its names are
_TICK: Final = 20_000_000  # ns by which the clock of files may be behind
_TELLING: Final = ("__init__.py", "_version.py", ".so")  # files of a library that differ from version to version
_SETTLED: Final = 2_000_000_000  # ns after which a file that is changed again has another time

File = tuple[str, int, int, int, int]
"""A file by name: bytes, when it was written, when anything of it was changed (ns), and its number on the disk."""


class CompilerSources:
    """The Python files of a package, and the versions of what it is compiled with."""

    def __init__(self, folder: str = _PACKAGE, started: int = STARTED) -> None:
        self.folder = folder
        self.started = started
        self._sound: dict[str, set[str]] = {}  # the modules there were when files were last seen to be ours

    def unchanged(self, within: str = "") -> bool:
        """Whether the sources there, or in a folder of the package, are those that this process runs; False where there
        are none to be read. Once they were, only those beside modules that have been imported since are looked at."""
        loaded = _loaded()
        known = self._sound.get(within, self._sound.get(""))
        if known is None:
            return self._look(self._files(within), within, loaded)
        late = _folders(loaded - known, within)
        return not late or self._look(self._in_folders(late), within, loaded)

    def _look(self, files: list[File], within: str, loaded: set[str]) -> bool:
        sound = self._are_ours(files)
        if sound:
            self._sound[within] = loaded
        return sound

    @cached_property
    def digest(self) -> str | None:
        """What stands in keys for all of it; None where that cannot be told."""
        loaded, files = _loaded(), self._files()
        if not self._look(files, "", loaded):
            return None
        # Constants are folded with NumPy, which has other functions for other processors.
        here = (sys.version, np.__version__, ml_dtypes.__version__, *loader.cpu_levels())
        try:
            llvm = self.library("llvmlite")
            return disk_cache.key_of("sources", self._content(files), llvm, *here)
        except (OSError, ValueError):
            return None

    def digest_of(self, names: Collection[str]) -> str | None:
        """The digest of some files, and folders of them, by their names within the package.

        None where these are not those that this process runs, or cannot be read.
        """
        try:
            listed = [file for name in names for file in self._listed(name)]
            if not self._are_ours(listed):
                return None
            return disk_cache.key_of(*(part for name, *_ in listed for part in (name, self.file(name))))
        except OSError:
            return None

    def _listed(self, name: str) -> list[File]:
        """A file, or those of a folder; OSError where there are none."""
        if name.endswith(".py"):
            folder, _, base = name.rpartition("/")
            beside = _walk(os.path.join(self.folder, folder), (base,), ())
            files = [(name, *file[1:]) for file in beside if file[0] == base]
            if not files:
                raise FileNotFoundError(name)
            return files
        return [(f"{name}/{file[0]}", *file[1:]) for file in _walk(os.path.join(self.folder, name), _SOURCES)]

    def file(self, name: str) -> str:
        """The digest of one source file, by its name within the package; OSError where it is not there."""
        with open(f"{self.folder}/{name}", "rb", buffering=0) as source:
            return digests.sha256_of(source.read()).hex()

    def library(self, name: str) -> str:
        """What tells a version of a library from another, without importing it; OSError where it cannot be read."""
        spec = importlib.util.find_spec(name)
        folders = (spec.submodule_search_locations or ()) if spec is not None else ()
        files = [file for folder in folders for file in _walk(folder, _TELLING, ("binding",))]
        telling = [file for file in files if file[0] in _TELLING or file[0].endswith(".so")]
        return f"{name}: {', '.join(' '.join(map(str, file[:3])) for file in sorted(telling))}"

    def _are_ours(self, files: list[File]) -> bool:
        return bool(files) and all(changed < self.started - _TICK for _, _, _, changed, _ in files)

    def _content(self, files: list[File]) -> str:
        """The digest of all files. The cache knows it by their times, which is faster than to read them."""
        cache = disk_cache.current()
        latest = max(changed for _, _, _, changed, _ in files)
        if cache is None or latest > time.time_ns() - _SETTLED:
            return self._read(files)
        key = disk_cache.key_of("files", self.folder, repr(files))
        cached = cache.find(key, "digest of jitgraph's sources")
        if cached is not None:
            return cached.decode("ascii")
        digest = self._read(files)
        cache.store(key, digest.encode("ascii"))
        return digest

    def _read(self, files: list[File]) -> str:
        """The digest of the names and texts of files. They are megabytes, so a text counts by its length and the 64
        bits by which Python's own bytecode files know a source (PEP 552), which take a tenth of the time of SHA-256."""
        texts = ((name, size, system.read_file(f"{self.folder}/{name}", size)) for name, size, *_ in files)
        return disk_cache.key_of(
            *(f"{name} {size} {importlib.util.source_hash(text).hex()}" for name, size, text in texts)
        )

    def _in_folders(self, folders: Collection[str]) -> list[File]:
        try:
            return [file for folder in folders for file in _walk(os.path.join(self.folder, folder), _SOURCES, ())]
        except OSError:
            return []

    def _files(self, within: str = "") -> list[File]:
        try:
            return self._listed(within) if within else _walk(self.folder, _SOURCES)
        except OSError:  # the package lies in an archive
            return []


def _loaded() -> set[str]:
    """The package's modules, by name."""
    return {name for name in list(sys.modules) if name.startswith("jitgraph.")}


def _folders(modules: Collection[str], within: str) -> set[str]:
    """The folders in which some modules lie, as far as they are inside of one."""
    folders = set()
    for name in modules:
        path = name.partition(".")[2].replace(".", "/")
        own = getattr(sys.modules.get(name), "__dict__", {})  # a module's __getattr__ may know any name
        if own.get("__file__") is not None:  # else it was made without one: another name of what other modules have
            folders.add(path if "__path__" in own else path.rpartition("/")[0])
    return {folder for folder in folders if not within or f"{folder}/".startswith(f"{within}/")}


def _file(name: str, status: Any) -> File:
    return name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _walk(folder: str, ends: tuple[str, ...], inner: Collection[str] | None = None) -> list[File]:
    """The files in a folder whose names end so, named from there on, and in its own folders: those called ``inner``, or
    all. Every process asks for them, so it goes from folder to folder without a call for each."""
    files: list[File] = []
    pending = [(folder, "")]
    while pending:
        path, within = pending.pop()
        with os.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                if name.endswith(ends):
                    files.append(_file(within + name, entry.stat()))
                elif "." not in name and name != "__pycache__" and (inner is None or name in inner) and entry.is_dir():
                    pending.append((entry.path, f"{within}{name}/"))
    files.sort()
    return files


OWN: Final = CompilerSources()
