"""The user's persistent compile cache, in which later processes find compiled code; ``dir`` is its folder.

``jg.cache.dir`` may be set, and then counts before JITGRAPH_CACHE_DIR; it is None where the cache is turned off, and
setting it to None turns it off.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

from jitgraph.errors import JitgraphError
from jitgraph.runtime import disk_cache
from jitgraph.runtime.disk_cache import DiskCacheInfo, UnsoundEntry

__all__ = ["clear", "info", "verify"]

if TYPE_CHECKING:
    dir: str | None


def info() -> DiskCacheInfo:
    """The content of the cache (entries, bytes, limit) and the hits, misses and errors of this process.

    A hit or miss is a lookup of a trace, of a compiled graph, of an object that goes into one, or of the digest of
    jitgraph's sources; an error is an entry that was not sound, or could not be written. All are 0 where the cache is
    turned off.
    """
    cache = disk_cache.current()
    return DiskCacheInfo(0, 0, 0, 0, 0, 0) if cache is None else cache.info()


def clear() -> None:
    """Remove every entry of the cache; code that this process has compiled stays usable."""
    cache = disk_cache.current()
    if cache is not None:
        cache.clear()


def verify() -> list[UnsoundEntry]:
    """The entries whose hashes do not fit, each with its key and a reason; the next lookup of one would remove it."""
    cache = disk_cache.current()
    return [] if cache is None else cache.verify()


class _CacheModule(ModuleType):
    """The module with its one property."""

    @property
    def dir(self) -> str | None:
        """The folder of the cache; None where it is turned off."""
        return disk_cache.folder()

    @dir.setter
    def dir(self, path: str | os.PathLike[str] | None) -> None:
        folder = os.fspath(path) if isinstance(path, os.PathLike) else path
        if folder == "" or not isinstance(folder, str | None):
            raise JitgraphError(f"jg.cache.dir is a path or None, not {path!r}")
        disk_cache.use(folder)


sys.modules[__name__].__class__ = _CacheModule
