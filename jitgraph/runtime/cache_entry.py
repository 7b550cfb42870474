"""One entry of the persistent cache as bytes, and the names of entries.

======  ====  ===========================================
offset  size  field
======  ====  ===========================================
0       8     magic ``JGCACHE1``
8       32    sha256 of the key: that of the file's name
40      32    sha256 of the content
72      8     bytes of the content, little-endian
80            the content
======  ====  ===========================================
"""

from __future__ import annotations

import struct
from typing import Final

from jitgraph.runtime import digests

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
    key: str = digest.hexdigest()
    return key


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
