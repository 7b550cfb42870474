"""The memory that native code and the scheduler share: one record for the launch and one for each thread of a block.

Its addresses are constants of the code that is made for this process. Shared memory lies below 4 GiB, where a pointer
that a kernel keeps in 32 bits is still a pointer.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Final

from jitgraph.errors import DeviceError
from jitgraph.runtime.loader.abi import libc

WARP: Final = 32
MOST_THREADS: Final = 1024
STACK_BYTES: Final = (1 << 18) + 1088
"""No power of two, or the tops of all stacks would want the same lines of the cache."""
SHARED_BYTES: Final = 8 << 20
"""Room for the variables of all kernels of a module, which lie apart."""

MOST_SHARED: Final = 227 << 10
"""Shared memory that a block may have."""

ARGUMENT_BYTES: Final = 4 << 10
MOST_COPIES: Final = 1024
"""Asynchronous copies that one thread may have in flight."""

ARGUMENTS: Final = 24
MOST_LOGGED: Final = 1 << 22
"""Accesses that are noted before somebody looks at them."""

_LOW, _LAZY = 0x40, 0x4000  # MAP_32BIT; MAP_NORESERVE: what is not touched takes no room
_FAILED: Final = 2**64 - 1


class Fiber(ctypes.Structure):
    """One thread of the block: where it stands, which thread it is, and what it asks for."""

    _fields_ = [
        ("stack_pointer", ctypes.c_int64),
        ("stack_begin", ctypes.c_int64),
        ("stack_end", ctypes.c_int64),
        ("kind", ctypes.c_int32),  # what it waits for: DONE, or the number of an operation
        ("site", ctypes.c_int32),  # the instruction that it waits at
        ("thread_id", ctypes.c_int32 * 3),
        ("thread", ctypes.c_int32),  # its number in the block
        ("lane", ctypes.c_int32),
        ("warp", ctypes.c_int32),
        ("copies_begin", ctypes.c_int32),  # asynchronous copies in flight
        ("copies_end", ctypes.c_int32),
        ("copies_group", ctypes.c_int64),  # groups that were committed
        ("result", ctypes.c_uint8 * 128),
        ("arguments", (ctypes.c_uint8 * 16) * ARGUMENTS),
    ]


class AsyncCopy(ctypes.Structure):
    """An asynchronous copy into shared memory: ``read`` bytes from ``source``, then zeros up to ``size``."""

    _fields_ = [
        ("target", ctypes.c_int64),
        ("source", ctypes.c_int64),
        ("size", ctypes.c_int32),
        ("read", ctypes.c_int32),
        ("group", ctypes.c_int64),
        ("site", ctypes.c_int64),
    ]


class NotedAccess(ctypes.Structure):
    """One access to memory, as it is noted for races and counts."""

    _fields_ = [
        ("address", ctypes.c_int64),
        ("size", ctypes.c_int32),
        ("kind", ctypes.c_int32),
        ("site", ctypes.c_int32),
        ("thread", ctypes.c_int32),
        ("clock", ctypes.c_int32),
        ("block", ctypes.c_int32),
    ]


class LaunchState(ctypes.Structure):
    """What all threads of a launch have in common."""

    _fields_ = [
        ("current", ctypes.c_int64),  # the record of the thread that runs
        ("host", ctypes.c_int64),  # the stack pointer of the scheduler
        ("begin", ctypes.c_int64),  # what a fiber runs
        ("kernel", ctypes.c_int64),
        ("fault", ctypes.c_int64),
        ("fault_address", ctypes.c_int64),
        ("fault_size", ctypes.c_int64),
        ("fault_site", ctypes.c_int64),
        ("fault_kind", ctypes.c_int64),
        ("table", ctypes.c_int64),  # live memory, sorted: Live records
        ("table_length", ctypes.c_int64),
        ("site", ctypes.c_int64),
        ("patience", ctypes.c_int64),  # atomic operations until a thread is taken to wait for another in vain
        ("log", ctypes.c_int64),  # 0: accesses are not noted
        ("log_length", ctypes.c_int64),
        ("blocks", ctypes.c_int64),  # those to sweep, four numbers each: x, y, z, linear
        ("block_count", ctypes.c_int64),
        ("threads", ctypes.c_int64),  # those of a block to sweep, six numbers each, as in Fiber
        ("thread_count", ctypes.c_int64),
        ("ticks", ctypes.c_int64),
        ("instructions", ctypes.c_int64),
        ("warps_run", ctypes.c_int64),  # in a round
        ("barrier", ctypes.c_int32),  # at which the first of them waits
        ("clock", ctypes.c_int32),  # of the warp that runs: its intervals between barriers
        ("block_id", ctypes.c_int32 * 3),
        ("block", ctypes.c_int32),  # linear number
        ("block_dim", ctypes.c_int32 * 3),
        ("grid_dim", ctypes.c_int32 * 3),
        ("dynamic_shared", ctypes.c_int32),
        ("arguments", ctypes.c_uint8 * ARGUMENT_BYTES),
    ]


class Live(ctypes.Structure):
    """SimulatorMemory that kernels may touch."""

    _fields_ = [("begin", ctypes.c_int64), ("end", ctypes.c_int64), ("writable", ctypes.c_int64)]


class SimulatorMemory:
    """The addresses, for the life of the process."""

    def __init__(self) -> None:
        self.launch_at = _pages(ctypes.sizeof(LaunchState), _LOW)
        self.fibers_at = _pages(MOST_THREADS * ctypes.sizeof(Fiber))
        self.stacks_at = _pages(MOST_THREADS * STACK_BYTES)
        self.copies_at = _pages(MOST_THREADS * MOST_COPIES * ctypes.sizeof(AsyncCopy))
        self.log_at = _pages(MOST_LOGGED * ctypes.sizeof(NotedAccess))
        self.shared_at = _pages(SHARED_BYTES, _LOW)
        self.launch = LaunchState.from_address(self.launch_at)
        self.fibers = (Fiber * MOST_THREADS).from_address(self.fibers_at)

    def fiber(self, thread: int) -> int:
        """Where the record of a thread lies."""
        return self.fibers_at + thread * ctypes.sizeof(Fiber)

    def of_launch(self, field: str) -> int:
        """Where a field of LaunchState lies."""
        return self.launch_at + int(getattr(LaunchState, field).offset)


def _pages(size: int, where: int = _LAZY) -> int:
    protection, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = libc.mmap(None, size, protection, flags | where, -1, 0)
    if address in (None, _FAILED):
        raise DeviceError(f"the simulator cannot map {size} bytes", hint="it runs on 64-bit Linux on x86-64")
    return int(address)


@cache
def memory() -> SimulatorMemory:
    """The one of this process, mapped when it is first asked for."""
    return SimulatorMemory()
