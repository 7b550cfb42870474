"""The ABI: what native code and its host agree on, as codes, structures, offsets and types of functions; libc's
functions.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

# ----------------------------------------------------------------------
# The ABI: what native code and its host agree on, as codes, structures and types of functions; libc's functions.
#
# ``int32 entry(const jg_host *host, jg_call *call, void *const *buffers, const int64_t *dims)`` returns ``OK`` or one
# of the codes below. ``buffers`` holds the inputs in signature order, then the state, then the outputs. Inputs are
# dense, row-major and aligned to their element (not more); outputs and the arena are aligned to 64 bytes. ``dims``
# holds the named sizes in signature order. ``int64 arena_bytes(const int64_t *dims)`` gives the workspace, the calling
# thread's scratch memory included, negative where a size leaves 64 bits. Output ``o`` has the address of input ``i``
# only where ``(o, i)`` stands in ``aliases`` and the caller donates ``i``.
#
# The entry verifies what its kernels rely on: before it reads a buffer it evaluates the constraints of the graph over
# ``dims`` and returns ``SIZES_REFUSED`` where one does not hold, with its number in ``error.check_id``: the place of
# the constraint in the signature, or behind the constraints the place of a size that is negative. (New in ABI 3.)
#
# Interruption: long loops of the calling thread ask ``host.poll(host)`` about every 50 ms by the cycle counter
# (``jg_poll`` of the native runtime) and return ``INTERRUPTED`` where it gives nonzero. No poll may stand behind the
# first write to a donated buffer. ``poll`` runs the handlers of pending signals (``Guarded``); what one raises is kept,
# and raised when the call has returned. Chunks of a parallel loop ask too where the calling thread runs them.
#
# Printing: where the program prints, the calling thread puts the number of the print and the addresses of its operands
# into ``call.print_site`` and ``call.print_operands`` and calls ``host.print(host, call)``, which writes the text that
# the signature holds under that number; nonzero ends the call with that code, and where the slot is NULL nothing is
# printed. No print may stand behind the first write to a donated buffer. (New in ABI 4.)
#
# Threads: loops are shared among the threads of ``host.pool``, at most ``call.threads`` of them, the caller included.
# (The limit, and what ``PoolState`` keeps of launches and gaps, are new in ABI 5.)

ABI_VERSION: Final = 5

OK: Final = 0
CHECK_FAILED: Final = 1
INTERRUPTED: Final = 2
OUT_OF_MEMORY: Final = 3
SIZE_OVERFLOW: Final = 4
CALLBACK_FAILED: Final = 5
SIZES_REFUSED: Final = 6
CODE_NAMES: Final = (
    "ok", "check failed", "interrupted", "out of memory", "size overflow", "callback failed", "sizes refused"
)  # fmt: skip

ALIGNMENT: Final = 64
SCRATCH_BYTES: Final = 2 << 20
"""Memory that each thread of a pool has for the chunk that it runs; what is not touched takes no room."""


class Host(ctypes.Structure):
    """``jg_host``: what native code may ask of the process. Read-only to it; each slot but the first may be NULL."""

    _fields_ = [
        ("abi_version", ctypes.c_int64),
        ("alloc", ctypes.c_void_p),  # void *alloc(size_t bytes): malloc itself; NULL on failure
        ("free", ctypes.c_void_p),  # void free(void *)
        ("parallel_for", ctypes.c_void_p),  # a host's own scheduler, see codegen/cpu/pool.py; NULL: the pool below
        ("poll", ctypes.c_void_p),  # int32 poll(const jg_host *): nonzero asks the call to stop
        ("syscall", ctypes.c_void_p),  # long syscall(long, ...) of libc, for futexes
        ("pool", ctypes.c_void_p),  # jg_pool *; NULL: everything runs on the calling thread
        ("callback", ctypes.c_void_p),  # int32 callback(host, call, int64 id, void *const *buffers, const int64 *dims)
        ("driver", ctypes.c_void_p),  # table of the accelerator's driver functions
        ("print", ctypes.c_void_p),  # int32 print(const jg_host *, jg_call *): what call.print_site numbers
        ("reserved", ctypes.c_int64 * 6),
    ]
    abi_version: int
    alloc: int | None
    free: int | None
    parallel_for: int | None
    poll: int | None
    syscall: int | None
    pool: int | None
    callback: int | None
    driver: int | None
    print: int | None


class ErrorRecord(ctypes.Structure):
    """Which check failed: ``index`` was asked for where ``bound`` is the limit; ``order`` is the chunk that failed.

    Of several chunks that fail at once the lowest ``order`` stays, so the report does not depend on the threads.
    """

    _fields_ = [
        ("code", ctypes.c_int32),
        ("check_id", ctypes.c_int32),
        ("index", ctypes.c_int64),
        ("bound", ctypes.c_int64),
        ("order", ctypes.c_int64),
        ("lock", ctypes.c_int32),
        ("pad", ctypes.c_int32),
    ]
    code: int
    check_id: int
    index: int
    bound: int
    order: int


class Call(ctypes.Structure):
    """``jg_call``: what belongs to one running call; checked out of a free list, so calls may overlap and re-enter."""

    _fields_ = [
        ("arena", ctypes.c_void_p),  # aligned to 64 bytes: scratch memory of the calling thread, then temporaries
        ("arena_bytes", ctypes.c_int64),
        ("blocks", ctypes.c_void_p),  # list of Block: residual stacks; the host frees it after the call
        ("stream", ctypes.c_void_p),
        ("last_poll", ctypes.c_int64),  # cycle counter at the last poll; 0: none yet
        ("error", ErrorRecord),
        ("print_site", ctypes.c_int64),  # which of the signature's prints is asked for
        ("print_operands", ctypes.c_void_p),  # void *const *: the data of its operands, dense and row-major
        ("threads", ctypes.c_int64),  # most threads that take part, the caller included; 0: no limit
        ("reserved", ctypes.c_int64 * 3),
    ]
    arena: int | None
    arena_bytes: int
    blocks: int | None
    stream: int | None
    last_poll: int
    error: ErrorRecord
    print_site: int
    print_operands: int
    threads: int


class Block(ctypes.Structure):
    """Header of one block of a call's growable stacks, 64 bytes; the payload follows."""

    _fields_ = [("next", ctypes.c_void_p), ("base", ctypes.c_void_p), ("bytes", ctypes.c_int64)]
    next: int | None
    base: int  # what alloc gave and free takes


class PoolState(ctypes.Structure):
    """``jg_pool``: the state of the thread pool, a cache line for each group of fields; see codegen/cpu/pool.py."""

    _fields_ = [
        ("busy", ctypes.c_int32),  # 1 while some call runs its chunks on the pool
        ("stop", ctypes.c_int32),  # 1: workers return
        ("workers", ctypes.c_int32),  # threads beside the caller
        ("pad0", ctypes.c_int32),
        ("syscall", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),  # SCRATCH_BYTES for each worker, aligned to 64 bytes
        ("hired", ctypes.c_int64),  # workers that took their part of it
        ("patience", ctypes.c_int64),  # most cycles that a worker stays awake for the next job
        ("pad1", ctypes.c_int64 * 2),
        ("epoch", ctypes.c_int32),  # futex: grows with each job
        ("sleepers", ctypes.c_int32),
        ("unwoken", ctypes.c_int32),  # sleepers that the job wants and nobody has woken yet
        ("pad2", ctypes.c_int32),
        ("spin", ctypes.c_int64),  # cycles that a worker stays awake after its last work
        ("pad3", ctypes.c_int64 * 5),
        ("function", ctypes.c_void_p),  # the job
        ("context", ctypes.c_void_p),
        ("chunks", ctypes.c_int64),
        ("parts", ctypes.c_int64),  # of what is left, a claim takes one in so many
        ("open", ctypes.c_int32),  # 1 while workers may join the job
        ("pad4", ctypes.c_int32 * 7),
        ("next", ctypes.c_int64),  # the next chunk to claim
        ("pad5", ctypes.c_int64 * 7),
        ("entered", ctypes.c_int32),  # futex: workers that are inside a job
        ("waiting", ctypes.c_int32),  # 1 while the caller sleeps on entered
        ("seats", ctypes.c_int64),  # workers that may still join the job
        ("pad6", ctypes.c_int64 * 6),
        ("failure", ctypes.c_uint64),  # lowest (chunk << 32 | code) that failed; all ones: none
        ("pad7", ctypes.c_int64 * 7),
        ("ended", ctypes.c_int64),  # from here on for callers alone: the cycle counter at the end of the last job
        ("gap", ctypes.c_int64),  # cycles between jobs of late, those longer than patience left out
        ("soon", ctypes.c_int64),  # how sure it is that the next job comes within patience: 0 not, 8 most
        ("wake_cost", ctypes.c_int64),  # cycles that it takes the caller to wake others; 0: not known yet
        ("pad8", ctypes.c_int64 * 4),
    ]
    busy: int
    stop: int
    workers: int
    syscall: int | None
    scratch: int | None
    patience: int
    epoch: int
    sleepers: int
    spin: int
    failure: int
    soon: int
    wake_cost: int


ENTRY_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
ARENA_TYPE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
WORKER_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
ASKED_TYPE = ctypes.CFUNCTYPE(ctypes.c_int32)  # what it is given it need not look at
CALLBACK_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)


def _find_libc() -> Any:
    """The C library with all that native code is mapped, fed and called by; None where the system has no such one."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long
        ]  # fmt: skip
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        libc.aligned_alloc.restype = ctypes.c_void_p
        libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
        libc.free.restype = None
        libc.free.argtypes = [ctypes.c_void_p]
        _ = libc.malloc, libc.syscall
    except (OSError, TypeError, AttributeError):  # as Windows refuses, whose libraries all have names
        return None
    return libc


libc = _find_libc()


def function_address(function: Any) -> int:
    """The address of a C function that ctypes knows."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


# ----------------------------------------------------------------------
# Where the fields of the ABI's structures lie, in bytes, for those who write native code.


def _offset(structure: type[ctypes.Structure], name: str) -> int:
    return int(getattr(structure, name).offset)


HOST_ALLOC: Final = _offset(Host, "alloc")
HOST_FREE: Final = _offset(Host, "free")
HOST_PARALLEL_FOR: Final = _offset(Host, "parallel_for")
HOST_POLL: Final = _offset(Host, "poll")
HOST_SYSCALL: Final = _offset(Host, "syscall")
HOST_POOL: Final = _offset(Host, "pool")
HOST_CALLBACK: Final = _offset(Host, "callback")
HOST_DRIVER: Final = _offset(Host, "driver")
HOST_PRINT: Final = _offset(Host, "print")
CALL_ARENA: Final = _offset(Call, "arena")
CALL_ARENA_BYTES: Final = _offset(Call, "arena_bytes")
CALL_BLOCKS: Final = _offset(Call, "blocks")
CALL_STREAM: Final = _offset(Call, "stream")
CALL_LAST_POLL: Final = _offset(Call, "last_poll")
CALL_PRINT_SITE: Final = _offset(Call, "print_site")
CALL_PRINT_OPERANDS: Final = _offset(Call, "print_operands")
CALL_THREADS: Final = _offset(Call, "threads")
CALL_ERROR_CODE: Final = _offset(Call, "error") + _offset(ErrorRecord, "code")
CALL_ERROR_CHECK_ID: Final = _offset(Call, "error") + _offset(ErrorRecord, "check_id")
CALL_ERROR_INDEX: Final = _offset(Call, "error") + _offset(ErrorRecord, "index")
CALL_ERROR_BOUND: Final = _offset(Call, "error") + _offset(ErrorRecord, "bound")
CALL_ERROR_ORDER: Final = _offset(Call, "error") + _offset(ErrorRecord, "order")
CALL_ERROR_LOCK: Final = _offset(Call, "error") + _offset(ErrorRecord, "lock")
BLOCK_NEXT: Final = _offset(Block, "next")
BLOCK_BASE: Final = _offset(Block, "base")
BLOCK_BYTES: Final = _offset(Block, "bytes")
POOL_BUSY: Final = _offset(PoolState, "busy")
POOL_STOP: Final = _offset(PoolState, "stop")
POOL_WORKERS: Final = _offset(PoolState, "workers")
POOL_SYSCALL: Final = _offset(PoolState, "syscall")
POOL_SCRATCH: Final = _offset(PoolState, "scratch")
POOL_HIRED: Final = _offset(PoolState, "hired")
POOL_PATIENCE: Final = _offset(PoolState, "patience")
POOL_EPOCH: Final = _offset(PoolState, "epoch")
POOL_SLEEPERS: Final = _offset(PoolState, "sleepers")
POOL_UNWOKEN: Final = _offset(PoolState, "unwoken")
POOL_SPIN: Final = _offset(PoolState, "spin")
POOL_FUNCTION: Final = _offset(PoolState, "function")
POOL_CONTEXT: Final = _offset(PoolState, "context")
POOL_CHUNKS: Final = _offset(PoolState, "chunks")
POOL_PARTS: Final = _offset(PoolState, "parts")
POOL_OPEN: Final = _offset(PoolState, "open")
POOL_NEXT: Final = _offset(PoolState, "next")
POOL_ENTERED: Final = _offset(PoolState, "entered")
POOL_WAITING: Final = _offset(PoolState, "waiting")
POOL_SEATS: Final = _offset(PoolState, "seats")
POOL_FAILURE: Final = _offset(PoolState, "failure")
POOL_ENDED: Final = _offset(PoolState, "ended")
POOL_GAP: Final = _offset(PoolState, "gap")
POOL_SOON: Final = _offset(PoolState, "soon")
POOL_WAKE_COST: Final = _offset(PoolState, "wake_cost")
