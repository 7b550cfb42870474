"""The flat image: native code behind a header of 64 bytes, mapped to be executed, for a level of this processor."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import sys
import weakref
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from jitgraph.runtime.loader.abi import ABI_VERSION, libc
from jitgraph.runtime.loader.errors import LoadError
from jitgraph.runtime.loader.memory import map_pages

# ----------------------------------------------------------------------
# The flat image: native code behind a header of 64 bytes, mapped into memory that can be executed.

MAGIC: Final = b"JGIMAGE1"
MACHINE_X86_64: Final = 62  # ELF's e_machine
MACHINE_AARCH64: Final = 183
_MACHINES: Final[Mapping[str, int]] = {
    "x86_64": MACHINE_X86_64, "amd64": MACHINE_X86_64, "aarch64": MACHINE_AARCH64, "arm64": MACHINE_AARCH64
}  # fmt: skip
EXPORTS: Final = ("entry", "arena_bytes", "worker", "parallel_for")
_MAX_IMAGE: Final = 1 << 30


class ImageHeader(NamedTuple):
    """The first 64 bytes of a flat image, little-endian; offsets count from its first byte, 0 where absent.

    ======  ====  ==================================================
    offset  size  field
    ======  ====  ==================================================
    0       8     magic ``JGIMAGE1``
    8       4     ABI version
    12      4     machine: ELF's e_machine (62: x86-64, 183: AArch64)
    16      8     total bytes, this header included
    24      8     end of the code, which begins at 64; constants follow
    32      8     entry (required)
    40      8     arena_bytes
    48      8     worker
    56      8     parallel_for
    ======  ====  ==================================================
    """

    abi_version: int
    machine: int
    total: int
    code_end: int
    entry: int
    arena_bytes: int
    worker: int
    parallel_for: int

    def pack(self) -> bytes:
        """The 64 bytes."""
        return _HEADER.pack(MAGIC, *self)

    @staticmethod
    def parse(data: bytes | memoryview) -> ImageHeader:
        """The header of ``data``, each field checked against its length; LoadError where one is wrong."""
        if len(data) < _HEADER.size:
            raise LoadError(f"the native image is {len(data)} bytes long, shorter than its header of {_HEADER.size}")
        magic, *fields = _HEADER.unpack_from(data)
        if magic != MAGIC:
            raise LoadError(f"the native image begins with {magic!r}, not with {MAGIC!r}")
        header = ImageHeader(*fields)
        if header.abi_version != ABI_VERSION:
            raise LoadError(
                f"the native image speaks ABI {header.abi_version}, this loader {ABI_VERSION}; save the model again "
                "with this version, or use the loader that came with the model"
            )
        if header.total != len(data):
            raise LoadError(f"the native image says {header.total} bytes but has {len(data)}; it was cut or extended")
        if header.total > _MAX_IMAGE:
            raise LoadError(f"the native image has {header.total} bytes, more than the {_MAX_IMAGE} allowed")
        if not _HEADER.size < header.code_end <= header.total:
            raise LoadError(f"the native image says its code ends at {header.code_end} of {header.total} bytes")
        for name in EXPORTS:
            offset = getattr(header, name)
            if (offset or name == "entry") and not _HEADER.size <= offset < header.code_end:
                raise LoadError(f"the native image has {name!r} at {offset}, outside its code [64, {header.code_end})")
        return header


_HEADER: Final = struct.Struct("<8sIIQQQQQQ")
HEADER_BYTES: Final = _HEADER.size


def machine_here() -> int:
    """This machine's ELF number, or 0 where jitgraph knows none."""
    return _MACHINES.get(platform.machine().lower(), 0)


def _new_pages(size: int) -> int:
    """The address of new memory that can be written, in pages of its own."""
    address = map_pages(size)
    if not address:
        raise MemoryError(f"cannot map {size} bytes for native code: {os.strerror(ctypes.get_errno())}")
    return address


def _refused_execution(address: int, size: int) -> str:
    """Let mapped memory be executed and no longer written; why the system does not, or the empty string."""
    if libc.mprotect(address, size, mmap.PROT_READ | mmap.PROT_EXEC) == 0:
        return ""
    return f"the system does not let memory be executable: {os.strerror(ctypes.get_errno())}"


@cache
def _refused_here() -> str:
    """Why this system refuses memory that was written to be executed, tried on one page; empty where it does not."""
    address = _new_pages(mmap.PAGESIZE)
    try:
        return _refused_execution(address, mmap.PAGESIZE)
    finally:
        libc.munmap(address, mmap.PAGESIZE)


def lacking_system() -> str:
    """What native code needs of a system and this one lacks, in words; empty where it lacks nothing."""
    if libc is None or sys.platform != "linux" or machine_here() != MACHINE_X86_64 or sys.maxsize < 2**32:
        here = f"{platform.system()} on {platform.machine()}, {8 * ctypes.sizeof(ctypes.c_void_p)} bits"
        return f"native code needs 64-bit Linux on x86-64, and this is {here}"
    return _refused_here()


class Image:
    """Native code in memory: written, then protected for execution, never both at once.

    It is unmapped when the last reference goes; entries and pools that run it hold one.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        """Map ``data``; LoadError where it is malformed or for another machine."""
        self.header = ImageHeader.parse(data)
        if self.header.machine != machine_here():
            raise LoadError(f"the native image is for machine {self.header.machine}, this is a {platform.machine()}")
        if lacking := lacking_system():
            raise LoadError(lacking)
        size = self.header.total
        self.address = _new_pages(size)
        # Not at exit: pool threads may still stand in the code then.
        weakref.finalize(self, libc.munmap, self.address, size).atexit = False
        ctypes.memmove(self.address, bytes(data), size)
        if refused := _refused_execution(self.address, size):
            raise LoadError(refused)

    def export(self, name: str) -> int:
        """The address of one of EXPORTS, or 0 where the image lacks it."""
        offset = int(getattr(self.header, name))
        return self.address + offset if offset else 0


# ----------------------------------------------------------------------
# The processor's level: which of the targets in a file this machine runs.

X86_LEVELS: Final[Mapping[str, frozenset[str]]] = {
    "x86-64-v2": frozenset(("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3")),
    "x86-64-v3": frozenset(("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave")),
    "x86-64-v4": frozenset(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")),
}
"""What each psABI level adds to the one before, in the words of /proc/cpuinfo (pni is SSE3, abm has LZCNT)."""


def cpu_flags(path: str = "/proc/cpuinfo") -> frozenset[str]:
    """The processor's flags as Linux lists them; empty where they cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except (FileNotFoundError, PermissionError):  # not what a signal handler raises, such as TimeoutError
        return frozenset()
    return frozenset()


def cpu_levels(flags: frozenset[str] | None = None) -> tuple[str, ...]:
    """The targets this machine runs, best first, such as ``("x86-64-v4", "x86-64-v3", "x86-64-v2")``.

    None where the system runs no native code (``lacking``) or does not say what the processor has.
    """
    if flags is None:
        flags = frozenset() if lacking_system() else cpu_flags()
    levels: list[str] = []
    for level, needed in X86_LEVELS.items():
        if not needed <= flags:
            break
        levels.insert(0, level)
    return tuple(levels)


def lacking() -> str:
    """What native code needs and this process lacks, in words; empty where it can run some."""
    if cpu_levels():
        return ""
    return lacking_system() or "native code needs a processor of x86-64-v3 or better, by the flags in /proc/cpuinfo"
