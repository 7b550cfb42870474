"""The persistent compile cache: what was compiled once, in a folder of the user's own, for later processes."""

from __future__ import annotations

import contextlib
import os
import re
import struct
import warnings
from collections.abc import Iterator
from typing import Final

from jitgraph import config
from jitgraph.records import NamedTuple
from jitgraph.runtime import digests, forks, system

# ----------------------------------------------------------------------
# One entry of the persistent cache as bytes, and the names of entries.
#
# ======  ====  ===========================================
# offset  size  field
# ======  ====  ===========================================
# 0       8     magic ``JGCACHE1``
# 8       32    sha256 of the key: that of the file's name
# 40      32    sha256 of the content
# 72      8     bytes of the content, little-endian
# 80            the content
# ======  ====  ===========================================

MOST_BYTES: Final = 64 << 20
"""Of the content of one entry: what is larger is compiled again in each process."""

_MAGIC: Final = b"JGCACHE1"
_HEADER: Final = struct.Struct("<8s32s32sQ")
HEADER_BYTES: Final = _HEADER.size


def key_of(*parts: str | bytes) -> str:
    """The name of an entry whose key is these parts, in hexadecimal; parts cannot run into each other."""
    digest = digests.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(struct.pack("<Q", len(data)) + data)
    return digest.hexdigest()


def packed(key: str, content: bytes) -> bytes:
    """The bytes of an entry."""
    return _HEADER.pack(_MAGIC, bytes.fromhex(key), digests.sha256_of(content), len(content)) + content


def fault(data: bytes, key: str) -> str:
    """What is wrong with the bytes of an entry, or nothing."""
    if len(data) < _HEADER.size:
        return "it is too short or too long"
    magic, name, digest, size = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        return f"it begins with {magic!r}"
    if name != bytes.fromhex(key):
        return "it is the entry of another key"
    if size != len(data) - _HEADER.size:
        return "it was cut or extended"
    if digest != digests.sha256_of(memoryview(data)[_HEADER.size :]):
        return "its content is damaged"
    return ""


# ----------------------------------------------------------------------
# The persistent compile cache: what was compiled once, in a folder of the user's own, for later processes.
#
# An entry is a file (``disk_cache.py``) named by the sha256 of its key. It appears whole or not at all; what is not
# sound is removed, and counts as absent. Nothing here makes a call fail: where the folder cannot be used or the disk is
# full, code is compiled as if there were no cache. Processes need no lock: whoever writes an entry that is there
# already writes the same. What was used least recently goes when the folder has grown above its limit.

LIMIT: Final = 512 << 20
"""Bytes that the entries take together, about."""

_SWEEPS: Final = 32  # so often do the entries that make up the limit lead to a look at the whole folder
_KEPT: Final = 0.75  # of the limit, where something has to go: so that the next entry does not begin it again
_FRESH: Final = 60.0  # seconds for which an entry's time of use is not noted again


class DiskCacheInfo(NamedTuple):
    """What lies in the folder, and how this process fared: lookups found or not, and troubles met on the way."""

    entries: int
    bytes: int
    limit: int
    hits: int
    misses: int
    errors: int


class UnsoundEntry(NamedTuple):
    """An entry that no lookup gives: its key, its bytes, and what is wrong."""

    key: str
    bytes: int
    reason: str


class DiskCache:
    """The cache in one folder. Threads and processes may share it, and a fork finds it whole."""

    def __init__(self, folder: str, limit: int = LIMIT) -> None:
        self.folder = folder
        self.limit = limit
        self._counts = dict.fromkeys(("hits", "misses", "errors"), 0)
        self._lock = forks.lock()
        self._warned = False

    def find(self, key: str, what: str) -> bytes | None:
        """The content of an entry; ``key`` is of ``key_of``, and ``what`` it holds is for the log."""
        content, reason = self._read(key) if self._usable() else (None, "there is no folder for it")
        self._count("misses" if content is None else "hits")
        if config.logs("cache"):
            config.log("cache", f"{what}: {'hit' if content is not None else f'miss, {reason}'} ({key[:12]})")
        return content

    def store(self, key: str, content: bytes) -> None:
        """Write an entry, if it can be; one that is there already is replaced."""
        if len(content) > min(MOST_BYTES, self.limit // 4) or not self._usable():
            return
        from jitgraph.runtime.atomic_file import replacing  # here: most processes find what they need

        try:
            with replacing(self._path(key), durable=False) as file:
                file.write(packed(key, content))
        except OSError as error:
            self._trouble(f"cannot write {key[:12]}: {error}")
            return
        if int(key[:8], 16) / (1 << 32) * self.limit < _SWEEPS * len(content):  # keys are as good as dice
            self._sweep()

    def remove(self, key: str, reason: str) -> None:
        """Remove an entry that is not sound."""
        self._trouble(f"removed {key[:12]}: {reason}")
        with contextlib.suppress(OSError):  # another process did, or may alone
            os.unlink(self._path(key))

    def clear(self) -> None:
        """Remove every entry; what else lies in the folder stays."""
        if not self._usable():
            return
        for key, _, _ in self._entries():
            with contextlib.suppress(OSError):
                os.unlink(self._path(key))
        self._remove_leftovers()

    def info(self) -> DiskCacheInfo:
        """What there is, and the counts of this process."""
        sizes = [size for _, size, _ in self._entries()] if self._usable() else []
        return DiskCacheInfo(len(sizes), sum(sizes), self.limit, **self._counts)

    def refused(self) -> str:
        """Why the folder is not used, or nothing."""
        try:
            return system.private_folder(self.folder)
        except (OSError, ValueError) as error:
            return getattr(error, "strerror", None) or str(error)

    def verify(self) -> list[UnsoundEntry]:
        """Look at every entry's hash; those that are not sound, and that the next lookup would remove."""
        unsound = []
        for key, size, _ in self._entries() if self._usable() else ():
            try:
                file = system.open_own(self._path(key))
                if file is None:
                    reason = "not a plain file of this user"
                else:
                    with file:
                        data = file.read(HEADER_BYTES + MOST_BYTES + 1)
                    reason = fault(data, key)
            except FileNotFoundError:  # another process removed it meanwhile
                continue
            except OSError as error:
                reason = f"it cannot be read: {error.strerror or error}"
            if reason:
                unsound.append(UnsoundEntry(key, size, reason))
        return unsound

    def _path(self, key: str) -> str:
        return os.path.join(self.folder, key)

    def _usable(self) -> bool:
        """Whether the folder is there and the user's alone; the first time that it is not is logged."""
        try:
            refused = system.private_folder(self.folder)
        except (OSError, ValueError) as error:  # ValueError: a name that no folder can have
            self._trouble(f"no folder {self.folder}: {error}")
            return False
        if refused and not self._warned:
            self._warned = True
            self._warn(refused)
        return not refused

    def _warn(self, refused: str) -> None:
        with contextlib.suppress(RuntimeWarning):  # the call goes on, even where warnings are errors
            warnings.warn(
                f"jitgraph's compile cache is not used, as {self.folder} is not safe: {refused}\n  hint: `chmod 700` a "
                "folder of your own, name another one in JITGRAPH_CACHE_DIR, or turn the cache off: "
                "JITGRAPH_CACHE_DIR=off",
                RuntimeWarning,
                stacklevel=2,
            )

    def _read(self, key: str) -> tuple[bytes | None, str]:
        """The content; without one, why."""
        try:
            file = system.open_own(self._path(key))
            if file is None:
                wrong = "not a plain file of this user"
            else:
                with file:
                    size, age = system.size_and_age(file)
                    data = file.read(size) if size <= HEADER_BYTES + MOST_BYTES else b""
                    wrong = fault(data, key)
                    if not wrong:
                        if age > _FRESH:
                            system.touch(file)
                        return data[HEADER_BYTES:], ""
        except FileNotFoundError:
            return None, "never compiled with these sources, or removed"
        except OSError as error:  # of this moment, perhaps: too many open files
            self._trouble(f"cannot read {key[:12]}: {error}")
            return None, str(error)
        self.remove(key, wrong)
        return None, wrong

    def _entries(self) -> Iterator[tuple[str, int, float]]:
        """Key, bytes and time of the last use of each entry that can be seen."""
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                if re.fullmatch(r"[0-9a-f]{64}", entry.name):
                    with contextlib.suppress(OSError):  # gone meanwhile
                        status = entry.stat(follow_symlinks=False)
                        yield entry.name, status.st_size, status.st_mtime

    def _sweep(self) -> None:
        """Remove what was used least recently, if there is too much; two processes at once choose the same."""
        self._remove_leftovers()
        entries = sorted(self._entries(), key=lambda entry: (entry[2], entry[0]))
        together = sum(size for _, size, _ in entries)
        if together <= self.limit:
            return
        for key, size, _ in entries:
            if together <= _KEPT * self.limit:
                break
            with contextlib.suppress(OSError):
                os.unlink(self._path(key))
            together -= size

    def _remove_leftovers(self) -> None:
        """Remove what processes that were killed have left."""
        from jitgraph.runtime.atomic_file import remove_leftovers

        remove_leftovers(self.folder)

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    def _trouble(self, text: str) -> None:
        self._count("errors")
        if config.logs("cache"):
            config.log("cache", text)


class _Chosen:
    """Which folder this process uses: the environment's, unless the program names one."""

    def __init__(self) -> None:
        self.by_program: tuple[str | None] | None = None
        self.caches: dict[str, DiskCache] = {}

    @property
    def folder(self) -> str | None:
        return config.cache_folder() if self.by_program is None else self.by_program[0]


_CHOSEN: Final = _Chosen()


def folder() -> str | None:
    """The folder of the cache; None where it is turned off."""
    return _CHOSEN.folder


def use(path: str | None) -> None:
    """Let the cache be in the folder ``path`` from now on, whatever the environment says; None turns it off."""
    _CHOSEN.by_program = (None if path is None else os.path.abspath(os.path.expanduser(path)),)


def current() -> DiskCache | None:
    """The cache of this process as it is set up now; None where it is turned off."""
    path = folder()
    if path is None:
        return None
    return _CHOSEN.caches.get(path) or _CHOSEN.caches.setdefault(path, DiskCache(path))
