"""The zip, read with suspicion: stored members that do not overlap, found without copying."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from jitgraph.runtime.loader.errors import LoadError

MANIFEST: Final = "manifest.json"
WEIGHTS: Final = "weights.safetensors"
AGAIN: Final = "copy or save the model again"
_MAX_MEMBERS: Final = 65535

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")


class Member(NamedTuple):
    """A stored member of the zip: its bytes lie at ``[start, start + size)`` of the file."""

    start: int
    size: int
    crc: int


def _unpack(form: struct.Struct, data: memoryview, offset: int, magic: bytes, what: str) -> tuple[Any, ...]:
    if not 0 <= offset <= len(data) - form.size:
        raise LoadError(f"the zip's {what} at {offset} lies outside the file of {len(data)} bytes; {AGAIN}")
    fields = form.unpack_from(data, offset)
    if fields[0] != magic:
        raise LoadError(f"no {what} at {offset}: the file is no zip, or was cut or changed; {AGAIN}")
    return fields[1:]


def _wide(extra: memoryview, fields: Sequence[int], name: str) -> list[int]:
    """Sizes and offset with those that stand as all ones replaced from the zip64 extra field."""
    result = list(fields)
    position = 0
    while position + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, position)
        if position + 4 + size > len(extra):
            raise LoadError(f"the zip's extra field of {name!r} is longer than its place; {AGAIN}")
        if kind == 1:
            missing = [i for i, value in enumerate(fields) if value == 0xFFFFFFFF]
            if size < 8 * len(missing):
                raise LoadError(f"the zip64 field of {name!r} is too short; {AGAIN}")
            for i, value in zip(missing, struct.unpack_from(f"<{len(missing)}Q", extra, position + 4), strict=True):
                result[i] = value
            return result
        position += 4 + size
    return result


def read_members(data: memoryview) -> dict[str, Member]:
    """The members of a zip without comment whose members are stored plain, do not overlap and are named once."""
    count, size, start = _central_directory(data)
    members: dict[str, Member] = {}
    position = start
    for _ in range(count):
        fields = _unpack(_CENTRAL, data[: start + size], position, b"PK\x01\x02", "directory entry")
        flags, method, crc, packed, plain = fields[2], fields[3], fields[6], fields[7], fields[8]
        name_size, extra_size, comment_size, offset = fields[9], fields[10], fields[11], fields[15]
        body = position + _CENTRAL.size
        position = body + name_size + extra_size + comment_size
        if position > start + size:
            raise LoadError(f"the zip's directory entry at {body} is longer than the directory; {AGAIN}")
        name = _member_name(bytes(data[body : body + name_size]))
        if name in members:
            raise LoadError(f"the member {name!r} appears twice; {AGAIN}")
        if flags & 0x1:
            raise LoadError(f"the member {name!r} is encrypted; jitgraph stores plain members: {AGAIN}")
        extra = data[body + name_size : body + name_size + extra_size]
        plain, packed, offset = _wide(extra, (plain, packed, offset), name)
        if method != 0 or packed != plain:
            raise LoadError(f"the member {name!r} is compressed; zip the files with 'store', or {AGAIN}")
        members[name] = _member(data[:start], name, offset, plain, crc)
    if position != start + size:
        raise LoadError(f"the zip's directory has {start + size - position} bytes too many; {AGAIN}")
    ends = sorted((member.start, member.start + member.size, name) for name, member in members.items())
    for (_, end, first), (begin, _, second) in pairwise(ends):
        if end > begin:
            raise LoadError(f"the members {first!r} and {second!r} overlap; {AGAIN}")
    return members


def _central_directory(data: memoryview) -> tuple[int, int, int]:
    """Number of entries, bytes and offset of the central directory."""
    if len(data) < _END.size or bytes(data[:4]) not in (b"PK\x03\x04", b"PK\x05\x06"):
        raise LoadError(f"not a jitgraph model: it has {len(data)} bytes and does not begin like a zip")
    end = len(data) - _END.size
    disk, first_disk, here, count, size, start, comment = _unpack(_END, data, end, b"PK\x05\x06", "end record")
    if comment:
        raise LoadError(f"the zip has a comment or bytes after its end; {AGAIN}")
    if count == 0xFFFF or 0xFFFFFFFF in (size, start):
        _, where, _ = _unpack(_END64_LOCATOR, data, end - _END64_LOCATOR.size, b"PK\x06\x07", "zip64 locator")
        wide = _unpack(_END64, data, where, b"PK\x06\x06", "zip64 end record")
        end, disk, first_disk, here, count, size, start = where, *wide[3:]
    if disk or first_disk or here != count:
        raise LoadError(f"the zip is spread over several disks; {AGAIN}")
    if count > _MAX_MEMBERS or start + size != end:
        raise LoadError(f"the zip's directory ({count} entries, {size} bytes at {start}) does not fit; {AGAIN}")
    return count, size, start


def _member_name(raw: bytes) -> str:
    try:
        name = raw.decode("ascii")
    except UnicodeDecodeError:
        raise LoadError(f"the member name {raw[:60]!r} is not ASCII") from None
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in name or ":" in name or not name.isprintable():
        raise LoadError(f"the member name {name[:60]!r} is not a plain relative path")
    return name


def _member(data: memoryview, name: str, offset: int, size: int, crc: int) -> Member:
    fields = _unpack(_LOCAL, data, offset, b"PK\x03\x04", f"header of {name!r}")
    method, name_size, extra_size = fields[2], fields[8], fields[9]
    begin = offset + _LOCAL.size
    if bytes(data[begin : begin + name_size]) != name.encode() or method != 0:
        raise LoadError(f"the zip's two headers of {name!r} differ; {AGAIN}")
    start = begin + name_size + extra_size
    if size > len(data) - start:
        raise LoadError(f"the member {name!r} ({size} bytes at {start}) reaches past its place in the file; {AGAIN}")
    return Member(start, size, crc)
