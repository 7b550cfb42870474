"""Memory for results, workspaces and threads, which is used again."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from functools import cache, partial
from itertools import count
from typing import Any, Final

import numpy as np

from jitgraph.runtime.loader.abi import ALIGNMENT, libc
from jitgraph.runtime.loader.specs import Array

_HUGE: Final = 2 << 20
_MADV_HUGEPAGE: Final = 14
_MAP_FAILED: Final = (1 << 8 * ctypes.sizeof(ctypes.c_void_p)) - 1
_LARGE: Final = 1 << 20


def _size_class(size: int) -> int:
    """``size`` rounded up to one of eight steps an octave, at least 64 bytes: at most an eighth is wasted."""
    if size <= 64:
        return 64
    step = max(64, 1 << ((size - 1).bit_length() - 4))
    return -(-size // step) * step


class _SizeClass:
    """Unused blocks of one size, and the type of the leases of used ones."""

    __slots__ = ("asked", "free", "lease", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.free: list[int] = []
        self.asked = 0  # when a large block was last asked for
        self.lease: type[ctypes.Array[ctypes.c_char]]


class Allocator:
    """Memory aligned to 64 bytes that is used again once the last array over it is gone.

    Blocks of 1 MiB or more are kept up to ``limit`` bytes; beyond it those of the sizes asked for longest ago go back
    to the system, but the last size keeps two. Of a smaller size 1 MiB is kept.

    Free lists are plain lists, whose append and pop are atomic: a lease may end at any point, also inside an
    allocation (garbage collection) or in a fork, so a lock here could deadlock. Threads that end leases at once may
    pass the limit by a block each, until the next lease ends.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = _cache_limit() if limit is None else limit
        self._classes: dict[int, _SizeClass] = {}
        self._large: list[_SizeClass] = []
        self._clock = count(1)

    def cached_bytes(self) -> int:
        """The bytes of large blocks that are kept for reuse."""
        return sum([kind.size * len(kind.free) for kind in self._large])

    def _new_class(self, size: int) -> _SizeClass:
        new_class = _SizeClass(size)
        free, trim, release = new_class.free, self._trim, libc.free
        is_large, most = size >= _LARGE, max(2, _LARGE // size)

        def end(lease: Any, addressof: Any = ctypes.addressof) -> None:
            if is_large:
                free.append(addressof(lease))
                trim()
            elif len(free) < most:
                free.append(addressof(lease))
            else:
                release(addressof(lease))

        namespace = {"_type_": ctypes.c_char, "_length_": size, "__del__": end}
        new_class.lease = type("Lease", (ctypes.Array,), namespace)
        size_class = self._classes.setdefault(size, new_class)
        if size_class is new_class and is_large:
            self._large.append(new_class)
        return size_class

    def _trim(self) -> None:
        """Give back large blocks beyond the limit."""
        left = self.cached_bytes() - self.limit
        if left <= 0:
            return
        oldest_first = sorted([(kind.asked, number) for number, kind in enumerate(self._large)])
        for position, (_, number) in enumerate(oldest_first, 1):
            kind = self._large[number]
            stays = 2 if position == len(oldest_first) else 0
            while left > 0 and len(kind.free) > stays:
                try:
                    address = kind.free.pop()
                except IndexError:  # another thread took it
                    break
                libc.munmap(address, kind.size)
                left -= kind.size

    def lease(self, size: int) -> ctypes.Array[ctypes.c_char]:
        """At least ``size`` bytes, aligned to 64, uninitialised; they return to the allocator with the object."""
        size = _size_class(size)
        kind = self._classes.get(size) or self._new_class(size)
        if size >= _LARGE:
            kind.asked = next(self._clock)
        try:
            address = kind.free.pop()
        except IndexError:
            address = _new_block(size)
        return kind.lease.from_address(address)

    def adopting(self, address: int, size: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Any, Array]:
        """A lease of ``size`` bytes that ``aligned_alloc`` gave, and a dense array over it.

        Once the lease ``frees``, the memory goes with the array and its views; until then it is somebody else's.
        """
        lease = _adopting(size).from_address(address)
        return lease, np.ndarray(shape, dtype, memoryview(lease))

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> Array:
        """An uninitialised, dense array of ``size`` bytes; it and its views share the lease."""
        return np.ndarray(shape, dtype, memoryview(self.lease(size)))

    def maker(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> Callable[[], Array]:
        """What gives such an array at each call, sooner than ``empty`` where arrays are small."""
        if size >= _LARGE:
            return partial(self.empty, shape, dtype, size)
        size = _size_class(size)
        kind = self._classes.get(size) or self._new_class(size)
        lease_at, take = kind.lease.from_address, kind.free.pop

        def make() -> Array:
            try:
                address = take()
            except IndexError:
                address = _new_block(size)
            return np.ndarray(shape, dtype, memoryview(lease_at(address)))

        return make


def _new_block(size: int) -> int:
    """The address of a block from the system; MemoryError where it has none."""
    address = _mapped(size) if size >= _LARGE else libc.aligned_alloc(ALIGNMENT, size)
    if not address:
        raise MemoryError(f"cannot allocate {size} bytes")
    return int(address)


@cache
def _adopting(size: int) -> Any:
    """The type of leases of memory that goes back to libc."""
    free, addressof = libc.free, ctypes.addressof

    def end(lease: Any) -> None:
        if lease.frees:
            free(addressof(lease))

    namespace = {"_type_": ctypes.c_char, "_length_": size, "frees": False, "__del__": end}
    return type("Adopted", (ctypes.Array,), namespace)


def _cache_limit() -> int:
    """How much an allocator keeps: an eighth of the machine's memory, and at most 1 GiB."""
    if not hasattr(os, "sysconf"):  # where no native code runs either
        return 0
    return min(1 << 30, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8)


def map_pages(size: int) -> int:
    """Private pages from the system, to be read and written; 0 where it has none left."""
    protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = libc.mmap(None, size, protection, flags, -1, 0)
    return 0 if start in (None, _MAP_FAILED) else int(start)


def _mapped(size: int) -> int:
    """Pages of their own from the system, in huge ones where there is room for two; 0 where it has none left."""
    alignment = _HUGE if size >= 2 * _HUGE else mmap.PAGESIZE
    spare = alignment - mmap.PAGESIZE
    rounded = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    start = map_pages(rounded + spare)
    if not start:
        return 0
    address = -(-start // alignment) * alignment
    for begin, end in ((start, address), (address + rounded, start + rounded + spare)):
        if end > begin:
            libc.munmap(begin, end - begin)
    if spare and hasattr(libc, "madvise"):
        libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), _MADV_HUGEPAGE)
    return address


allocator = Allocator()
