"""The native runtime that images carry, as LLVM IR: parallel loops, polls, failure records, growable stacks.

- ``i32 jg_parallel_for(host, call, fn, ctx, i64 chunks)`` runs ``i32 fn(ctx, i64 chunk, scratch)`` for each chunk.
- ``i32 jg_worker(pool)`` is what a thread of the pool runs until it is told to stop.
- ``i32 jg_poll(host, call)`` gives INTERRUPTED where the user asks to stop, else 0; cheap enough for any loop.
- ``i32 jg_poll_anywhere(host, call, scratch)`` is the same for loops that may stand in a chunk.
- ``i32 jg_fail(call, i32 check_id, i64 index, i64 bound, i64 order)`` notes a failed check and gives CHECK_FAILED.
- ``ptr jg_block(host, call, i64 bytes)`` gives 64-byte aligned memory until the call ends, or null.

Parallel loops. What a chunk does depends on its number alone, never on who runs it, so results do not depend on the
number of threads. ``scratch`` is memory of the thread that runs it (``scratch.py``); the chunks of a loop inside a
chunk leave it alone. The caller takes part. It owns the pool while ``busy`` is 1; whoever finds it busy (a loop inside
a chunk, another thread's call) runs its chunks itself, in order. Chunks are claimed by an atomic counter. After a chunk
fails no further one is claimed, but each that was claimed ends; so the lowest failing chunk always runs, and its code
is the result. ``order`` of ``jg_fail`` is the chunk's number (0 outside a loop), by which the record keeps the failure
of that same chunk.

A worker joins by adding 1 to ``entered`` and then looking at ``open``; the caller ends a job by clearing ``open`` and
then waiting for ``entered`` to be 0. Both are sequentially consistent, so a worker that comes late either sees the job
closed or is waited for, and no worker reads the fields of a job while they change. The caller waits for no thread that
has not joined: a job of few short chunks costs one futex call at most. Workers spin for about 20 us of the cycle
counter, then for about 200 us give way to any other thread, since waking a sleeper takes long where the processor is a
virtual one, then sleep on ``epoch``, which grows with each job.

Only the calling thread may ask the host. ``jg_parallel_for`` polls between the caller's chunks; inside a chunk
``jg_poll_anywhere`` knows the calling thread by its scratch memory, and another thread stops where the caller was told
to: what a call has written is lost then in any case.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.ir.target import Target
from jitgraph.runtime import loader
from jitgraph.runtime.loader import offsets

EXPORTS: Final = {"worker": "jg_worker", "parallel_for": "jg_parallel_for"}
"""For ``linker.link``, beside the entry, where ``runtime_object`` is among the objects."""

DECLARATIONS: Final = """
declare i32 @jg_parallel_for(ptr, ptr, ptr, ptr, i64) nounwind
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


_SPIN_CYCLES: Final = 50_000
_YIELD_CYCLES: Final = 500_000
_SCHED_YIELD: Final = 24
_POLL_CYCLES: Final = 1 << 27  # about 50 ms: 27 ms at 5 GHz, 107 ms at 1.25 GHz
_FUTEX: Final = 202
_WAIT: Final = 128  # FUTEX_WAIT_PRIVATE
_WAKE: Final = 129


def _field(result: str, base: str, offset: int) -> str:
    return f"  {result} = getelementptr i8, ptr {base}, i64 {offset}\n"


_FIELDS: Final = (
    _field("%busy", "%pool", offsets.POOL_BUSY)
    + _field("%stop", "%pool", offsets.POOL_STOP)
    + _field("%workers", "%pool", offsets.POOL_WORKERS)
    + _field("%syscall.at", "%pool", offsets.POOL_SYSCALL)
    + _field("%epoch", "%pool", offsets.POOL_EPOCH)
    + _field("%sleepers", "%pool", offsets.POOL_SLEEPERS)
    + _field("%function", "%pool", offsets.POOL_FUNCTION)
    + _field("%context", "%pool", offsets.POOL_CONTEXT)
    + _field("%chunks.at", "%pool", offsets.POOL_CHUNKS)
    + _field("%open", "%pool", offsets.POOL_OPEN)
    + _field("%next", "%pool", offsets.POOL_NEXT)
    + _field("%entered", "%pool", offsets.POOL_ENTERED)
    + _field("%waiting", "%pool", offsets.POOL_WAITING)
    + _field("%failure", "%pool", offsets.POOL_FAILURE)
)

# The calling thread's scratch memory begins its call's arena.
_SCRATCH: Final = _field("%scratch.at", "%call", offsets.CALL_ARENA) + "  %scratch = load ptr, ptr %scratch.at\n"


def _wait_a_little(again: str) -> str:
    """Back to ``again`` until the cycle counter is too far from ``%since``, then on to ``sleep``."""
    return f"""  %now = call i64 @llvm.readcyclecounter()
  %waited = sub i64 %now, %since
  %patient = icmp ult i64 %waited, {_SPIN_CYCLES}
  br i1 %patient, label %{again}, label %give.way
give.way:
  %tired = icmp ugt i64 %waited, {_YIELD_CYCLES}
  br i1 %tired, label %sleep, label %yield
yield:
  %yielded = call i64 (i64, ...) %syscall(i64 {_SCHED_YIELD})
  br label %{again}"""


# Claims and runs chunks of the pool's job. %host is null on a worker, which never polls.
_CLAIM: Final = f"""
define internal void @jg_claim(ptr %pool, ptr %host, ptr %call, ptr %scratch) nounwind {{
{_FIELDS}
  %fn = load ptr, ptr %function
  %ctx = load ptr, ptr %context
  %chunks = load i64, ptr %chunks.at
  %polls = icmp ne ptr %host, null
  br label %look
look:
  %failed = load atomic i64, ptr %failure monotonic, align 8
  %sound = icmp eq i64 %failed, -1
  br i1 %sound, label %claim, label %done
claim:
  %chunk = atomicrmw add ptr %next, i64 1 monotonic
  %left = icmp slt i64 %chunk, %chunks
  br i1 %left, label %work, label %done
work:
  %code = call i32 %fn(ptr %ctx, i64 %chunk, ptr %scratch)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %note, label %after
note:
  %high = shl i64 %chunk, 32
  %low = zext i32 %code to i64
  %key = or i64 %high, %low
  %old = atomicrmw umin ptr %failure, i64 %key monotonic
  br label %look
after:
  br i1 %polls, label %poll, label %look
poll:
  %asked = call i32 @jg_poll(ptr %host, ptr %call)
  %interrupted = icmp ne i32 %asked, 0
  br i1 %interrupted, label %give.up, label %look
give.up:
  %first = zext i32 %asked to i64
  %older = atomicrmw umin ptr %failure, i64 %first monotonic
  br label %done
done:
  ret void
}}
"""

_WORKER: Final = f"""
define i32 @jg_worker(ptr %pool) nounwind {{
start:
{_FIELDS}
  %syscall = load ptr, ptr %syscall.at
{_field("%first.at", "%pool", offsets.POOL_SCRATCH)}
{_field("%hired.at", "%pool", offsets.POOL_HIRED)}
  %first = load ptr, ptr %first.at
  %number = atomicrmw add ptr %hired.at, i64 1 monotonic
  %offset = mul i64 %number, {loader.SCRATCH_BYTES}
  %scratch = getelementptr i8, ptr %first, i64 %offset
  br label %again
again:
  %seen = load atomic i32, ptr %epoch seq_cst, align 4
  %told = load atomic i32, ptr %stop seq_cst, align 4
  %stopped = icmp ne i32 %told, 0
  br i1 %stopped, label %home, label %join
join:
  %inside = atomicrmw add ptr %entered, i32 1 seq_cst
  %is.open = load atomic i32, ptr %open seq_cst, align 4
  %work = icmp ne i32 %is.open, 0
  br i1 %work, label %claim, label %leave
claim:
  call void @jg_claim(ptr %pool, ptr null, ptr null, ptr %scratch)
  br label %leave
leave:
  %before = atomicrmw sub ptr %entered, i32 1 seq_cst
  %last = icmp eq i32 %before, 1
  br i1 %last, label %last.out, label %rest
last.out:
  %awaited = load atomic i32, ptr %waiting seq_cst, align 4
  %wakes = icmp ne i32 %awaited, 0
  br i1 %wakes, label %wake, label %rest
wake:
  %woken = call i64 (i64, ...) %syscall(i64 {_FUTEX}, ptr %entered, i64 {_WAKE}, i64 1, ptr null, ptr null, i64 0)
  br label %rest
rest:
  %since = call i64 @llvm.readcyclecounter()
  br label %spin
spin:
  %now.epoch = load atomic i32, ptr %epoch seq_cst, align 4
  %new = icmp ne i32 %now.epoch, %seen
  br i1 %new, label %again, label %pause
pause:
  call void @llvm.x86.sse2.pause()
{_wait_a_little("spin")}
sleep:
  %more = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %seen.64 = zext i32 %seen to i64
  %slept = call i64 (i64, ...) %syscall(i64 {_FUTEX}, ptr %epoch, i64 {_WAIT}, i64 %seen.64, ptr null, ptr null, i64 0)
  %fewer = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %again
home:
  ret i32 0
}}
"""

_PARALLEL_FOR: Final = f"""
define i32 @jg_parallel_for(ptr %host, ptr %call, ptr %fn, ptr %ctx, i64 %chunks) nounwind {{
start:
{_field("%own.at", "%host", offsets.HOST_PARALLEL_FOR)}
  %own = load ptr, ptr %own.at
  %has.own = icmp ne ptr %own, null
  br i1 %has.own, label %delegate, label %ours
delegate:
  %theirs = call i32 %own(ptr %host, ptr %call, ptr %fn, ptr %ctx, i64 %chunks)
  ret i32 %theirs
ours:
{_SCRATCH}{_field("%pool.at", "%host", offsets.HOST_POOL)}
  %pool = load ptr, ptr %pool.at
  %alone = icmp eq ptr %pool, null
  br i1 %alone, label %polled, label %with.pool
with.pool:
{_FIELDS}
  %count = load atomic i32, ptr %workers monotonic, align 4
  %none = icmp slt i32 %count, 1
  br i1 %none, label %polled, label %any
any:
  %single = icmp slt i64 %chunks, 2
  br i1 %single, label %serial, label %acquire
acquire:
  %taken = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue {{ i32, i1 }} %taken, 1
  br i1 %free, label %publish, label %serial

publish:
  %syscall = load ptr, ptr %syscall.at
  store ptr %fn, ptr %function
  store ptr %ctx, ptr %context
  store i64 %chunks, ptr %chunks.at
  store atomic i64 0, ptr %next monotonic, align 8
  store atomic i64 -1, ptr %failure monotonic, align 8
  store atomic i32 1, ptr %open seq_cst, align 4
  %grown = atomicrmw add ptr %epoch, i32 1 seq_cst
  %asleep = load atomic i32, ptr %sleepers seq_cst, align 4
  %any.asleep = icmp ne i32 %asleep, 0
  br i1 %any.asleep, label %wake, label %work
wake:
  %others = sub i64 %chunks, 1
  %wanted = call i64 @llvm.smin.i64(i64 %others, i64 2147483647)
  %woken = call i64 (i64, ...) %syscall(i64 {_FUTEX}, ptr %epoch, i64 {_WAKE}, i64 %wanted, ptr null, ptr null, i64 0)
  br label %work
work:
  call void @jg_claim(ptr %pool, ptr %host, ptr %call, ptr %scratch)
  store atomic i32 0, ptr %open seq_cst, align 4
  %since = call i64 @llvm.readcyclecounter()
  br label %wait
wait:
  %inside = load atomic i32, ptr %entered seq_cst, align 4
  %all.out = icmp eq i32 %inside, 0
  br i1 %all.out, label %finish, label %pause
pause:
  call void @llvm.x86.sse2.pause()
{_wait_a_little("wait")}
sleep:
  store atomic i32 1, ptr %waiting seq_cst, align 4
  %inside.64 = zext i32 %inside to i64
  %slept = call i64 (i64, ...)
    %syscall(i64 {_FUTEX}, ptr %entered, i64 {_WAIT}, i64 %inside.64, ptr null, ptr null, i64 0)
  store atomic i32 0, ptr %waiting seq_cst, align 4
  br label %wait
finish:
  %lowest = load atomic i64, ptr %failure monotonic, align 8
  %sound = icmp eq i64 %lowest, -1
  %low = trunc i64 %lowest to i32
  %result = select i1 %sound, i32 0, i32 %low
  store atomic i32 0, ptr %busy release, align 4
  ret i32 %result

serial:
  br label %loop
polled:
  br label %loop
loop:
  %polls = phi i1 [ false, %serial ], [ true, %polled ], [ %polls, %next.chunk ]
  %i = phi i64 [ 0, %serial ], [ 0, %polled ], [ %i.next, %next.chunk ]
  %left = icmp slt i64 %i, %chunks
  br i1 %left, label %one, label %done
one:
  %code = call i32 %fn(ptr %ctx, i64 %i, ptr %scratch)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %failed, label %good
good:
  %i.next = add i64 %i, 1
  br i1 %polls, label %poll, label %next.chunk
poll:
  %asked = call i32 @jg_poll(ptr %host, ptr %call)
  %interrupted = icmp ne i32 %asked, 0
  br i1 %interrupted, label %give.up, label %next.chunk
next.chunk:
  br label %loop
failed:
  ret i32 %code
give.up:
  ret i32 %asked
done:
  ret i32 0
}}
"""

_POLL: Final = f"""
define i32 @jg_poll(ptr %host, ptr %call) nounwind {{
{_field("%poll.at", "%host", offsets.HOST_POLL)}
{_field("%last.at", "%call", offsets.CALL_LAST_POLL)}
  %now = call i64 @llvm.readcyclecounter()
  %last = load i64, ptr %last.at
  %passed = sub i64 %now, %last
  %early = icmp ult i64 %passed, {_POLL_CYCLES}
  br i1 %early, label %go.on, label %due
due:
  store i64 %now, ptr %last.at
  %first = icmp eq i64 %last, 0
  br i1 %first, label %go.on, label %ask
ask:
  %poll = load ptr, ptr %poll.at
  %has = icmp ne ptr %poll, null
  br i1 %has, label %call.it, label %go.on
call.it:
  %asked = call i32 %poll(ptr %host)
  %yes = icmp ne i32 %asked, 0
  %result = select i1 %yes, i32 {loader.INTERRUPTED}, i32 0
  ret i32 %result
go.on:
  ret i32 0
}}
"""

# A chunk that was interrupted is noted as a failure with its number above the code.
_POLL_ANYWHERE: Final = f"""
define i32 @jg_poll_anywhere(ptr %host, ptr %call, ptr %scratch) nounwind {{
{_field("%arena.at", "%call", offsets.CALL_ARENA)}
  %arena = load ptr, ptr %arena.at
  %own = icmp eq ptr %scratch, %arena
  br i1 %own, label %caller, label %other
caller:
  %asked = call i32 @jg_poll(ptr %host, ptr %call)
  ret i32 %asked
other:
{_field("%pool.at", "%host", offsets.HOST_POOL)}
  %pool = load ptr, ptr %pool.at
  %alone = icmp eq ptr %pool, null
  br i1 %alone, label %go.on, label %look
look:
{_field("%failure.at", "%pool", offsets.POOL_FAILURE)}
  %failure = load atomic i64, ptr %failure.at monotonic, align 8
  %code = trunc i64 %failure to i32
  %stopped = icmp eq i32 %code, {loader.INTERRUPTED}
  %result = select i1 %stopped, i32 {loader.INTERRUPTED}, i32 0
  ret i32 %result
go.on:
  ret i32 0
}}
"""

_FAIL: Final = f"""
define i32 @jg_fail(ptr %call, i32 %check, i64 %index, i64 %bound, i64 %order) nounwind cold noinline {{
start:
{_field("%code.at", "%call", offsets.CALL_ERROR_CODE)}
{_field("%check.at", "%call", offsets.CALL_ERROR_CHECK_ID)}
{_field("%index.at", "%call", offsets.CALL_ERROR_INDEX)}
{_field("%bound.at", "%call", offsets.CALL_ERROR_BOUND)}
{_field("%order.at", "%call", offsets.CALL_ERROR_ORDER)}
{_field("%lock", "%call", offsets.CALL_ERROR_LOCK)}
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

_BLOCK: Final = f"""
define ptr @jg_block(ptr %host, ptr %call, i64 %bytes) nounwind {{
start:
{_field("%alloc.at", "%host", offsets.HOST_ALLOC)}
{_field("%blocks.at", "%call", offsets.CALL_BLOCKS)}
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
{_field("%next.at", "%header", offsets.BLOCK_NEXT)}
{_field("%base.at", "%header", offsets.BLOCK_BASE)}
{_field("%bytes.at", "%header", offsets.BLOCK_BYTES)}
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

IR: Final = (
    """
declare i64 @llvm.readcyclecounter()
declare void @llvm.x86.sse2.pause()
declare i64 @llvm.smin.i64(i64, i64)
"""
    + _CLAIM
    + _WORKER
    + _PARALLEL_FOR
    + _POLL
    + _POLL_ANYWHERE
    + _FAIL
    + _BLOCK
)


@cache
def runtime_object(target: Target) -> bytes:
    """The native runtime as an object to link with emitted code; made once per target."""
    return machine.assemble(IR, target)
