"""SHA-256 for the keys of caches, which every process needs: CPython's own, without the OpenSSL that ``hashlib`` loads.

OpenSSL is five times as fast, and takes 3 ms to load: as long as a megabyte takes here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256
    except ImportError:
        try:
            from _sha256 import sha256  # until Python 3.11
        except ImportError:  # a Python built without it
            from hashlib import sha256

__all__ = ["sha256", "sha256_of"]

_LARGE: Final = 1 << 20  # bytes for which it pays to load OpenSSL


def sha256_of(data: bytes | memoryview) -> bytes:
    """The digest of some bytes, which may be many."""
    if len(data) < _LARGE:
        return sha256(data).digest()
    import hashlib

    return hashlib.sha256(data).digest()
