"""KeptImage: the dispatcher's image in the persistent cache."""

from __future__ import annotations

from jitgraph.runtime import cache_entry, disk_cache, prebuilt_file, sources


class KeptImage:
    """The image in the persistent cache."""

    def __init__(self) -> None:
        self._cache = disk_cache.current() if sources.OWN.digest is not None else None
        self._key = cache_entry.key_of("dispatcher", str(sources.OWN.digest))

    def find(self) -> bytes | None:
        return None if self._cache is None else self._cache.find(self._key, "the dispatcher")

    def keep(self, image: bytes) -> None:
        if self._cache is not None and sources.OWN.unchanged():
            self._cache.keep(self._key, image)


def is_prebuilt() -> bool:
    """Whether the package brought its code along compiled, so that the image is made at once."""
    return prebuilt_file.is_there()
