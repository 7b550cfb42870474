"""The dispatcher's image where it need not be made: built into a wheel, or in the persistent cache.

The image follows from a few source files, whose digest is its key. So it outlives edits of all other files, and one
that other sources made counts as absent, as does one that is damaged. A wheel's image does not depend on the LLVM that
is installed beside it, and serves every CPython from 3.11 to 3.13 on every x86-64-v2 (``codegen/dispatch/calls.py``).
"""

from __future__ import annotations

import os
from typing import Final

from jitgraph.once import cached_property
from jitgraph.runtime import disk_cache, sources

FILE: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dispatcher.bin")
"""In a wheel; written as an entry of the persistent cache is."""

SOURCES: Final = (
    "codegen/dispatch",
    *(f"codegen/cpu/{name}.py" for name in ("linker", "memory")),
    *(f"codegen/llvm/{name}.py" for name in ("builder", "machine")),
    *(f"runtime/{name}.py" for name in ("cpython/layout", "cpython/native_fields", "dispatch_records")),
    *(f"runtime/loader/{name}.py" for name in ("abi", "image")),
)
"""What the image is made by, and the layouts of memory that stand in it: files of the package, and a folder of it."""


class DispatcherImage:
    """The image as this process looks for it."""

    def __init__(self) -> None:
        self._digest = sources.OWN.digest_of(SOURCES)

    def built_in(self) -> bytes | None:
        """The image that the package brought along; None where there is none, or none of these sources."""
        if self._digest is None:
            return None
        try:
            with open(FILE, "rb") as file:
                data = file.read(disk_cache.HEADER_BYTES + disk_cache.MOST_BYTES)
        except OSError:
            return None
        return None if disk_cache.fault(data, self._digest) else data[disk_cache.HEADER_BYTES :]

    def cached(self) -> bytes | None:
        """The image that an earlier process made."""
        cache, key = disk_cache.current(), self._cache_key
        return None if cache is None or key is None else cache.find(key, "the dispatcher")

    def refuse_cached(self, reason: str) -> None:
        """Remove what ``cached`` gave, as it is no image of the dispatcher."""
        cache, key = disk_cache.current(), self._cache_key
        if cache is not None and key is not None:
            cache.remove(key, reason)

    def store(self, image: bytes) -> None:
        """Write an image that was just made into the cache, unless the sources changed meanwhile."""
        cache, key = disk_cache.current(), self._cache_key
        if cache is not None and key is not None and sources.OWN.digest_of(SOURCES) == self._digest:
            cache.store(key, image)

    def write(self, image: bytes, path: str = FILE) -> None:
        """Write the file that a wheel has; ValueError where the sources are not those that this process runs."""
        from jitgraph.runtime.atomic_file import replacing  # here: only a build writes it

        if self._digest is None:
            raise ValueError("jitgraph's sources cannot be read, or have changed since this process began")
        with replacing(path) as file:
            file.write(disk_cache.packed(self._digest, image))

    @cached_property
    def _cache_key(self) -> str | None:
        """The key in the persistent cache, which has the version of LLVM in it; None where it cannot be told."""
        if self._digest is None:
            return None
        try:
            return disk_cache.key_of("dispatcher", self._digest, sources.OWN.library("llvmlite"))
        except (OSError, ValueError):
            return None
