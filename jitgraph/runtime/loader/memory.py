"""Memory for results, workspaces and threads, which is used again."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

from jitgraph.runtime.loader.abi import ALIGNMENT, libc
from jitgraph.runtime.loader.dtypes import Array

_HUGE: Final = 2 << 20
_MADV_HUGEPAGE: Final = 14


def _size_class(size: int) -> int:
    """``size`` rounded up to one of eight steps an octave, at least 64 bytes: at most an eighth is wasted."""
    if size <= 64:
        return 64
    step = max(64, 1 << ((size - 1).bit_length() - 4))
    return -(-size // step) * step


class Allocator:
    """Memory aligned to 64 bytes that is used again once the last array over it is gone.

    Free lists are plain lists, whose append and pop are atomic: a lease may end at any point, also inside an
    allocation (garbage collection) or in a fork, so a lock here could deadlock. A class of sizes keeps at most 64 MiB
    or two blocks.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[int]] = {}
        self._leases: dict[int, type[ctypes.Array[ctypes.c_char]]] = {}

    def _new_class(self, size: int) -> type[ctypes.Array[ctypes.c_char]]:
        free = self._free.setdefault(size, [])
        keep = max(2, (64 << 20) // size)
        release = libc.free

        def end(lease: Any, addressof: Any = ctypes.addressof) -> None:
            if len(free) < keep:
                free.append(addressof(lease))
            else:
                release(addressof(lease))

        namespace = {"_type_": ctypes.c_char, "_length_": size, "__del__": end}
        return self._leases.setdefault(size, type("Lease", (ctypes.Array,), namespace))

    def lease(self, size: int) -> ctypes.Array[ctypes.c_char]:
        """At least ``size`` bytes, aligned to 64, uninitialised; they return to the allocator with the object."""
        size = _size_class(size)
        lease = self._leases.get(size) or self._new_class(size)
        try:
            address = self._free[size].pop()
        except IndexError:
            address = self._fresh(size)
        return lease.from_address(address)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> Array:
        """An uninitialised, dense array of ``size`` bytes; it and its views share the lease."""
        return np.ndarray(shape, dtype, buffer=memoryview(self.lease(size)))

    @staticmethod
    def _fresh(size: int) -> int:
        large = size >= 2 * _HUGE
        alignment = _HUGE if large else ALIGNMENT
        address = libc.aligned_alloc(alignment, -(-size // alignment) * alignment)
        if not address:
            raise MemoryError(f"cannot allocate {size} bytes")
        if large and hasattr(libc, "madvise"):
            libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), _MADV_HUGEPAGE)
        return int(address)


allocator = Allocator()
