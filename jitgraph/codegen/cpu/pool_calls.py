"""What emitted code asks of the native runtime beside loops, as LLVM IR: polls, records of failures, memory.

Only the calling thread may ask the host. ``jg_parallel_for`` polls between the caller's chunks; inside a chunk
``jg_poll_anywhere`` knows the calling thread by its scratch memory, and another thread stops where the caller was told
to: what a call has written is lost then in any case.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cpu.pool_fields import field
from jitgraph.codegen.llvm import polling
from jitgraph.runtime import loader
from jitgraph.runtime.loader import offsets

POLL: Final = f"\n{polling.POLL.text()}\n"

# A chunk that was interrupted is noted as a failure with its number above the code.
POLL_ANYWHERE: Final = f"""
define i32 @jg_poll_anywhere(ptr %host, ptr %call, ptr %scratch) nounwind {{
{field("%arena.at", "%call", offsets.CALL_ARENA)}
  %arena = load ptr, ptr %arena.at
  %own = icmp eq ptr %scratch, %arena
  br i1 %own, label %caller, label %other
caller:
  %asked = call i32 @jg_poll(ptr %host, ptr %call)
  ret i32 %asked
other:
{field("%pool.at", "%host", offsets.HOST_POOL)}
  %pool = load ptr, ptr %pool.at
  %alone = icmp eq ptr %pool, null
  br i1 %alone, label %go.on, label %look
look:
{field("%failure.at", "%pool", offsets.POOL_FAILURE)}
  %failure = load atomic i64, ptr %failure.at monotonic, align 8
  %code = trunc i64 %failure to i32
  %stopped = icmp eq i32 %code, {loader.INTERRUPTED}
  %result = select i1 %stopped, i32 {loader.INTERRUPTED}, i32 0
  ret i32 %result
go.on:
  ret i32 0
}}
"""

FAIL: Final = f"""
define i32 @jg_fail(ptr %call, i32 %check, i64 %index, i64 %bound, i64 %order) nounwind cold noinline {{
start:
{field("%code.at", "%call", offsets.CALL_ERROR_CODE)}
{field("%check.at", "%call", offsets.CALL_ERROR_CHECK_ID)}
{field("%index.at", "%call", offsets.CALL_ERROR_INDEX)}
{field("%bound.at", "%call", offsets.CALL_ERROR_BOUND)}
{field("%order.at", "%call", offsets.CALL_ERROR_ORDER)}
{field("%lock", "%call", offsets.CALL_ERROR_LOCK)}
  br label %try
try:
  %held = atomicrmw xchg ptr %lock, i32 1 acquire
  %got = icmp eq i32 %held, 0
  br i1 %got, label %locked, label %spin
spin:
  call void @llvm.x86.sse2.pause()
  br label %try
locked:
  %code = load i32, ptr %code.at
  %empty = icmp eq i32 %code, 0
  %best = load i64, ptr %order.at
  %earlier = icmp slt i64 %order, %best
  %wins = or i1 %empty, %earlier
  br i1 %wins, label %write, label %unlock
write:
  store i32 {loader.CHECK_FAILED}, ptr %code.at
  store i32 %check, ptr %check.at
  store i64 %index, ptr %index.at
  store i64 %bound, ptr %bound.at
  store i64 %order, ptr %order.at
  br label %unlock
unlock:
  store atomic i32 0, ptr %lock release, align 4
  ret i32 {loader.CHECK_FAILED}
}}
"""

# A block begins with its header, aligned so that the payload behind it is aligned to 64 bytes.
_HEADER_BYTES: Final = loader.ALIGNMENT
_SLACK: Final = _HEADER_BYTES + loader.ALIGNMENT - 1

BLOCK: Final = f"""
define ptr @jg_block(ptr %host, ptr %call, i64 %bytes) nounwind {{
start:
{field("%alloc.at", "%host", offsets.HOST_ALLOC)}
{field("%blocks.at", "%call", offsets.CALL_BLOCKS)}
  %alloc = load ptr, ptr %alloc.at
  %has = icmp ne ptr %alloc, null
  %fits = icmp ult i64 %bytes, {2**63 - 1 - _SLACK}
  %try = and i1 %has, %fits
  br i1 %try, label %ask, label %refuse
ask:
  %total = add i64 %bytes, {_SLACK}
  %base = call ptr %alloc(i64 %total)
  %got = icmp ne ptr %base, null
  br i1 %got, label %enlist, label %refuse
enlist:
  %address = ptrtoint ptr %base to i64
  %up = add i64 %address, {loader.ALIGNMENT - 1}
  %aligned = and i64 %up, {-loader.ALIGNMENT}
  %skip = sub i64 %aligned, %address
  %header = getelementptr i8, ptr %base, i64 %skip
{field("%next.at", "%header", offsets.BLOCK_NEXT)}
{field("%base.at", "%header", offsets.BLOCK_BASE)}
{field("%bytes.at", "%header", offsets.BLOCK_BYTES)}
  %older = load ptr, ptr %blocks.at
  store ptr %older, ptr %next.at
  store ptr %base, ptr %base.at
  store i64 %bytes, ptr %bytes.at
  store ptr %header, ptr %blocks.at
  %payload = getelementptr i8, ptr %header, i64 {_HEADER_BYTES}
  ret ptr %payload
refuse:
  ret ptr null
}}
"""
