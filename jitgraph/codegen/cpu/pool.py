"""The native runtime that images carry, as LLVM IR: parallel loops, polls, failure records, growable stacks.

- ``i32 jg_parallel_for(host, call, fn, ctx, i64 chunks)`` runs ``i32 fn(ctx, i64 chunk, scratch)`` for each chunk.
- ``i32 jg_share(host, call, fn, ctx, i64 chunks, double cost)`` is the same where a chunk is estimated to take so many
  vector instructions.
- ``i32 jg_worker(pool)`` is what a thread of the pool runs until it is told to stop.
- ``i32 jg_poll(host, call)`` gives INTERRUPTED where the user asks to stop, else 0; cheap enough for any loop.
- ``i32 jg_poll_anywhere(host, call, scratch)`` is the same for loops that may stand in a chunk.
- ``i32 jg_fail(call, i32 check_id, i64 index, i64 bound, i64 order)`` notes a failed check and gives CHECK_FAILED.
- ``ptr jg_block(host, call, i64 bytes)`` gives 64-byte aligned memory until the call ends, or null.

How threads share loops stands in ``pool_launch.py`` (launches), ``pool_claims.py`` (chunks), ``pool_threads.py`` (the
threads) and ``pool_waking.py`` (how they wait and wake), all else in ``pool_calls.py``.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cpu import pool_calls, pool_claims, pool_launch, pool_threads, pool_waking
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.ir.target import Target

EXPORTS: Final = {"worker": "jg_worker", "parallel_for": "jg_parallel_for"}
"""For ``linker.link``, beside the entry, where the runtime is among the objects."""

DECLARATIONS: Final = """
declare i32 @jg_parallel_for(ptr, ptr, ptr, ptr, i64) nounwind
declare i32 @jg_share(ptr, ptr, ptr, ptr, i64, double) nounwind
declare i32 @jg_poll(ptr, ptr) nounwind
declare i32 @jg_poll_anywhere(ptr, ptr, ptr) nounwind
declare i32 @jg_fail(ptr, i32, i64, i64, i64) nounwind
declare ptr @jg_block(ptr, ptr, i64) nounwind
"""
"""For modules that call the functions."""

REQUIRED: Final = ("runtime",)


def declare(module: LlvmModule) -> None:
    """Let ``module`` call the functions, and have them linked."""
    module.declare(DECLARATIONS)
    module.require(*REQUIRED)
    module.require("ranges")


IR: Final = (
    """
declare i64 @llvm.readcyclecounter()
declare void @llvm.x86.sse2.pause()
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i32 @llvm.smin.i32(i32, i32)
"""
    + pool_claims.CLAIM
    + pool_waking.LEARN
    + pool_waking.ROUSE
    + pool_waking.AWAKEN
    + pool_threads.WORKER
    + pool_launch.PARALLEL_FOR
    + pool_launch.SHARE
    + pool_calls.POLL
    + pool_calls.POLL_ANYWHERE
    + pool_calls.FAIL
    + pool_calls.BLOCK
)


def runtime_module(target: Target) -> LlvmModule:
    """The native runtime, to link with emitted code."""
    return LlvmModule(machine.TRIPLE, IR)
