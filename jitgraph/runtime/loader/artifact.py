"""The file: its bytes in memory, its members checked against the manifest."""

from __future__ import annotations

import mmap
import os
import stat
import zlib
from collections.abc import Mapping, Sequence
from typing import Final

from jitgraph.runtime.loader.archive import AGAIN, MANIFEST, WEIGHTS, read_members
from jitgraph.runtime.loader.cpu import lacking
from jitgraph.runtime.loader.device_code import DeviceCode, verify_ptx
from jitgraph.runtime.loader.dtypes import Array
from jitgraph.runtime.loader.errors import LoadError
from jitgraph.runtime.loader.image import ImageHeader
from jitgraph.runtime.loader.json_objects import MAX_JSON_BYTES, Json, get_typed, parse_json
from jitgraph.runtime.loader.signatures import Signature
from jitgraph.runtime.loader.weights import read_safetensors

FORMAT: Final = "jitgraph"
FORMAT_VERSION: Final = 1
MAX_GRAPH_BYTES: Final = 4 << 20
"""Of a graph's text, which is not read here: what reads it takes seconds and a few hundred MB for so much."""


def _contents(path: str | bytes) -> memoryview:
    """The bytes of a file in memory of this process, aligned to a page and read-only.

    They are read, not mapped: a mapped file that is cut or written to after its hashes were checked would end the
    process by SIGBUS, or run code that nobody checked. The copy takes about as long as the hashes do.
    """
    try:
        # Opening a pipe would wait for whoever writes to it.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb", buffering=0) as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise LoadError("cannot be opened: it is not a regular file")
            if status.st_size == 0:
                raise LoadError("the file is empty")
            memory = memoryview(mmap.mmap(-1, status.st_size, access=mmap.ACCESS_COPY))
            filled = 0
            while filled < len(memory):
                count = file.readinto(memory[filled:])
                if not count:
                    raise LoadError(f"the file was cut to {filled} bytes while it was read; {AGAIN}")
                filled += count
    except OSError as error:
        raise LoadError(f"cannot be opened: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the path
        raise LoadError(f"cannot be opened: {error}") from None
    return memory.toreadonly()


class Artifact:
    """The members of a ``.jg`` file, in memory, each checked against the manifest's size and SHA-256."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read and check the whole file; LoadError says what is wrong."""
        self.path = os.fspath(path)
        if isinstance(self.path, bytes) and self.path.startswith(b"PK\x03\x04"):
            raise TypeError("load takes the path of a file, not what is in it; write the bytes to a file")
        self._data = _contents(self.path)
        self.members = read_members(self._data)
        self.manifest = self._read_manifest()
        self._verify_hashes()

    def read(self, name: str) -> memoryview:
        """The bytes of a member, without a copy; LoadError where the file has none of that name."""
        if name not in self.members:
            raise LoadError(f"the member {name!r} is missing; {AGAIN}")
        start, size, _ = self.members[name]
        return self._data[start : start + size]

    def _read_manifest(self) -> dict[str, Json]:
        if (size := len(self.read(MANIFEST))) > MAX_JSON_BYTES:
            raise LoadError(f"{MANIFEST} is {size} bytes long, more than the {MAX_JSON_BYTES} allowed")
        data = bytes(self.read(MANIFEST))
        if zlib.crc32(data) != self.members[MANIFEST].crc:
            raise LoadError(f"{MANIFEST} does not match its checksum: it was damaged or changed; {AGAIN}")
        manifest = parse_json(data, MANIFEST)
        if manifest.get("format") != FORMAT:
            raise LoadError(f"{MANIFEST} names the format {manifest.get('format')!r:.40}, not {FORMAT!r}")
        version = get_typed(manifest, "version", int, MANIFEST)
        if version != FORMAT_VERSION:
            raise LoadError(f"format version {version} is unknown to this loader, which reads {FORMAT_VERSION}")
        return manifest

    def _verify_hashes(self) -> None:
        import hashlib

        listed = get_typed(self.manifest, "members", dict, MANIFEST)
        if unlisted := set(self.members) - set(listed) - {MANIFEST}:
            raise LoadError(f"the member {min(unlisted)!r} is not listed in {MANIFEST}; {AGAIN}")
        for name, entry in listed.items():
            where = f"{MANIFEST}, member {name[:60]!r}"
            size, digest = get_typed(entry, "bytes", int, where), get_typed(entry, "sha256", str, where)
            data = self.read(name)
            if len(data) != size:
                raise LoadError(f"the member {name!r} has {len(data)} bytes where {MANIFEST} says {size}; {AGAIN}")
            if hashlib.sha256(data).hexdigest() != digest:
                raise LoadError(f"the member {name!r} does not match its SHA-256: it was damaged or changed; {AGAIN}")

    def signatures(self) -> dict[str, Signature]:
        """The signature of each entry, by its name."""
        entries = get_typed(self.manifest, "entries", dict, MANIFEST)
        if not entries:
            raise LoadError(f"{MANIFEST} has no entry")
        return {
            name: Signature.from_json(
                get_typed(entry, "signature", dict, f"{MANIFEST}, entry {name!r}"), f"entry {name!r}"
            )
            for name, entry in entries.items()
        }

    def image(self, entry: str, levels: Sequence[str]) -> tuple[str, memoryview]:
        """The best of ``levels`` that the file has native code for, with that image's bytes."""
        native = get_typed(self.manifest["entries"][entry], "native", dict, f"{MANIFEST}, entry {entry!r}")
        for level in levels:
            if level in native:
                return level, self.read(get_typed(native, level, str, f"{MANIFEST}, entry {entry!r}, native"))
        raise LoadError(
            f"{entry!r} has native code for {', '.join(sorted(native)) or 'no target'}, but this machine runs "
            + (f"{', '.join(levels)}; save the model again for one of these" if levels else f"none: {lacking()}")
        )

    def device_codes(self, entry: str, signature: Signature, weights: Mapping[str, Array]) -> tuple[DeviceCode, ...]:
        """The code of an entry for GPUs, each generation checked with its members and constants."""
        title = f"entry {entry!r}"
        listed = get_typed(self.manifest["entries"][entry], "cuda", dict, f"{MANIFEST}, {title}", default={})
        codes = tuple(DeviceCode.from_json(name, code, signature.dims, title) for name, code in listed.items())
        for code in codes:
            where = f"{title}, {code.generation!r}"
            ImageHeader.parse(self.read(code.host))
            verify_ptx(self.read(code.ptx), where)
            for key, size in code.constants:
                if key not in weights or weights[key].nbytes != size:
                    raise LoadError(f"{where}: {WEIGHTS} has no constant {key[:80]!r} of {size} bytes; {AGAIN}")
        return codes

    def weights(self) -> dict[str, Array]:
        """The tensors of the weights by key: read-only views of the file in memory."""
        return read_safetensors(self.read(WEIGHTS)) if WEIGHTS in self.members else {}

    def metadata(self) -> dict[str, Json]:
        """What the writer noted beside the model."""
        value = get_typed(self.manifest, "metadata", dict, MANIFEST, default={})
        return dict(value)
