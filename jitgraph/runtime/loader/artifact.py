"""The file: a zip read with suspicion, its members checked against the manifest, its weights as arrays."""

from __future__ import annotations

import mmap
import os
import re
import stat
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from jitgraph.runtime.loader.errors import CHECK_KINDS, LoadError
from jitgraph.runtime.loader.image import ImageHeader, lacking
from jitgraph.runtime.loader.json_objects import MAX_JSON_BYTES, FrozenRecord, Json, get_typed, parse_json
from jitgraph.runtime.loader.signatures import Check, Signature
from jitgraph.runtime.loader.specs import INT64_MAX, MAX_RANK, SAFETENSORS_DTYPES, Array, Expression, Size, dtype_named

# ----------------------------------------------------------------------
# The zip, read with suspicion: stored members that do not overlap, found without copying.

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


# ----------------------------------------------------------------------
# The weights: a safetensors member as arrays over the file's bytes.


def read_safetensors(data: memoryview, what: str = WEIGHTS) -> dict[str, Array]:
    """Read-only arrays over ``data`` (8 bytes of header length, a JSON header, the tensors without gaps).

    Nothing is copied but tensors that are not aligned to their element. LoadError, which calls the data ``what``.
    """
    if len(data) < 8:
        raise LoadError(f"{what} has {len(data)} bytes, less than its header's length field")
    (size,) = struct.unpack_from("<Q", data)
    if size > min(len(data) - 8, MAX_JSON_BYTES):
        raise LoadError(f"{what} says its header has {size} bytes, but the file has {len(data)}; {AGAIN}")
    header = parse_json(bytes(data[8 : 8 + size]), f"the header of {what}")
    header.pop("__metadata__", None)
    body = data[8 + size :]
    arrays: dict[str, Array] = {}
    spans: list[tuple[int, int, str]] = []
    for name, entry in header.items():
        where = f"{what}, tensor {name[:60]!r}"
        code = get_typed(entry, "dtype", str, where)
        if code not in SAFETENSORS_DTYPES:
            raise LoadError(f"{where}: dtype {code[:20]!r} is not supported; one of {', '.join(SAFETENSORS_DTYPES)}")
        dtype = dtype_named(SAFETENSORS_DTYPES[code])
        shape = get_typed(entry, "shape", list, where)
        offsets = get_typed(entry, "data_offsets", list, where)
        sound = all(type(number) is int and 0 <= number <= INT64_MAX for number in (*shape, *offsets))
        if not sound or len(offsets) != 2 or len(shape) > MAX_RANK:
            raise LoadError(f"{where}: shape {shape!r:.60} or offsets {offsets!r:.60} are not sizes")
        begin, end = offsets
        elements = 1
        for extent in shape:
            elements *= extent
        if not begin <= end <= len(body) or end - begin != elements * dtype.itemsize:
            raise LoadError(f"{where}: bytes {begin} to {end} of {len(body)} do not hold {code}{shape!r:.60}; {AGAIN}")
        try:
            array: Array = np.frombuffer(body[begin:end], dtype).reshape(shape)
        except ValueError as error:
            raise LoadError(f"{where}: {error}") from None
        if code == "BOOL" and elements and int(array.view(np.uint8).max()) > 1:
            raise LoadError(f"{where}: a bool that is neither 0 nor 1; {AGAIN}")
        if not array.flags.aligned:
            array = array.copy()
        array.flags.writeable = False
        arrays[name] = array
        spans.append((begin, end, name))
    reached = 0
    for begin, end, name in sorted(spans):
        if begin != reached:
            raise LoadError(f"{what}: tensor {name[:60]!r} begins at {begin}, where {reached} is due; {AGAIN}")
        reached = end
    if reached != len(body):
        raise LoadError(f"{what} has {len(body)} bytes of data, its tensors {reached}; {AGAIN}")
    return arrays


# ----------------------------------------------------------------------
# Code for GPUs in a file: PTX for a generation of them, and what the host's image needs beside the ABI.
#
# The entry of the host's image puts launches on the stream of the call. Behind inputs, state and outputs ``buffers``
# has the device addresses of ``constants``; where ``reports`` is true, 40 bytes of pinned memory to which the error
# record is copied behind the last launch; where there are ``pinned`` sizes, pinned memory of the greatest of them,
# which is the call's until the entry returns; and the driver's handles of ``functions``, each in order. Device
# addresses are multiples of 16. ``call.arena`` is device memory, ``call.stream`` the stream, and ``host.driver`` a
# table of addresses of the driver's functions, which has those of ``driver`` at their places and NULL elsewhere. A
# code below 0 is a ``CUresult``, negated; ``error.check_id`` is then the number of the launch.

MAX_DRIVER_SLOTS: Final = 256
MAX_PTX_BYTES: Final = 256 << 20
_MAX_NAME: Final = 1024
_GENERATION: Final = re.compile(r"sm_([1-9][0-9]{1,2})")
_SYMBOL: Final = re.compile(r"cu[A-Z][A-Za-z0-9_]{1,99}")
_KERNEL: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


class DeviceCode(FrozenRecord):
    """What the manifest says of the code of one entry for one generation of GPUs, such as ``sm_80``."""

    generation: str
    host: str  # members of the file: the host's image, and the PTX
    ptx: str
    functions: tuple[str, ...]  # kernels of the PTX
    constants: tuple[tuple[str, int], ...]  # keys among the weights, and their bytes
    driver: tuple[tuple[str, int], ...]  # functions of the driver, and their places in the table
    checks: tuple[Check, ...]  # by the numbers that kernels report
    reports: bool  # whether kernels may fail
    pinned: tuple[Size, ...]  # bytes, by the sizes of the call; none where the entry never waits

    @property
    def capability(self) -> int:
        """The compute capability, ten times its number."""
        return int(self.generation.removeprefix("sm_"))

    def to_json(self) -> dict[str, Json]:
        """The JSON object that ``from_json`` reads."""
        return {
            "host": self.host,
            "ptx": self.ptx,
            "functions": list(self.functions),
            "constants": [{"key": key, "bytes": size} for key, size in self.constants],
            "driver": dict(self.driver),
            "checks": [{"message": c.message, "kind": c.kind, "location": c.location} for c in self.checks],
            "reports": self.reports,
            "pinned": list(self.pinned),
        }

    @staticmethod
    def from_json(generation: str, source: Json, dims: Iterable[str], where: str) -> DeviceCode:
        """Read what ``to_json`` gave, of an entry with these named sizes; LoadError where it is malformed."""
        where = f"{where}, {generation[:20]!r}"
        if not _GENERATION.fullmatch(generation):
            raise LoadError(f"{where}: this names no generation of GPUs; expected such as 'sm_80'")
        functions = tuple(get_typed(source, "functions", list, where))
        for name in functions:
            if not isinstance(name, str) or len(name) > _MAX_NAME or not _KERNEL.fullmatch(name):
                raise LoadError(f"{where}: {name!r:.60} is no name of a kernel")
        if len(set(functions)) != len(functions):
            raise LoadError(f"{where}: a kernel is named twice")
        driver = get_typed(source, "driver", dict, where)
        for symbol, slot in driver.items():
            if not _SYMBOL.fullmatch(symbol) or type(slot) is not int or not 0 <= slot < MAX_DRIVER_SLOTS:
                raise LoadError(f"{where}: {symbol!r:.60} at {slot!r:.20} is no function of the driver in a table")
        if len(set(driver.values())) != len(driver):
            raise LoadError(f"{where}: two functions of the driver have one place")
        checks = []
        for number, check in enumerate(get_typed(source, "checks", list, where)):
            parts = [
                get_typed(check, part, str, f"{where}, check {number}") for part in ("message", "kind", "location")
            ]
            if parts[1] not in CHECK_KINDS:
                raise LoadError(f"{where}: a check raises {parts[1]!r:.40}; one of {', '.join(CHECK_KINDS)}")
            checks.append(Check(*parts))
        constants = []
        for constant in get_typed(source, "constants", list, where):
            size = get_typed(constant, "bytes", int, where)
            if size < 0:
                raise LoadError(f"{where}: a constant of {size} bytes")
            constants.append((get_typed(constant, "key", str, where), size))
        pinned = get_typed(source, "pinned", list, where)
        for size in pinned:
            if isinstance(size, bool) or not isinstance(size, (int, str)) or (type(size) is int and size < 0):
                raise LoadError(f"{where}: {size!r:.60} is no size of pinned memory")
            if isinstance(size, str) and (unknown := Expression(size).names - set(dims)):
                raise LoadError(f"{where}: pinned memory uses the unknown dims {sorted(unknown)}")
        return DeviceCode(
            generation,
            get_typed(source, "host", str, where),
            get_typed(source, "ptx", str, where),
            functions,
            tuple(constants),
            tuple(driver.items()),
            tuple(checks),
            get_typed(source, "reports", bool, where),
            tuple(pinned),
        )


def verify_ptx(text: bytes | memoryview, where: str) -> None:
    """LoadError where bytes are no text that the driver's compiler could be given."""
    if len(text) > MAX_PTX_BYTES:
        raise LoadError(f"{where}: PTX of {len(text)} bytes, more than the {MAX_PTX_BYTES} allowed")
    data = bytes(text)
    if not data.isascii() or b"\0" in data or b".version" not in data:
        raise LoadError(f"{where}: this is no PTX")


# ----------------------------------------------------------------------
# The file: its bytes in memory, its members checked against the manifest.

FORMAT: Final = "jitgraph"
FORMAT_VERSION: Final = 2
"""Of files whose entries have structured arguments or specialisations; the rest say ``PLAIN_VERSION``."""
PLAIN_VERSION: Final = 1
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
        if version not in (PLAIN_VERSION, FORMAT_VERSION):
            known = f"{PLAIN_VERSION} and {FORMAT_VERSION}"
            raise LoadError(f"format version {version} is unknown to this loader, which reads {known}")
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

    def specialisations(self) -> dict[str, tuple[str, ...]]:
        """For each entry that a caller names, the entries that a call of it chooses from: itself first."""
        entries = get_typed(self.manifest, "entries", dict, MANIFEST)
        chosen: dict[str, list[str]] = {}
        for name, entry in entries.items():
            where = f"{MANIFEST}, entry {name!r}"
            if not isinstance(entry, dict):
                raise LoadError(f"{where} is not a JSON object but a {type(entry).__name__}")
            if "of" not in entry:
                chosen.setdefault(name, []).insert(0, name)
                continue
            base = get_typed(entry, "of", str, where)
            if base not in entries or "of" in entries[base]:
                raise LoadError(f"{where}: it is a specialisation of {base[:60]!r}, which is no entry; {AGAIN}")
            chosen.setdefault(base, []).append(name)
        return {name: tuple(each) for name, each in chosen.items()}

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
