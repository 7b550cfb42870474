"""The zip container of PyTorch's files: its members, checked before they are read.

PyTorch writes one folder into the zip: ``data.pkl`` (the object), ``data/0``, ``data/1`` ... (storages of tensors),
``version``, ``byteorder``, and for TorchScript ``code/`` (text) and ``constants.pkl``. Nothing here trusts the file:
sizes and places are compared with each other and with the file's own size, so that a small file cannot stand for much
memory.
"""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Any, Final, Self

from jitgraph import foreign_files
from jitgraph.errors import LoadError

_LOCAL: Final = struct.Struct("<4s5H3I2H")  # the header in front of a member's bytes
_MEMBERS: Final = 1 << 17
_LARGEST_TEXT: Final = 1 << 26  # bytes of one compressed member, unpacked
_LARGEST_TEXTS: Final = 1 << 28  # bytes of all of them


class Archive:
    """A zip file of PyTorch's, open for reading; members are named without the folder in which all stand.

    LoadError for a file that is no sound zip, whose members overlap, reach behind the end of the file, are encrypted,
    or would unpack to more than 64 MB each or 256 MB together.
    """

    def __init__(self, source: str | os.PathLike[str] | IO[bytes]) -> None:
        self.name = os.fspath(source) if isinstance(source, str | os.PathLike) else "the file"
        self._owned = isinstance(source, str | os.PathLike)
        self._file: IO[bytes] = open(source, "rb") if isinstance(source, str | os.PathLike) else source  # noqa: SIM115
        try:
            self._size = self._file.seek(0, 2)
            self._members = self._indexed()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._owned:
            self._file.close()

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def error(self, what: str) -> LoadError:
        """The error that says what is wrong with the file."""
        return LoadError(f"{self.name}: {what}")

    def size(self, name: str) -> int:
        """The bytes of a member, unpacked; LoadError where there is none of this name."""
        if name not in self._members:
            raise self.error(f"the archive has no member {name!r}")
        return self._members[name].file_size

    def read(self, name: str) -> bytearray:
        """The bytes of a member; LoadError where they are not those that the archive promises."""
        size = self.size(name)
        info = self._members[name]
        self._file.seek(self._start(info))
        stored = bytearray(info.compress_size)
        view, count = memoryview(stored), 0
        while count < len(stored):
            step = self._file.readinto(view[count:])  # type: ignore[attr-defined]
            if not step:
                raise self.error(f"the file ends within {name!r}")
            count += step
        view.release()
        if info.compress_type == zipfile.ZIP_DEFLATED:
            stored = self._inflated(name, stored, size)
        if len(stored) != size or zlib.crc32(stored) != info.CRC:
            raise self.error(f"the bytes of {name!r} are not those whose checksum the archive has")
        return stored

    def text(self, name: str) -> str:
        """A member as text."""
        try:
            return self.read(name).decode("utf-8")
        except UnicodeDecodeError:
            raise self.error(f"{name!r} is no UTF-8 text") from None

    def _inflated(self, name: str, packed: bytearray, size: int) -> bytearray:
        unpacker = zlib.decompressobj(-15)
        try:
            return bytearray(unpacker.decompress(packed, size + 1))
        except zlib.error as error:
            raise self.error(f"{name!r} cannot be unpacked: {error}") from None

    def _indexed(self) -> dict[str, zipfile.ZipInfo]:
        try:
            with zipfile.ZipFile(self._file) as directory:
                every = directory.infolist()
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, OverflowError, OSError) as error:
            known = foreign_files.format_of(self.name) if self._owned else None
            if known is None or zipfile.is_zipfile(self._file):
                raise self.error(f"the file is no sound zip: {error}") from None
            raise LoadError(f"{self.name} is {known.text}\n  hint: {known.hint}") from None
        if not every or len(every) > _MEMBERS:
            raise self.error(f"the zip has {len(every)} members")
        folder = every[0].filename.partition("/")[0] + "/"
        members: dict[str, zipfile.ZipInfo] = {}
        extents: list[tuple[int, int]] = []
        unpacked = 0
        for info in every:
            if info.filename.endswith("/") and not info.file_size:
                continue
            name = info.filename.removeprefix(folder)
            if name == info.filename or not name or ".." in name.split("/") or "\\" in name or name.startswith("/"):
                raise self.error(f"the member {info.filename!r} does not stand in the folder {folder!r}")
            if name in members:
                raise self.error(f"two members are called {info.filename!r}")
            if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise self.error(f"{name!r} is encrypted, or packed by a method that PyTorch does not use")
            if info.compress_type == zipfile.ZIP_DEFLATED:
                unpacked += info.file_size
                if info.file_size > _LARGEST_TEXT or unpacked > _LARGEST_TEXTS:
                    raise self.error(f"{name!r} unpacks to {info.file_size} bytes")
            elif info.compress_size != info.file_size:
                raise self.error(f"{name!r} is not packed, but has two sizes")
            start = info.header_offset
            extents.append((start, start + _LOCAL.size + info.compress_size))
            members[name] = info
        extents.sort()
        ends = [*(start for start, _ in extents[1:]), self._size]
        if any(start < 0 or end > following for (start, end), following in zip(extents, ends, strict=True)):
            raise self.error("members of the zip overlap, or reach behind its end")
        return members

    def _start(self, info: zipfile.ZipInfo) -> int:
        """Where a member's bytes begin, behind its own header."""
        self._file.seek(info.header_offset)
        header = self._file.read(_LOCAL.size)
        if len(header) != _LOCAL.size or header[:4] != b"PK\x03\x04":
            raise self.error(f"{info.filename!r} has no header of its own")
        fields: tuple[Any, ...] = _LOCAL.unpack(header)
        name_length, extra_length = fields[9:]
        start = info.header_offset + _LOCAL.size + name_length + extra_length
        if start + info.compress_size > self._size:
            raise self.error(f"{info.filename!r} reaches behind the end of the file")
        if self._file.read(name_length) != info.orig_filename.encode("utf-8"):
            raise self.error(f"{info.filename!r} has another name in its own header")
        return int(start)
