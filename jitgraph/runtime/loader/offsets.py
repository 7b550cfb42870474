"""Where the fields of the ABI's structures lie, in bytes, for those who write native code."""

from __future__ import annotations

import ctypes
from typing import Final

from jitgraph.runtime.loader.abi import Block, Call, ErrorRecord, Host, PoolState


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
